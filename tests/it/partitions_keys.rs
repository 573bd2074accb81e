//! `partitions` on the table of idempotency keys: a day goes, what is unfinished in it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use idem_jobs::config::Settings;
use idem_jobs::job::partitions::{Ctx, Phases, Request, Word, run};
use rand::Rng;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use crate::partition_bed::{PartitionBed, count, of};

const KEYS: &str = "idem.idempotency_keys";

/// Makes a day of keys, as the program does.
async fn make_day(bed: &PartitionBed, offset: i64) -> String {
    let child = bed.child("idempotency_keys", offset);
    bed.sql(&format!(
        "CREATE TABLE idem.{child} (LIKE idem.idempotency_keys INCLUDING ALL);
         COMMENT ON TABLE idem.{child} IS 'idem-jobs partition';
         ALTER TABLE idem.idempotency_keys ATTACH PARTITION idem.{child} FOR VALUES FROM ('{}') TO ('{}')",
        bed.day(offset),
        bed.day(offset + 1)
    ))
    .await;
    child
}

/// A key of such a day; `more` names further columns with their values.
async fn key(bed: &PartitionBed, offset: i64, name: &str, status: &str, more: &[(&str, &str)]) {
    let (mut columns, mut values) = (String::new(), String::new());
    for (column, value) in more {
        columns.push_str(", ");
        columns.push_str(column);
        values.push_str(", ");
        values.push_str(value);
    }
    let day = bed.day(offset);
    bed.sql(&format!(
        "INSERT INTO idem.idempotency_keys
                (day, account_id, key, endpoint, request_hash, status, next_attempt_at, ttl, created_at{columns})
         VALUES ('{day}', 'a', '{name}', 'POST /v1/payments', sha256('x'), '{status}', '{day} 12:00+00', '1h',
                 '{day} 12:00+00'{values})"
    ))
    .await;
}

const DONE: &[(&str, &str)] = &[("response_code", "201"), ("completed_at", "now() - interval '9 days'")];
const LONG_AGO: (&str, &str) = ("expires_at", "now() - interval '8 days'");
const LATER: (&str, &str) = ("expires_at", "now() + interval '1 day'");
const INTENT: &[(&str, &str)] = &[
    ("provider", "'stripe'"),
    ("provider_key", "'pk'"),
    ("provider_key_window", "'24h'"),
    ("provider_first_sent_at", "now() - interval '9 days'"),
];

#[tokio::test]
async fn a_day_goes_and_every_key_that_may_still_be_needed_stays() {
    let bed = PartitionBed::new("").await;
    let child = make_day(&bed, -10).await;
    key(&bed, -10, "stuck", "in_progress", &[]).await;
    key(&bed, -10, "review", "needs_review", &[]).await;
    key(&bed, -10, "charged?", "failed", INTENT).await;
    key(&bed, -10, "failed", "failed", &[LATER]).await;
    key(&bed, -10, "late", "completed", &[DONE, &[LATER]].concat()).await;
    key(&bed, -10, "done", "completed", &[DONE, &[LONG_AGO]].concat()).await;
    key(&bed, -10, "gave up", "failed", &[LONG_AGO]).await;
    let ran = bed.run(&[]).expect(0);
    let keys = of(&ran, KEYS);
    assert_eq!((count(&keys, "dropped"), keys["held_rows"].as_u64()), (1, Some(5)));
    assert!(!bed.exists(&child).await);
    let held = bed.texts("SELECT key FROM idem.held_keys ORDER BY key").await;
    assert_eq!(held, ["charged?", "failed", "late", "review", "stuck"]);
}

#[tokio::test]
async fn a_living_lease_keeps_the_day_until_a_later_run() {
    let bed = PartitionBed::new("").await;
    let child = make_day(&bed, -10).await;
    let lease = format!("idem.new_lease('{}')", bed.day(-10));
    key(&bed, -10, "working", "in_progress", &[("lease_id", &lease), ("locked_until", "now() + interval '1h'")]).await;
    key(&bed, -10, "stuck", "in_progress", &[]).await;
    let keys = of(&bed.run(&[]).expect(10), KEYS);
    assert_eq!((keys["outcome"].as_str(), keys["held_rows"].as_u64()), (Some("held"), Some(1)));
    assert!(keys["held"].to_string().contains("1 unfinished or unexpired rows"), "{keys}");
    assert!(bed.exists(&child).await && bed.pending().await == 0);
    bed.sql("UPDATE idem.idempotency_keys SET locked_until = now() - interval '1s' WHERE key = 'working'").await;
    assert_eq!(count(&of(&bed.run(&[]).expect(0), KEYS), "dropped"), 1);
    assert_eq!(bed.number("SELECT count(*) FROM idem.held_keys").await, 2);
}

