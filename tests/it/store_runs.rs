//! Runs, mismatches, events and mail: whole or not at all, once, and nobody rewrites history.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use idem_jobs::domain::mismatch::{
    Difference, Evidence, Kind, Mismatch, Severity, SideView, Standing, State, fingerprint, short_id,
};
use idem_jobs::domain::money::Currency;
use idem_jobs::domain::run::{
    Control, KindCount, MoneyLine, NonChargeSum, Reconciliation, ReportFile, RunHead, SCHEMA,
};
use idem_jobs::store::{Attachment, Begun, Mail, OutboxMessage, StoreError, StoredRun};

use crate::harness::TestDatabase;

fn usd() -> Currency {
    Currency::parse("USD").unwrap()
}

fn day(day: i64) -> DateTime<Utc> {
    "2026-05-02T06:00:00.123456789Z".parse::<DateTime<Utc>>().unwrap() + TimeDelta::days(day)
}

/// How the run's mismatches stood, in order.
fn standings(run: &StoredRun) -> Vec<Standing> {
    run.reconciliation.mismatches.iter().map(|mismatch| mismatch.seen).collect()
}

/// A break whose local side has nothing and whose provider's side has `minor`.
fn missing_locally(group: &str, minor: i64) -> Mismatch {
    let fingerprint = fingerprint("stripe", "acct_1", Kind::MissingLocally, group);
    Mismatch {
        id: short_id(&fingerprint),
        fingerprint,
        kind: Kind::MissingLocally,
        severity: Severity::Critical,
        state: State::Open,
        seen: Standing::New,
        reference: Some(group.to_owned()),
        idempotency_key: None,
        provider_ids: vec![format!("ch_{group}"), "ch_\"{},\\".to_owned()],
        local: None,
        provider: Some(SideView {
            ids: vec![format!("ch_{group}")],
            amount_minor: Some(minor),
            currency: Some(usd()),
            status: Some("succeeded".to_owned()),
            occurred_at: Some(day(-1)),
        }),
        diff: vec![Difference { field: "amount".to_owned(), local: None, provider: Some("50.00".to_owned()) }],
        at_risk_minor: minor,
        currency: Some(usd()),
        rule: "one side only".to_owned(),
        suggestion: "look the key up".to_owned(),
        occurred_at: Some(day(-1)),
        evidence: vec![Evidence {
            side: "report".to_owned(),
            source: "balance.csv".to_owned(),
            line: Some(7),
            text: "é \"quoted\"".to_owned(),
        }],
    }
}

/// A run of its day; `identity` makes it a run of its own.
fn run(identity: &str, on: i64, mismatches: Vec<Mismatch>) -> Reconciliation {
    let count = KindCount { total: mismatches.len() as u64, new: 0 };
    let only_counted = KindCount { total: 3, new: 3 };
    Reconciliation {
        schema: SCHEMA.to_owned(),
        run: RunHead {
            id: format!("run-{identity}"),
            provider: "stripe".to_owned(),
            account: "acct_1".to_owned(),
            format: "stripe/balance".to_owned(),
            files: vec![
                ReportFile { name: "a.csv".to_owned(), bytes: 10, sha256: "0".repeat(64) },
                ReportFile { name: "b.csv".to_owned(), bytes: 0, sha256: "f".repeat(64) },
            ],
            identity: identity.to_owned(),
            window_from: Some(day(on)),
            window_to: None,
            started_at: day(on),
            duration_ms: 1_234,
            grace_hours: 72,
            version: "0.1.0".to_owned(),
            not_compared: vec!["refunds".to_owned()],
        },
        control: Control { provider_rows: 9, provider_matched: 9, ..Control::default() },
        money: vec![MoneyLine {
            currency: usd(),
            local_minor: i128::from(i64::MAX) * 4 + 1,
            provider_minor: -5,
            difference_minor: 0,
            explained_minor: 0,
            unexplained_minor: 0,
        }],
        non_charge: vec![NonChargeSum { kind: "payout".to_owned(), currency: usd(), rows: 1, sum_minor: -7 }],
        counts: BTreeMap::from([(Kind::MissingLocally, count), (Kind::DuplicateReportRow, only_counted)]),
        mismatches,
        refused: Vec::new(),
        notes: vec!["the delimiter is ';'".to_owned()],
    }
}

fn mail(key: &str) -> OutboxMessage {
    OutboxMessage {
        topic: "mismatch-mail".to_owned(),
        dedup_key: key.to_owned(),
        mail: Mail {
            from: "jobs@example.com".to_owned(),
            to: vec!["finance@example.com".to_owned()],
            subject: "[idem-jobs] 1 new".to_owned(),
            text: "text".to_owned(),
            html: "<p>é</p>".to_owned(),
            headers: vec![("List-Id".to_owned(), "<idem-jobs>".to_owned())],
        },
        attachments: vec![
            Attachment { name: "a.csv".to_owned(), content_type: "text/csv".to_owned(), content: vec![0, 255, 10] },
            Attachment { name: "empty".to_owned(), content_type: "text/plain".to_owned(), content: Vec::new() },
            Attachment {
                name: "b.json".to_owned(),
                content_type: "application/json".to_owned(),
                content: vec![b'x'; 9],
            },
        ],
    }
}

