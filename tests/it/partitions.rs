//! `partitions` on tables as they come: what is made, what goes, what stays, and what is said about it.

use std::time::Duration;

use idem_jobs::config::{Environment, load_text};
use idem_jobs::job::partitions::{Ctx, Phases, Request, Word, run};
use sqlx::{Connection, Executor};

use crate::partition_bed::{EVENTS, PartitionBed, count, of, table};

#[tokio::test]
async fn todays_and_tomorrows_missing_days_are_a_breach_until_one_run_makes_them() {
    let bed = PartitionBed::events().await;
    bed.make_coming("events").await;
    let (today, tomorrow) = (bed.child("events", 0), bed.child("events", 1));
    bed.sql(&format!("DROP TABLE shop.{today}; DROP TABLE shop.{tomorrow}")).await;
    let check = bed.bed.run(&["check"]).expect(10);
    assert!(check.stdout.contains(&format!("uncovered from {}T00:00:00Z", bed.today)), "{}", check.stdout);
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "created"), 2);
    assert_eq!(count(&events, "uncovered"), 0);
    bed.bed.run(&["check"]).expect(0);
}

#[tokio::test]
async fn back_after_ten_days_off_one_run_catches_up() {
    let bed = PartitionBed::events().await;
    for offset in -15..=-5 {
        bed.make("events", offset).await;
    }
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "created"), 6);
    assert_eq!(count(&events, "dropped"), 10, "removals_max bounds a run");
    assert!(events["notes"].to_string().contains("1 more days"), "{events}");
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "dropped"), 1);
    assert_eq!(bed.attached("events").await, 6);
    let again = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(again["outcome"], "nothing-to-do");
}

#[tokio::test]
async fn a_hole_in_the_middle_is_made_again() {
    let bed = PartitionBed::events().await;
    bed.make_coming("events").await;
    let before = bed.bounds("events").await;
    bed.sql(&format!("DROP TABLE shop.{}", bed.child("events", 1))).await;
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "created"), 1);
    assert_eq!(bed.bounds("events").await, before);
}

#[tokio::test]
async fn irregular_neighbours_are_filled_around() {
    let bed = PartitionBed::events().await;
    let (from, to) = (bed.day(1), bed.day(3));
    bed.sql(&format!(
        "CREATE TABLE shop.odd PARTITION OF shop.events FOR VALUES FROM ('{from} 05:00+00') TO ('{to} 17:00+00')"
    ))
    .await;
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "uncovered"), 0);
    let bounds = bed.bounds("events").await;
    assert!(bounds.iter().any(|b| b.ends_with(&format!("FROM ('{from} 00:00:00+00') TO ('{from} 05:00:00+00')"))));
    let after = bed.day(4);
    assert!(bounds.iter().any(|b| b.ends_with(&format!("FROM ('{to} 17:00:00+00') TO ('{after} 00:00:00+00')"))));
    let check = bed.bed.run(&["check"]).expect(0);
    assert!(check.stdout.contains("shop.odd are not on midnights"), "{}", check.stdout);
}

#[tokio::test]
async fn rows_of_a_default_partition_move_into_their_day() {
    let bed = PartitionBed::events().await;
    let day = bed.day(3);
    bed.sql(&format!(
        "CREATE TABLE shop.rest PARTITION OF shop.events DEFAULT;
         INSERT INTO shop.events VALUES (1, '{day} 10:00+00')"
    ))
    .await;
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "created"), 6);
    assert_eq!(bed.number(&format!("SELECT count(*) FROM shop.{}", bed.child("events", 3))).await, 1);
    assert_eq!(bed.number("SELECT count(*) FROM ONLY shop.rest").await, 0);
}