#[tokio::test]
async fn a_detached_day_with_a_needed_key_is_put_back() {
    let bed = PartitionBed::new("[[partitions.table]]\nname = \"idem.idempotency_keys\"\ndrop = false").await;
    let child = make_day(&bed, -10).await;
    bed.run(&[]).expect(0);
    let late = format!(
        "INSERT INTO idem.{child} (day, account_id, key, endpoint, request_hash, next_attempt_at, ttl, created_at)
         VALUES ('{}', 'a', 'late', 'e', sha256('x'), now(), '1h', now())",
        bed.day(-10)
    );
    bed.sql(&late).await;
    bed.bed.file("jobs.toml", "");
    let keys = of(&bed.run(&[]).expect(0), KEYS);
    assert_eq!(count(&keys, "reattached"), 1, "{keys}");
    // Back among the days, its key moves like any other, and then the day goes.
    assert_eq!((count(&keys, "dropped"), keys["held_rows"].as_u64()), (1, Some(1)), "{keys}");
    assert_eq!(bed.texts("SELECT key FROM idem.held_keys").await, ["late"]);
}

#[tokio::test]
async fn killed_while_it_moves_keys_no_key_is_lost_or_there_twice() {
    let bed = PartitionBed::new("").await;
    let child = make_day(&bed, -10).await;
    bed.sql(&format!(
        "INSERT INTO idem.idempotency_keys (day, account_id, key, endpoint, request_hash, next_attempt_at, ttl, created_at)
         SELECT '{}', 'a', to_char(n, 'FM0000'), 'e', sha256('x'), now(), '1h', now() FROM generate_series(1, 500) n",
        bed.day(-10)
    ))
    .await;
    let mut holder = bed.session().await;
    holder.execute("BEGIN; SELECT FROM idem.idempotency_keys WHERE key = '0275' FOR UPDATE").await.unwrap();
    let mut run = bed.start(&[]);
    bed.until_waiting("hold_key").await;
    run.kill().unwrap();
    run.wait().unwrap();
    bed.until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'idem-jobs')").await;
    holder.close().await.unwrap();
    let (there, held) = ("SELECT count(*) FROM idem.idempotency_keys", "SELECT count(*) FROM idem.held_keys");
    assert_eq!((bed.number(there).await, bed.number(held).await), (250, 250), "five whole batches of fifty");
    bed.run(&[]).expect(0);
    assert!(!bed.exists(&child).await);
    assert_eq!(bed.number("SELECT count(DISTINCT key) FROM idem.held_keys").await, 500);
}

#[tokio::test]
async fn the_functions_know_what_jobs_toml_promises() {
    let toml = "[partitions]\nlargest_ttl = \"48h\"\nclient_retry_window = \"36h\"\n[[partitions.table]]\nname = \"idem.idempotency_keys\"\nretention = \"4d\"";
    let bed = PartitionBed::new(toml).await;
    bed.run(&[]).expect(0);
    let found = bed
        .texts("SELECT concat_ws(' ', extract(epoch FROM retention)::int, extract(epoch FROM ttl_max)::int, extract(epoch FROM client_retry_window)::int) FROM idem.settings")
        .await;
    assert_eq!(found, [format!("{} {} {}", 4 * 86_400, 48 * 3_600, 36 * 3_600)]);
}

#[tokio::test]
async fn a_retention_shorter_than_a_promise_is_no_sound_configuration() {
    let bed = PartitionBed::new("[[partitions.table]]\nname = \"idem.idempotency_keys\"\nretention = \"2d\"").await;
    for arguments in [&["check"][..], &["check", "--offline"]] {
        let check = bed.bed.run(arguments).expect(3);
        assert!(check.stdout.contains("retention 2d is shorter than the longest client retry"), "{}", check.stdout);
    }
}

#[tokio::test]
async fn the_status_says_how_late_replays_come_and_the_plan_what_it_takes() {
    let bed = PartitionBed::new("").await;
    let replay = [DONE, &[LATER, ("replays", "1"), ("last_replay_at", "now()")]].concat();
    key(&bed, 0, "replayed", "completed", &replay).await;
    bed.sql("UPDATE idem.idempotency_keys SET created_at = last_replay_at - interval '3h'").await;
    bed.sql("ANALYZE idem.idempotency_keys").await;
    let status = bed.bed.run(&["status"]).expect(0).stdout;
    assert!(status.contains("the latest replay came 3.0 h after creation"), "{status}");
    assert!(status.contains("retention is 3d"), "{status}");
    let json = bed.bed.run(&["status", "--output", "json"]).expect(0).json();
    assert_eq!(json["tables"][0]["days"][0]["rows_estimated"], 1);
    let measured = bed.bed.run(&["plan", "--output", "json"]).expect(0).json();
    assert_eq!(measured["tables"][0]["rate_from"], "measured, fullest day");
    let given = bed.bed.run(&["plan", "--rate", "2000", "--retention", "24h", "--row-bytes", "1024"]).expect(0).stdout;
    assert!(given.contains("172,800,000 rows, 176.9 GB"), "{given}");
}

/// One client that claims keys of a day and lets them go again. Counts claims that should have been impossible.
struct Client {
    session: PgConnection,
    /// Who holds which key: the number of holders at any moment.
    holders: Arc<Vec<AtomicU64>>,
    double: Arc<AtomicU64>,
    fresh: Arc<AtomicU64>,
    resumed: Arc<AtomicU64>,
}