/// Rows of every table that a run writes to.
async fn rows(database: &TestDatabase) -> i64 {
    database
        .number(
            "SELECT (SELECT count(*) FROM idem.reconciliation_runs) + (SELECT count(*) FROM idem.provider_reports)
                  + (SELECT count(*) FROM idem.mismatches) + (SELECT count(*) FROM idem.mismatch_events)
                  + (SELECT count(*) FROM idem.run_mismatches) + (SELECT count(*) FROM idem.outbox)",
        )
        .await
}

#[tokio::test]
async fn what_was_committed_comes_back_to_the_digit() {
    let database = TestDatabase::new().await;
    let store = &database.store;
    assert_eq!(store.find_by_identity("one").await.unwrap(), None);
    let found = run("one", 0, vec![missing_locally("r2", 5_000), missing_locally("r1", 7)]);
    let committed = store.commit(&found, Some(&mail("one"))).await.unwrap();
    assert!(committed.is_new);
    let mut expected = found.clone();
    expected.counts.get_mut(&Kind::MissingLocally).unwrap().new = 2;
    assert_eq!(committed.run.reconciliation, expected);
    assert_eq!(standings(&committed.run), [Standing::New, Standing::New]);
    assert_eq!(store.find_by_identity("one").await.unwrap().as_ref(), Some(&committed.run));
    let (_, stored) = store.outbox_message("one").await.unwrap().unwrap();
    assert_eq!(stored, mail("one"));
}

#[tokio::test]
async fn the_same_identity_again_writes_nothing() {
    let database = TestDatabase::new().await;
    let found = run("one", 0, vec![missing_locally("r1", 5_000)]);
    let first = database.store.commit(&found, Some(&mail("one"))).await.unwrap();
    let before = rows(&database).await;
    let mut again = run("one", 1, vec![missing_locally("r9", 1)]);
    again.run.id = "another run".to_owned();
    let second = database.store.commit(&again, Some(&mail("two"))).await.unwrap();
    assert!(!second.is_new);
    assert_eq!(second.run, first.run);
    assert_eq!(rows(&database).await, before);
}

#[tokio::test]
async fn racers_of_one_identity_give_one_run() {
    let database = TestDatabase::new().await;
    let commits = (0..8).map(|racer| {
        let store = database.store.clone();
        tokio::spawn(async move {
            let mut found = run("one", 0, (0..50).map(|n| missing_locally(&format!("r{n}"), n)).collect());
            found.run.id = format!("racer {racer}");
            store.commit(&found, Some(&mail(&format!("racer {racer}")))).await.unwrap()
        })
    });
    let commits: Vec<_> = commits.collect();
    let mut new = 0;
    let mut runs = Vec::new();
    for commit in commits {
        let committed = commit.await.unwrap();
        new += i32::from(committed.is_new);
        runs.push(committed.run);
    }
    assert_eq!(new, 1);
    assert!(runs.iter().all(|run| *run == runs[0]));
    // Run, two files, fifty mismatches with an event and a place each, one mail.
    assert_eq!(rows(&database).await, 1 + 2 + 3 * 50 + 1);
    assert_eq!(database.store.verify_chains().await.unwrap(), []);
}

#[tokio::test]
async fn racers_of_different_runs_with_the_same_breaks_see_each_other() {
    let database = TestDatabase::new().await;
    let commit = |identity: &'static str| {
        let store = database.store.clone();
        tokio::spawn(async move {
            standings(&store.commit(&run(identity, 0, vec![missing_locally("r1", 5_000)]), None).await.unwrap().run)[0]
        })
    };
    let (one, two) = (commit("one"), commit("two"));
    let mut standings = [one.await.unwrap(), two.await.unwrap()];
    standings.sort_by_key(|standing| standing.as_str());
    assert_eq!(standings, [Standing::New, Standing::StillOpen]);
    assert_eq!(database.number("SELECT seen_count::bigint FROM idem.mismatches").await, 2);
}

#[tokio::test]
async fn a_connection_that_ends_in_the_middle_leaves_nothing() {
    let database = TestDatabase::new().await;
    let found = run("one", 0, vec![missing_locally("r1", 5_000)]);
    let Begun::New(begun) = database.store.begin_commit(&found).await.unwrap() else { panic!("nothing was there") };
    assert_eq!(standings(begun.stored()), [Standing::New]);
    crate::store::end_other_sessions(&mut database.session().await).await;
    let error = begun.commit(Some(&mail("one"))).await.unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
    assert_eq!(rows(&database).await, 0);
    assert!(database.store.commit(&found, Some(&mail("one"))).await.unwrap().is_new, "the store goes on by itself");
}

