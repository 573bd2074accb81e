//! `partitions` beside other sessions: readers, writers, old snapshots, autovacuum, copies of itself, kills.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::partition_bed::{PartitionBed, count, of, table};

/// Patience short enough for a test.
const SHORT: &str = "[partitions]\nwait_budget = \"2s\"\nlock_timeout = \"2s\"\n";

async fn short_events() -> PartitionBed {
    let bed = PartitionBed::new(&format!("{SHORT}{}", table("shop.events", ""))).await;
    bed.table("events").await;
    bed
}

/// Inserts through the parent until told to stop; gives the longest insert.
fn writer(bed: &PartitionBed, stop: &Arc<AtomicBool>, number: i64) -> tokio::task::JoinHandle<Duration> {
    let (url, stop) = (bed.bed.database().url.expose().to_owned(), Arc::clone(stop));
    tokio::spawn(async move {
        let mut session = sqlx::PgConnection::connect(&url).await.unwrap();
        let mut longest = Duration::ZERO;
        let mut id = number * 1_000_000;
        while !stop.load(Ordering::Relaxed) {
            id += 1;
            let begun = Instant::now();
            sqlx::query("INSERT INTO shop.events VALUES ($1, now())").bind(id).execute(&mut session).await.unwrap();
            longest = longest.max(begun.elapsed());
        }
        longest
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_writer_waits_for_an_open_reader_while_days_come_and_go() {
    let bed = PartitionBed::events().await;
    bed.make("events", 0).await;
    bed.make("events", -10).await;
    bed.sql(&format!(
        "INSERT INTO shop.events SELECT n, '{} 13:00+00' FROM generate_series(1, 100000) n",
        bed.day(-10)
    ))
    .await;
    let reader = bed.reader("events").await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..=4).map(|number| writer(&bed, &stop, number)).collect();
    let run = bed.start(&[]);
    bed.until_waiting("CONCURRENTLY").await;
    // From here on each writer has seen the detach wait for the reader.
    tokio::time::sleep(Duration::from_secs(3)).await;
    reader.close().await.unwrap();
    let output = tokio::task::spawn_blocking(|| run.wait_with_output().unwrap()).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    let mut longest = Duration::ZERO;
    for writer in writers {
        longest = longest.max(writer.await.unwrap());
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!bed.exists(&bed.child("events", -10)).await, "gone when the command ends");
    assert_eq!(bed.attached("events").await, 6);
    // Behind a plain DROP each would have waited the reader's three seconds.
    assert!(longest < Duration::from_secs(1), "an insert took {longest:?}");
}

#[tokio::test]
async fn an_interrupted_detach_is_finished_first_whatever_the_retention_says_by_then() {
    let bed = short_events().await;
    bed.make_coming("events").await;
    bed.make("events", -6).await;
    let reader = bed.reader("events").await;
    let ran = bed.run(&[]).expect(0);
    assert_eq!(ran.json()["outcome"], "deferred");
    let deferred = of(&ran, "shop.events")["deferred"][0].clone();
    assert!(deferred["blockers"][0]["pid"].as_i64().unwrap() > 0, "{deferred}");
    assert!(deferred["blockers"][0]["query_start"].is_string(), "{deferred}");
    assert_eq!(bed.pending().await, 1);
    let check = bed.bed.run(&["check"]).expect(0);
    assert!(check.stdout.contains("is pending, begun"), "{}", check.stdout);
    bed.sql("UPDATE idem.partition_ledger SET created_at = created_at - interval '2h' WHERE finished_at IS NULL").await;
    bed.bed.run(&["check"]).expect(10);
    reader.close().await.unwrap();

    bed.bed.file("jobs.toml", format!("{SHORT}{}", table("shop.events", "retention = \"10d\"")));
    bed.make("events", -20).await;
    let ran = bed.bed.run(&["partitions", "-vv", "--output", "json"]).expect(0);
    let events = of(&ran, "shop.events");
    assert_eq!(bed.pending().await, 0);
    assert_eq!((count(&events, "finalized"), count(&events, "reattached"), count(&events, "dropped")), (1, 1, 1));
    let (young, old) = (bed.child("events", -6), bed.child("events", -20));
    assert!(
        bed.bounds("events").await.iter().any(|b| b.starts_with(&young)),
        "too young to go: it is back, with its row"
    );
    assert_eq!(bed.number(&format!("SELECT count(*) FROM shop.events WHERE created_at < '{}'", bed.day(-5))).await, 1);
    assert!(!bed.exists(&old).await);
    let finalizes: Vec<_> = ran.stderr.lines().filter(|line| line.contains("FINALIZE")).collect();
    assert!(finalizes.len() == 1 && finalizes[0].contains(&young), "only ever the pending child: {finalizes:?}");
}

#[tokio::test]
async fn a_detach_that_somebody_else_began_is_finished_and_the_table_left_to_them() {
    let bed = PartitionBed::events().await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    bed.leave_pending("events", -10).await;
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!((count(&events, "finalized"), count(&events, "dropped")), (1, 0));
    assert!(bed.exists(&bed.child("events", -10)).await, "no row of the ledger, no drop");
}

#[tokio::test]
async fn an_old_snapshot_on_an_unrelated_table_defers_the_finish_and_nothing_else() {
    let toml = format!("{SHORT}{}{}", table("shop.events", ""), table("shop.other", ""));
    let bed = PartitionBed::new(&toml).await;
    bed.table("events").await;
    bed.table("other").await;
    bed.make("events", -10).await;
    bed.leave_pending("events", -10).await;
    bed.sql("CREATE TABLE shop.unrelated ()").await;
    let mut old = bed.session().await;
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM shop.unrelated").await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut old).await.unwrap();
    let begun = Instant::now();
    let ran = bed.run(&[]).expect(0);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(ran.json()["outcome"], "deferred");
    let events = of(&ran, "shop.events");
    assert_eq!(events["deferred"][0]["blockers"][0]["pid"], pid, "{events}");
    assert_eq!(count(&events, "created"), 6);
    assert_eq!(count(&of(&ran, "shop.other"), "created"), 6);
    old.close().await.unwrap();
    bed.run(&[]).expect(0);
    assert_eq!(bed.pending().await, 0);
}

#[tokio::test]
async fn a_migration_beside_a_pending_detach_does_not_keep_the_day_for_ever() {
    let bed = short_events().await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    let reader = bed.reader("events").await;
    bed.run(&[]).expect(0);
    reader.close().await.unwrap();
    assert_eq!(bed.pending().await, 1);
    bed.sql("ALTER TABLE shop.events ADD COLUMN later text").await;
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert!(!bed.exists(&bed.child("events", -10)).await);
    if bed.number("SELECT current_setting('server_version_num')::bigint / 10000").await >= 18 {
        // There FINALIZE itself fails after such a change.
        assert!(events["notes"].to_string().contains("its detach could not be finished"), "{events}");
    } else {
        assert_eq!(count(&events, "finalized"), 1);
    }
}

#[tokio::test]
async fn a_referenced_table_that_others_hold_defers_and_is_not_stormed() {
    let bed = PartitionBed::new(&format!("{SHORT}{}{}", table("shop.events", ""), table("shop.other", ""))).await;
    bed.table("events").await;
    bed.table("other").await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    bed.sql("CREATE TABLE shop.rest PARTITION OF shop.events DEFAULT").await;
    let reader = bed.reader("events").await;
    let begun = Instant::now();
    let ran = bed.bed.run(&["partitions", "-vv", "--output", "json"]).expect(0);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(of(&ran, "shop.events")["outcome"], "deferred");
    assert_eq!(count(&of(&ran, "shop.other"), "created"), 6);
    let tries = ran.stderr.lines().filter(|line| line.contains("LOCK TABLE ONLY")).count();
    assert!((2..=20).contains(&tries), "{tries} tries");
    reader.close().await.unwrap();
    assert_eq!(bed.number(ADVISORY).await, 0, "the lock is free again");
    bed.run(&[]).expect(0);
    assert!(!bed.exists(&bed.child("events", -10)).await);
}

#[tokio::test]
async fn of_three_copies_one_works_and_two_say_so() {
    let bed = PartitionBed::events().await;
    bed.make("events", -10).await;
    let reader = bed.reader("events").await;
    let first = bed.start(&[]);
    bed.until_waiting("CONCURRENTLY").await;
    for _ in 0..2 {
        let begun = Instant::now();
        let ran = bed.bed.run(&["partitions"]).expect(0);
        assert_eq!(ran.stdout, "busy: another run holds the lock; nothing was done\n");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    reader.close().await.unwrap();
    let output = first.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(bed.attached("events").await, 6);

    bed.make("events", -9).await;
    let copies: Vec<_> = (0..3).map(|_| bed.start(&[])).collect();
    for copy in copies {
        assert_eq!(copy.wait_with_output().unwrap().status.code(), Some(0));
    }
    assert_eq!(bed.attached("events").await, 6);
    assert_eq!(bed.number("SELECT count(*) FROM idem.partition_ledger WHERE state = 'dropped'").await, 2);
    assert_eq!(bed.number(ADVISORY).await, 0);
}

/// Session locks of this database.
const ADVISORY: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Sessions of the program that are still there.
const OURS: &str = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                                       AND application_name = 'idem-jobs')";

#[tokio::test]
async fn asked_to_stop_while_it_waits_it_stops_and_its_statement_with_it() {
    let bed = PartitionBed::events().await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    let reader = bed.reader("events").await;
    let mut run = bed.start(&[]);
    bed.until_waiting("CONCURRENTLY").await;
    let begun = Instant::now();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(run.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(143));
    assert!(begun.elapsed() < Duration::from_secs(5));
    bed.until(OURS).await;
    reader.close().await.unwrap();
    bed.run(&[]).expect(0);
    assert_eq!((bed.attached("events").await, bed.pending().await), (6, 0));
}

/// What stands in the way of a step, so that the kill falls into it.
struct Moment {
    what: &'static str,
    /// Run by another session, which keeps its transaction open.
    hold: &'static str,
    /// The statement that then waits.
    waits: &'static str,
    /// The day has been detached by an earlier run.
    detached: bool,
}

#[tokio::test]
async fn killed_in_the_middle_of_any_step_one_more_run_ends_the_removal() {
    let moments = [
        Moment {
            what: "noting the intent",
            hold: "LOCK TABLE idem.partition_ledger IN SHARE MODE",
            waits: "INSERT INTO idem.partition_ledger",
            detached: false,
        },
        Moment {
            what: "the first wait of the detach",
            hold: "LOCK TABLE ONLY shop.events IN SHARE UPDATE EXCLUSIVE MODE",
            waits: "CONCURRENTLY",
            detached: false,
        },
        Moment {
            what: "the second wait of the detach",
            hold: "SELECT count(*) FROM shop.events",
            waits: "CONCURRENTLY",
            detached: false,
        },
        Moment { what: "the drop", hold: "SELECT count(*) FROM ONLY shop.old", waits: "DROP TABLE", detached: true },
        Moment {
            what: "the note that it is dropped",
            hold: "LOCK TABLE idem.partition_ledger IN SHARE MODE",
            waits: "UPDATE idem.partition_ledger",
            detached: true,
        },
    ];
    for Moment { what, hold, waits, detached } in moments {
        let bed = PartitionBed::events().await;
        bed.make_coming("events").await;
        bed.make("events", -10).await;
        if detached {
            bed.bed.file("jobs.toml", table("shop.events", "drop = false"));
            bed.run(&[]).expect(0);
            bed.bed.file("jobs.toml", table("shop.events", ""));
        }
        let old = bed.child("events", -10);
        let mut holder = bed.session().await;
        let hold = hold.replace("shop.old", &format!("shop.{old}"));
        holder.execute(AssertSqlSafe(format!("BEGIN; {hold}"))).await.unwrap();
        let mut run = bed.start(&[]);
        bed.until_waiting(waits).await;
        run.kill().unwrap();
        run.wait().unwrap();
        let killed = Instant::now();
        bed.until(OURS).await;
        assert!(killed.elapsed() < Duration::from_secs(2), "{what}: ours for {:?}", killed.elapsed());
        bed.sql(&format!("INSERT INTO shop.events VALUES (77, '{} 12:00+00')", bed.today)).await;
        assert!(bed.exists(&old).await, "{what}: nothing went on without us");
        holder.close().await.unwrap();

        bed.run(&[]).expect(0);
        assert!(!bed.exists(&old).await, "{what}: the day is gone");
        assert_eq!((bed.attached("events").await, bed.pending().await), (6, 0), "{what}");
        let open = "SELECT count(*) FROM idem.partition_ledger WHERE finished_at IS NULL";
        assert_eq!(bed.number(open).await, 0, "{what}: nothing is left in the ledger");
        let events = of(&bed.run(&[]).expect(0), "shop.events");
        assert_eq!(events["outcome"], "nothing-to-do", "{what}");
    }
}

#[tokio::test]
async fn killed_between_detach_and_note_or_while_it_finishes_one_more_run_ends_the_removal() {
    // Between the two: the detach is done and the ledger still says that it is only meant.
    let bed = PartitionBed::new(&table("shop.events", "drop = false")).await;
    bed.table("events").await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    bed.run(&[]).expect(0);
    bed.sql("UPDATE idem.partition_ledger SET state = 'intent' WHERE finished_at IS NULL").await;
    bed.bed.file("jobs.toml", table("shop.events", ""));
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "dropped"), 1);

    // While it finishes a pending detach.
    let bed = short_events().await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    let reader = bed.reader("events").await;
    bed.run(&[]).expect(0);
    reader.close().await.unwrap();
    let mut old = bed.session().await;
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM idem.settings").await.unwrap();
    bed.bed.file("jobs.toml", table("shop.events", ""));
    let mut run = bed.start(&[]);
    bed.until_waiting("FINALIZE").await;
    run.kill().unwrap();
    run.wait().unwrap();
    let killed = Instant::now();
    bed.until(OURS).await;
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    old.close().await.unwrap();
    bed.run(&[]).expect(0);
    assert!(!bed.exists(&bed.child("events", -10)).await);
    assert_eq!(bed.pending().await, 0);
}