#[tokio::test]
async fn too_many_rows_in_a_default_partition_cost_that_day_and_no_other() {
    let bed = PartitionBed::events().await;
    let day = bed.day(3);
    bed.sql(&format!(
        "CREATE TABLE shop.rest PARTITION OF shop.events DEFAULT;
         INSERT INTO shop.events SELECT n, '{day} 10:00+00' FROM generate_series(1, 10001) n"
    ))
    .await;
    let ran = bed.run(&[]).expect(5);
    let events = of(&ran, "shop.events");
    assert_eq!(events["outcome"], "partial");
    assert_eq!(count(&events, "created"), 5);
    assert!(events["failed"].to_string().contains("more than 10000 of its rows"), "{events}");
    assert!(bed.exists(&bed.child("events", 4)).await && !bed.exists(&bed.child("events", 3)).await);
}

#[tokio::test]
async fn days_beside_a_default_partition_leave_by_short_tries() {
    let bed = PartitionBed::events().await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    bed.sql("CREATE TABLE shop.rest PARTITION OF shop.events DEFAULT").await;
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "dropped"), 1);
    assert!(!bed.exists(&bed.child("events", -10)).await);
}

#[tokio::test]
async fn one_broken_table_stops_no_other() {
    let toml = [table("shop.a", ""), table("shop.missing", ""), table("shop.c", "")].concat();
    let bed = PartitionBed::new(&toml).await;
    bed.table("a").await;
    bed.table("c").await;
    bed.make("c", -9).await;
    let ran = bed.run(&[]).expect(5);
    assert_eq!(ran.json()["outcome"], "partial");
    assert_eq!(count(&of(&ran, "shop.a"), "created"), 6);
    assert_eq!(count(&of(&ran, "shop.c"), "dropped"), 1);
    assert_eq!(of(&ran, "shop.missing")["refused"], "table shop.missing does not exist");
}