impl Client {
    async fn try_one(&mut self, round: usize) {
        let number = rand::rng().random_range(0..self.holders.len());
        let key = format!("r{round}-{number}");
        let row = sqlx::query("SELECT (c).outcome, (c).lease_id FROM (SELECT idem.claim_key('a', $1, 'e', sha256('x'), ttl => '1h') AS c) AS t")
            .bind(&key)
            .fetch_one(&mut self.session)
            .await
            .unwrap();
        let outcome: String = row.get(0);
        // A new row for a key that exists: the old one was lost, and its charge would be made again.
        self.fresh.fetch_add(u64::from(outcome == "claimed"), Ordering::SeqCst);
        if outcome != "claimed" && outcome != "resumed" {
            return;
        }
        self.resumed.fetch_add(1, Ordering::SeqCst);
        self.double.fetch_add(self.holders[number].fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
        let lease: uuid::Uuid = row.get(1);
        // The holder's work: long enough for another to come in, if another could.
        self.session.execute("SELECT").await.unwrap();
        self.holders[number].fetch_sub(1, Ordering::SeqCst);
        let done: bool = sqlx::query_scalar("SELECT idem.release_key('a', $1, $2, '0s')")
            .bind(&key)
            .bind(lease)
            .fetch_one(&mut self.session)
            .await
            .unwrap();
        assert!(done, "the lease was lost within a millisecond");
    }
}

/// How many times the day is removed: few in the everyday run, `IDEM_TEST_REMOVALS` otherwise.
#[expect(clippy::disallowed_methods, reason = "the tests' own switch, not the program's")]
fn removals() -> usize {
    std::env::var("IDEM_TEST_REMOVALS").map_or(15, |text| text.parse().unwrap())
}

const KEYS_A_DAY: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_clients_retry_keys_of_a_day_while_it_is_removed_and_none_is_lost_or_claimed_twice() {
    let bed = PartitionBed::new("").await;
    let settings = Settings::default().partitions;
    let database = bed.bed.database();
    let (double, fresh, resumed) = (Arc::default(), Arc::default(), Arc::default());
    for round in 0..removals() {
        let child = make_day(&bed, -10).await;
        bed.sql(&format!(
            "INSERT INTO idem.idempotency_keys
                    (day, account_id, key, endpoint, request_hash, status, next_attempt_at, ttl, created_at)
             SELECT '{}', 'a', 'r{round}-' || n, 'e', sha256('x'), CASE n % 2 WHEN 0 THEN 'failed' ELSE 'in_progress' END,
                    now(), '1h', now() FROM generate_series(0, {}) n",
            bed.day(-10),
            KEYS_A_DAY - 1
        ))
        .await;
        let stop = Arc::new(AtomicBool::new(false));
        let holders: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS_A_DAY).map(|_| AtomicU64::new(0)).collect());
        let mut clients = Vec::new();
        for _ in 0..8 {
            let session = bed.session().await;
            let (stop, holders) = (Arc::clone(&stop), Arc::clone(&holders));
            let (double, fresh, resumed) = (Arc::clone(&double), Arc::clone(&fresh), Arc::clone(&resumed));
            clients.push(tokio::spawn(async move {
                let mut client = Client { session, holders, double, fresh, resumed };
                while !stop.load(Ordering::Relaxed) {
                    client.try_one(round).await;
                }
                client.session.close().await.unwrap();
            }));
        }
        let mut gone = false;
        for _ in 0..200 {
            let now: DateTime<Utc> = database.store.now().await.unwrap();
            let ctx =
                Ctx { store: &database.store, url: &database.url, settings: &settings, as_of: None, machine_now: now };
            let done = run(&ctx, Request { dry_run: false, phases: Phases::DropOnly }).await.unwrap();
            assert!(matches!(done.outcome, Word::Ok | Word::Held | Word::NothingToDo), "{done:?}");
            gone = !bed.exists(&child).await;
            if gone {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        assert!(gone, "round {round}: living leases kept the day for 200 runs");
        let mut session = bed.session().await;
        let everywhere = format!(
            "SELECT count(*), count(DISTINCT key) FROM (SELECT key FROM idem.held_keys UNION ALL
             SELECT key FROM idem.idempotency_keys) AS k WHERE key LIKE 'r{round}-%'"
        );
        let row = sqlx::query(AssertSqlSafe(everywhere)).fetch_one(&mut session).await.unwrap();
        let found: (i64, i64) = (row.get(0), row.get(1));
        let each = i64::try_from(KEYS_A_DAY).unwrap();
        assert_eq!(found, (each, each), "round {round}: each key in one place");
        session.close().await.unwrap();
    }
    assert_eq!((double.load(Ordering::SeqCst), fresh.load(Ordering::SeqCst)), (0, 0), "double claims, lost rows");
    assert!(resumed.load(Ordering::SeqCst) > 100, "the clients did work: {resumed:?}");
}