#[tokio::test]
async fn a_run_that_is_dropped_before_its_commit_leaves_nothing() {
    let database = TestDatabase::new().await;
    let found = run("one", 0, vec![missing_locally("r1", 5_000)]);
    drop(database.store.begin_commit(&found).await.unwrap());
    assert!(database.store.commit(&found, None).await.unwrap().is_new);
}

#[tokio::test]
async fn a_break_that_stands_twice_in_a_run_is_refused() {
    let database = TestDatabase::new().await;
    let found = run("one", 0, vec![missing_locally("r1", 1), missing_locally("r1", 2)]);
    let error = database.store.commit(&found, None).await.unwrap_err();
    assert!(error.to_string().contains("(missing_locally) stands there twice"), "{error}");
    assert_eq!(rows(&database).await, 0);
}

#[tokio::test]
async fn a_break_lives_through_its_runs() {
    let database = TestDatabase::new().await;
    let same = |minor| missing_locally("r1", minor);
    let raised = |minor, severity| Mismatch { severity, ..same(minor) };
    let high = Severity::High;
    // Each row: what a person did before, what the run saw, how it stands, the state after it.
    let nights: [(&str, Mismatch, Standing, State); 10] = [
        ("", raised(5_000, high), Standing::New, State::Open),
        ("", raised(5_000, high), Standing::StillOpen, State::Open),
        ("", raised(4_500, high), Standing::Changed, State::Open),
        ("", raised(4_500, Severity::Critical), Standing::Raised, State::Open),
        ("assigned", raised(4_500, Severity::Critical), Standing::StillOpen, State::Assigned),
        ("explained", raised(4_400, Severity::Critical), Standing::Changed, State::Explained),
        ("resolved", raised(4_400, Severity::Critical), Standing::Reopened, State::Open),
        ("auto_resolved", raised(4_400, high), Standing::Reopened, State::Open),
        ("ignored", raised(4_400, high), Standing::Reopened, State::Open),
        ("pending_approval", raised(4_400, high), Standing::StillOpen, State::PendingApproval),
    ];
    for (night, (state, seen, standing, after)) in (0_i64..).zip(nights) {
        if !state.is_empty() {
            database.sql(&format!("UPDATE idem.mismatches SET state = '{state}'")).await.unwrap();
        }
        let found = run(&format!("night {night}"), night, vec![seen]);
        let stored = database.store.commit(&found, None).await.unwrap().run;
        assert_eq!(standings(&stored), [standing], "night {night}");
        assert_eq!(stored.reconciliation.mismatches[0].state, after, "night {night}");
        let new = u64::from(standing == Standing::New);
        assert_eq!(stored.reconciliation.counts[&Kind::MissingLocally], KindCount { total: 1, new }, "night {night}");
    }
    assert_eq!(
        database
            .number(
                "SELECT count(*) FROM idem.mismatches
                      WHERE seen_count = 10 AND reopen_count = 3 AND provider_minor = 4400 AND severity = 'high'
                        AND first_seen_run = 'run-night 0' AND last_seen_run = 'run-night 9' AND events = 7"
            )
            .await,
        1
    );
    assert_eq!(
        database
            .number("SELECT count(*) FROM idem.mismatch_events
                      WHERE seq = 2 AND event = 'changed' AND run_id = 'run-night 2'
                        AND payload->'before'->>'provider_minor' = '5000' AND payload->'after'->>'provider_minor' = '4500'")
            .await,
        1
    );
    assert_eq!(database.store.verify_chains().await.unwrap(), []);
    // An old run is told as it was, whatever came after it.
    let old = database.store.find_by_identity("night 1").await.unwrap().unwrap();
    let seen_again = Mismatch { seen: Standing::StillOpen, ..raised(5_000, high) };
    assert_eq!(old.reconciliation.mismatches, [seen_again]);
}

#[tokio::test]
async fn events_are_append_only() {
    let database = TestDatabase::new().await;
    database.store.commit(&run("one", 0, vec![missing_locally("r1", 1)]), None).await.unwrap();
    for statement in [
        "UPDATE idem.mismatch_events SET actor = 'me'",
        "DELETE FROM idem.mismatch_events",
        "TRUNCATE idem.mismatch_events",
    ] {
        let error = database.sql(statement).await.unwrap_err();
        assert!(error.to_string().contains("idem.mismatch_events is append-only"), "{error}");
    }
}

#[tokio::test]
async fn a_rewritten_history_is_seen() {
    // Each row: what an attacker with full rights does, what the verification says of it.
    for (statement, expected) in [
        ("UPDATE idem.mismatch_events SET payload = '{}' WHERE seq = 2", "event 2: it was changed"),
        ("UPDATE idem.mismatch_events SET actor = 'me' WHERE seq = 1", "event 1: it was changed"),
        ("UPDATE idem.mismatch_events SET at = at + '1us' WHERE seq = 1", "event 1: it was changed"),
        ("DELETE FROM idem.mismatch_events WHERE seq = 1", "event 2: an event before it is missing"),
        ("DELETE FROM idem.mismatch_events WHERE seq = 3", ": its chain does not end where it should"),
        (
            "DELETE FROM idem.mismatch_events WHERE seq = 3;
             UPDATE idem.mismatches SET events = 2, head_hash =
                    (SELECT hash FROM idem.mismatch_events e WHERE e.seq = 2)",
            "run-2: an event that this run was committed on is gone",
        ),
        (
            "DELETE FROM idem.run_mismatches WHERE run_id = 'run-2'",
            "run-2: the hash over its mismatches' heads differs",
        ),
    ] {
        let database = TestDatabase::new().await;
        for night in 0..3 {
            let found = run(&night.to_string(), night, vec![missing_locally("r1", 5_000 + night)]);
            database.store.commit(&found, None).await.unwrap();
        }
        assert_eq!(database.store.verify_chains().await.unwrap(), []);
        let attack = format!("SET session_replication_role = replica; {statement}");
        database.sql(&attack).await.unwrap();
        let faults = database.store.verify_chains().await.unwrap();
        assert!(faults.iter().any(|fault| fault.to_string().ends_with(expected)), "{statement}: {faults:?}");
    }
}

#[tokio::test]
async fn a_refused_report_is_told_once_and_stands_beside_its_good_run() {
    let database = TestDatabase::new().await;
    let good = run("one", 0, Vec::new());
    let mut head = good.run.clone();
    head.id = "refused 1".to_owned();
    let store = &database.store;
    assert!(store.commit_refused(&head, "the trailer says 5 rows\0", Some(&mail("refused"))).await.unwrap());
    head.id = "refused 2".to_owned();
    assert!(!store.commit_refused(&head, "the same", Some(&mail("refused again"))).await.unwrap());
    assert_eq!(rows(&database).await, 1 + 2 + 1);
    assert_eq!(store.find_by_identity("one").await.unwrap(), None, "a refusal is no result");
    assert!(store.commit(&good, None).await.unwrap().is_new);
}

#[tokio::test]
async fn a_hostile_reference_does_not_stop_the_run() {
    let database = TestDatabase::new().await;
    let hostile = Mismatch {
        idempotency_key: Some("\0'; DROP TABLE idem.charges; --".to_owned()),
        provider_ids: vec!["{\"a\",NULL}".to_owned(), "\0".to_owned()],
        ..missing_locally("a\0b\u{1f980}\r\nBcc: x", 1)
    };
    let found = run("one", 0, vec![hostile.clone()]);
    database.store.commit(&found, None).await.unwrap();
    let stored = database.store.find_by_identity("one").await.unwrap().unwrap();
    assert_eq!(stored.reconciliation.mismatches, [hostile]);
    assert_eq!(database.number("SELECT cardinality(provider_ids)::bigint FROM idem.mismatches").await, 2);
    assert_eq!(database.store.verify_chains().await.unwrap(), []);
}

#[tokio::test]
async fn attachments_beyond_the_limit_are_refused_whole() {
    let database = TestDatabase::new().await;
    let mut message = mail("one");
    // Does not compress: each byte from a multiplicative generator.
    let mut seed = 1_u64;
    let noise = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    });
    message.attachments[0].content = noise.take(11 * 1024 * 1024).collect();
    let error = database.store.commit(&run("one", 0, Vec::new()), Some(&message)).await.unwrap_err();
    assert!(error.to_string().contains("at most 10485760 are possible"), "{error}");
    assert_eq!(rows(&database).await, 0);
}

#[tokio::test]
async fn ten_thousand_breaks_are_written_in_bulk() {
    let database = TestDatabase::new().await;
    let many = || (0..10_001).map(|n| missing_locally(&format!("r{n}"), n)).collect();
    let first = database.store.commit(&run("one", 0, many()), None).await.unwrap();
    let second = database.store.commit(&run("two", 1, many()), None).await.unwrap();
    assert_eq!(first.run.reconciliation.mismatches.len(), 10_001);
    assert!(standings(&second.run).iter().all(|standing| *standing == Standing::StillOpen));
    assert_eq!(database.number("SELECT count(*) FROM idem.mismatch_events").await, 10_001);
    assert_eq!(database.store.find_by_identity("two").await.unwrap().unwrap(), second.run);
    assert_eq!(database.store.verify_chains().await.unwrap(), []);
}