#[tokio::test]
async fn bounds_do_not_move_with_any_zone_or_date_style() {
    let mut all = Vec::new();
    for (zone, style) in [("UTC", "ISO, MDY"), ("America/New_York", "SQL, DMY"), ("Asia/Kolkata", "German")] {
        let bed = PartitionBed::new(&[table("shop.events", "premake = 9"), table("shop.days", "")].concat()).await;
        bed.table("events").await;
        bed.sql("CREATE TABLE shop.days (id bigint, created_at date NOT NULL) PARTITION BY RANGE (created_at)").await;
        let database = &bed.bed.database().name;
        bed.sql(&format!(
            "ALTER DATABASE {database} SET timezone = '{zone}'; ALTER DATABASE {database} SET datestyle = '{style}'"
        ))
        .await;
        // Both nights in which New York turns its clocks.
        for as_of in ["2026-03-05T22:00:00Z", "2026-10-29T03:00:00Z"] {
            let output =
                bed.bed.command(&["partitions", "--create-only", "--as-of", as_of]).env("PGTZ", zone).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
        let mut bounds = bed.bounds("events").await;
        assert_eq!(bounds.len(), 20);
        bounds.extend(bed.bounds("days").await);
        all.push(bounds);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
    assert!(all[0].iter().any(|bounds| bounds
        == "events_y2026m03d08 FOR VALUES FROM ('2026-03-08 00:00:00+00') TO ('2026-03-09 00:00:00+00')"));
    assert!(all[0].iter().any(|bounds| bounds == "days_y2026m11d01 FOR VALUES FROM ('2026-11-01') TO ('2026-11-02')"));
}

#[tokio::test]
async fn a_name_that_is_taken_is_an_error_for_that_day_and_not_a_success() {
    let bed = PartitionBed::events().await;
    bed.sql(&format!("CREATE TABLE shop.{} (other text)", bed.child("events", 2))).await;
    let events = of(&bed.run(&[]).expect(10), "shop.events");
    assert_eq!(events["outcome"], "coverage-breach");
    assert_eq!(count(&events, "created"), 5);
    assert!(events["failed"].to_string().contains("already exists"), "{events}");
    assert_eq!(bed.number(&format!("SELECT count(*) FROM shop.{}", bed.child("events", 2))).await, 0);
}

#[tokio::test]
async fn names_that_postgresql_would_cut_are_refused_before_any_connection() {
    for name in [format!("shop.{}", "e".repeat(60)), format!("shop.{}", "é".repeat(30))] {
        let bed = PartitionBed::new(&table(&name, "")).await;
        let ran = bed.run(&[]).expect(3);
        assert!(ran.stderr.contains("has 60 bytes; a table managed by day has at most 51"), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn a_retention_under_the_floor_is_refused_before_any_connection() {
    let bed = PartitionBed::new(&table("shop.events", "retention = \"12h\"")).await;
    bed.table("events").await;
    bed.make("events", -10).await;
    let ran = bed.run(&[]).expect(3);
    assert!(ran.stderr.contains("12h is under the floor of 1d"), "{}", ran.stderr);
    assert_eq!(bed.attached("events").await, 1);
}

#[tokio::test]
async fn tables_that_cannot_be_kept_get_a_sentence_and_no_statement() {
    let cases = [
        ("CREATE TABLE shop.events (created_at timestamptz)", "shop.events is not partitioned by range"),
        (
            "CREATE TABLE shop.events (created_at text NOT NULL) PARTITION BY LIST (created_at)",
            "shop.events is not partitioned by range",
        ),
        (
            "CREATE TABLE shop.events (a int, created_at timestamptz) PARTITION BY RANGE (a)",
            "is partitioned by a, jobs.toml says column created_at",
        ),
        (
            "CREATE TABLE shop.events (created_at timestamp) PARTITION BY RANGE (created_at)",
            "is of type timestamp without time zone; expected date or timestamp with time zone",
        ),
    ];
    for (statement, sentence) in cases {
        let bed = PartitionBed::new(&table("shop.events", "")).await;
        bed.sql(statement).await;
        let before = bed.number("SELECT count(*) FROM pg_class").await;
        let events = of(&bed.run(&[]).expect(5), "shop.events");
        assert!(events["refused"].to_string().contains(sentence), "{events}");
        assert_eq!(bed.number("SELECT count(*) FROM pg_class").await, before, "no statement was sent");
        let check = bed.bed.run(&["check"]).expect(3);
        assert!(check.stdout.contains(sentence), "{}", check.stdout);
    }
}

#[tokio::test]
async fn a_login_without_the_privileges_is_told_so() {
    let bed = PartitionBed::events().await;
    let role = format!("{}_jobs", bed.bed.database().name);
    bed.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA idem TO {role};
         GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA idem TO {role}"
    ))
    .await;
    let url = bed.bed.database().url.expose().replace("postgres@", &format!("{role}@"));
    let output = bed.bed.command(&["partitions"]).env("DATABASE_URL", &url).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(bed.attached("events").await, 0);
    bed.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    assert_eq!(output.status.code(), Some(3), "{stdout}");
    let sentence =
        format!("shop.events belongs to postgres, and this login ({role}) is neither that role nor a member");
    assert!(stdout.contains(&sentence), "{stdout}");
}

#[tokio::test]
async fn a_day_that_others_point_to_stays_and_keeps_their_foreign_key() {
    let bed = PartitionBed::new(&[table("shop.events", ""), table("shop.other", "")].concat()).await;
    bed.table("events").await;
    bed.table("other").await;
    bed.make("events", -10).await;
    bed.make("events", -9).await;
    bed.sql(&format!(
        "CREATE TABLE shop.charges (event bigint, at timestamptz,
                                    FOREIGN KEY (event, at) REFERENCES shop.events (id, created_at));
         INSERT INTO shop.charges VALUES (990, '{} 12:00+00')",
        bed.day(-10)
    ))
    .await;
    let ran = bed.run(&[]).expect(10);
    let events = of(&ran, "shop.events");
    assert!(events["held"].to_string().contains("referenced by shop.charges (1 rows)"), "{events}");
    assert_eq!(events["dropped"].as_array().unwrap().len(), 1, "the day that nobody points to went");
    assert_eq!(count(&of(&ran, "shop.other"), "created"), 6);
    assert!(bed.number("SELECT count(*) FROM pg_constraint WHERE conrelid = 'shop.charges'::regclass").await > 0);
    assert!(bed.exists(&bed.child("events", -10)).await);
}

#[tokio::test]
async fn an_open_writer_on_a_referenced_table_delays_nobody() {
    let bed = PartitionBed::new(&[table("shop.events", ""), table("shop.other", "")].concat()).await;
    bed.sql("CREATE TABLE shop.merchant (id bigint PRIMARY KEY); INSERT INTO shop.merchant VALUES (1)").await;
    bed.sql(&format!(
        "CREATE TABLE shop.events ({EVENTS}, merchant bigint REFERENCES shop.merchant) PARTITION BY RANGE (created_at)"
    ))
    .await;
    bed.table("other").await;
    bed.make_coming("events").await;
    bed.make("events", -10).await;
    let mut writer = bed.session().await;
    writer.execute("BEGIN; UPDATE shop.merchant SET id = id").await.unwrap();
    let ran = bed.run(&[]).expect(0);
    assert_eq!(count(&of(&ran, "shop.events"), "dropped"), 1, "an attached child goes without that lock");
    assert_eq!(count(&of(&ran, "shop.other"), "created"), 6);
    writer.close().await.unwrap();
    assert_eq!(bed.pending().await, 0);
}

#[tokio::test]
async fn whatever_a_child_does_not_inherit_is_copied() {
    let bed = PartitionBed::new(&table("shop.events", "")).await;
    let role = format!("{}_owner", bed.bed.database().name);
    bed.sql(&format!(
        "CREATE ROLE {role}; GRANT ALL ON SCHEMA shop TO {role};
         CREATE TABLE shop.events (id bigint GENERATED ALWAYS AS IDENTITY, created_at timestamptz NOT NULL, n int,
                                   PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at);
         CREATE INDEX ON shop.events (n);
         ALTER TABLE shop.events OWNER TO {role};
         GRANT SELECT ON shop.events TO PUBLIC; GRANT UPDATE (n) ON shop.events TO pg_monitor;
         ALTER TABLE shop.events ENABLE ROW LEVEL SECURITY; ALTER TABLE shop.events ALTER n SET STATISTICS 321;
         ALTER TABLE shop.events REPLICA IDENTITY USING INDEX events_pkey"
    ))
    .await;
    bed.sql(&format!(
        "CREATE TABLE shop.first (LIKE shop.events INCLUDING ALL EXCLUDING IDENTITY) WITH (fillfactor = 71);
         ALTER TABLE shop.events ATTACH PARTITION shop.first FOR VALUES FROM ('{} 00:00+00') TO ('{} 00:00+00')",
        bed.day(0),
        bed.day(1)
    ))
    .await;
    bed.run(&[]).expect(0);
    let child = bed.child("events", 1);
    let found = bed
        .texts(&format!(
            "SELECT concat_ws(' ', c.relowner::regrole::text = '{role}', c.relacl::text LIKE '%=r/%', c.relreplident,
                              c.relrowsecurity, c.reloptions, obj_description(c.oid),
                              (SELECT attacl IS NOT NULL AND attstattarget = 321 FROM pg_attribute
                                WHERE attrelid = c.oid AND attname = 'n'),
                              (SELECT count(*) FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indexrelid
                                WHERE i.indrelid = c.oid))
               FROM pg_class c WHERE c.oid = 'shop.{child}'::regclass"
        ))
        .await;
    assert_eq!(found, ["t t i t {fillfactor=71} idem-jobs partition t 2"]);
    // shop.first was made by hand and lacks most of it; the days of ours do not.
    let check = bed.bed.run(&["check"]).expect(0);
    assert!(
        check.stdout.contains("shop.first differs from its parent: owner, grants, replica identity"),
        "{}",
        check.stdout
    );
    assert!(!check.stdout.contains(&format!("{child} differs")), "{}", check.stdout);
    bed.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn an_identity_column_of_the_parent_stays_the_parents() {
    let bed = PartitionBed::new(&table("shop.events", "")).await;
    bed.sql(
        "CREATE TABLE shop.events (id bigint GENERATED BY DEFAULT AS IDENTITY, created_at timestamptz NOT NULL)
         PARTITION BY RANGE (created_at)",
    )
    .await;
    bed.run(&[]).expect(0);
    assert_eq!(bed.attached("events").await, 6);
    bed.sql("INSERT INTO shop.events (created_at) SELECT now() FROM generate_series(1, 3)").await;
    assert_eq!(bed.number("SELECT count(DISTINCT id) FROM shop.events").await, 3);
}

#[tokio::test]
async fn the_parent_has_statistics_after_a_run() {
    let bed = PartitionBed::events().await;
    bed.make_coming("events").await;
    assert_eq!(bed.number("SELECT count(*) FROM pg_stats WHERE tablename = 'events'").await, 0);
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(events["analyzed"], true);
    assert_eq!(bed.number("SELECT count(*) FROM pg_stats WHERE tablename = 'events'").await, 3);
    let again = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(again["analyzed"], false, "once a day is enough for a table that did not change");
}

#[tokio::test]
async fn no_date_that_an_operator_states_removes_a_living_day() {
    let bed = PartitionBed::events().await;
    bed.make_coming("events").await;
    bed.make("events", -2).await;
    bed.make("events", -10).await;
    let (earlier, later) = (bed.day(-30).to_string(), bed.day(400).to_string());
    let events = of(&bed.run(&["--drop-only", "--as-of", &earlier]), "shop.events");
    assert_eq!(count(&events, "dropped"), 0, "an earlier date makes a removal more careful");
    let events = of(&bed.run(&["--drop-only", "--as-of", &later]), "shop.events");
    assert_eq!(count(&events, "dropped"), 1, "a later date makes it no bolder");
    assert_eq!(bed.attached("events").await, 7);
}

#[tokio::test]
async fn nothing_is_removed_while_the_clocks_disagree() {
    let bed = PartitionBed::events().await;
    bed.make("events", -10).await;
    let settings = load_text(&table("shop.events", ""), "jobs.toml", &Environment::default()).unwrap().partitions;
    let database = bed.bed.database();
    let machine_now = database.store.now().await.unwrap() + Duration::from_hours(1);
    let ctx = Ctx { store: &database.store, url: &database.url, settings: &settings, as_of: None, machine_now };
    let done = run(&ctx, Request { dry_run: false, phases: Phases::All }).await.unwrap();
    assert_eq!(done.outcome, Word::Held);
    assert!(done.no_removal.unwrap().contains(" s apart"));
    assert_eq!(bed.attached("events").await, 7, "the coming days are made all the same");
}

#[tokio::test]
async fn each_switch_stops_its_own_phase_only() {
    let cases = [
        // (switches, made, attached old day left, old table left)
        ("create = false", 0, false, false),
        ("detach = false", 6, true, true),
        ("drop = false", 6, false, true),
        ("analyze = false", 6, false, false),
    ];
    for (switches, made, attached, there) in cases {
        let bed = PartitionBed::new(&table("shop.events", switches)).await;
        bed.table("events").await;
        bed.make("events", -10).await;
        let events = of(&bed.run(&[]), "shop.events");
        assert_eq!(count(&events, "created"), made, "{switches}");
        let old = bed.child("events", -10);
        assert_eq!(bed.bounds("events").await.iter().any(|b| b.starts_with(&old)), attached, "{switches}");
        assert_eq!(bed.exists(&old).await, there, "{switches}");
        assert_eq!(events["analyzed"], switches != "analyze = false", "{switches}");
    }
}

#[tokio::test]
async fn a_day_is_kept_detached_for_its_days_of_grace() {
    let bed = PartitionBed::new(&format!("[partitions]\ndetached_grace = \"1h\"\n{}", table("shop.events", ""))).await;
    bed.table("events").await;
    bed.make("events", -10).await;
    let old = bed.child("events", -10);
    for _ in 0..2 {
        bed.run(&[]).expect(0);
        assert!(bed.exists(&old).await && bed.attached("events").await == 6);
    }
    bed.sql("UPDATE idem.partition_ledger SET created_at = created_at - interval '2h' WHERE action = 'remove'").await;
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "dropped"), 1);
    assert!(!bed.exists(&old).await);
}