#[tokio::test]
async fn a_long_analyze_of_the_parent_delays_the_new_day_and_no_writer() {
    let bed = PartitionBed::events().await;
    bed.make("events", 0).await;
    let mut analyze = bed.session().await;
    // The lock that ANALYZE holds on the parent.
    analyze.execute("BEGIN; LOCK TABLE shop.events IN SHARE UPDATE EXCLUSIVE MODE").await.unwrap();
    let run = bed.start(&["--create-only"]);
    bed.until_waiting("ATTACH PARTITION").await;
    let mut writer = bed.session().await;
    let begun = Instant::now();
    for id in 0..200_i64 {
        sqlx::query("INSERT INTO shop.events VALUES ($1, now())").bind(id).execute(&mut writer).await.unwrap();
    }
    let took = begun.elapsed();
    analyze.close().await.unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(bed.attached("events").await, 6);
    assert!(took < Duration::from_secs(5), "200 inserts took {took:?} while the ATTACH waited");
}

#[tokio::test]
async fn autovacuum_makes_way_for_a_drop() {
    let bed = PartitionBed::events().await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    let old = bed.child("events", -10);
    // As slow as it can be made, and due at once.
    bed.sql(&format!(
        "ALTER TABLE shop.{old} SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1,
                                     autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0);
         INSERT INTO shop.events SELECT n, '{} 13:00+00' FROM generate_series(1, 50000) n",
        bed.day(-10)
    ))
    .await;
    bed.sql(&format!("DELETE FROM shop.{old} WHERE id % 2 = 0")).await;
    bed.sql("ALTER SYSTEM SET autovacuum_naptime = '1s'").await;
    bed.sql("SELECT pg_reload_conf()").await;
    bed.until(&format!("SELECT EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE relid = 'shop.{old}'::regclass)"))
        .await;
    bed.sql("ALTER SYSTEM RESET autovacuum_naptime").await;
    bed.sql("SELECT pg_reload_conf()").await;
    let begun = Instant::now();
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "dropped"), 1, "{events}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(!bed.exists(&old).await);
}