#[tokio::test]
async fn another_table_under_the_name_of_a_detached_day_is_left_alone() {
    let bed = PartitionBed::new(&table("shop.events", "drop = false")).await;
    bed.table("events").await;
    bed.make("events", -10).await;
    bed.run(&[]).expect(0);
    let old = bed.child("events", -10);
    bed.sql(&format!("DROP TABLE shop.{old}; CREATE TABLE shop.{old} (precious text)")).await;
    bed.bed.file("jobs.toml", table("shop.events", ""));
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert_eq!(count(&events, "dropped"), 0);
    assert!(bed.exists(&old).await);
    assert_eq!(bed.number("SELECT count(*) FROM idem.partition_ledger WHERE state = 'gone'").await, 1);
}

#[tokio::test]
async fn children_that_are_not_ours_stay_and_are_named() {
    let bed = PartitionBed::events().await;
    bed.sql("CREATE TABLE shop.legacy PARTITION OF shop.events FOR VALUES FROM (MINVALUE) TO ('2020-01-01+00')").await;
    let events = of(&bed.run(&[]).expect(0), "shop.events");
    assert!(events["notes"].to_string().contains("shop.legacy is past its retention and stays"), "{events}");
    assert!(bed.exists("legacy").await);
}

#[tokio::test]
async fn rows_that_a_condition_calls_unfinished_keep_their_day() {
    let bed = PartitionBed::new(&table("shop.events", "unfinished = \"state = 'open'\"")).await;
    bed.table("events").await;
    bed.make("events", -10).await;
    bed.make("events", -9).await;
    bed.sql(&format!("UPDATE shop.{} SET state = 'open'", bed.child("events", -10))).await;
    let events = of(&bed.run(&[]).expect(10), "shop.events");
    assert_eq!(events["outcome"], "held");
    assert!(events["held"].to_string().contains("1 unfinished or unexpired rows"), "{events}");
    assert_eq!(count(&events, "dropped"), 1, "the next day goes all the same");
    bed.sql(&format!("UPDATE shop.{} SET state = 'done'", bed.child("events", -10))).await;
    assert_eq!(count(&of(&bed.run(&[]).expect(0), "shop.events"), "dropped"), 1);
}

#[tokio::test]
async fn a_dry_run_prints_exactly_what_a_run_sends() {
    let bed = PartitionBed::events().await;
    bed.make("events", -10).await;
    let dry = bed.run(&["--dry-run"]).expect(0);
    let planned: Vec<String> = of(&dry, "shop.events")["planned"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|step| step["statements"].as_array().unwrap().iter())
        .map(|statement| statement["sql"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(bed.attached("events").await, 1, "nothing was sent");
    let text = bed.bed.run(&["partitions", "--dry-run"]).expect(0).stdout;
    assert!(text.contains("CONCURRENTLY;  -- lock: SHARE UPDATE EXCLUSIVE on the parent in two"), "{text}");
    let ran = bed.bed.run(&["partitions", "-vv"]).expect(0);
    let sent = |sql: &String| ran.stderr.contains(sql.as_str()) || ran.stderr.contains(&sql.replace('"', "\\\""));
    let queries = planned.iter().filter(|sql| !sql.starts_with("SELECT")).collect::<Vec<_>>();
    assert!(queries.len() > 15, "{queries:?}");
    let of_events = |line: &&str| line.contains("shop\\\".\\\"events") && line.contains("sent");
    assert!(queries.iter().all(|sql| sent(sql)), "{queries:#?}\n{}", ran.stderr);
    assert!(ran.stderr.lines().filter(of_events).count() <= planned.len(), "and nothing else was sent");
}
