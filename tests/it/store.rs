//! The database as such: connecting, migrating, locks, the journal of the jobs.

use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use idem_jobs::config::Secret;
use idem_jobs::store::{JobStart, Lock, LockKey, MIGRATOR, Store, StoreError};
use sqlx::{Connection, PgConnection};

use crate::harness::{TestDatabase, admin_url, with_database};

#[tokio::test]
async fn an_address_that_is_none_is_refused_without_showing_it() {
    for url in ["", "no address", "mysql://root:hunter2@db/x", "postgres://u:hunter2@h:port/d"] {
        let error = Store::connect(&Secret::new(url)).await.unwrap_err();
        assert!(matches!(error, StoreError::Address { .. }), "{url}: {error:?}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn a_host_that_is_away_is_unreachable() {
    // Port 1 of this machine: nothing listens there.
    let error = Store::connect(&Secret::new("postgres://u:hunter2@127.0.0.1:1/d")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    insta::assert_snapshot!(error, @"cannot reach the database at 127.0.0.1:1: Connection refused (os error 111)");
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_user_are_refused_by_name() {
    let database = TestDatabase::empty().await;
    let role = format!("{}_password", database.name);
    database.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'right'")).await.unwrap();
    let mut session = database.session().await;
    let port: String = sqlx::query_scalar("SHOW port").fetch_one(&mut session).await.unwrap();
    let listens: String = sqlx::query_scalar("SHOW listen_addresses").fetch_one(&mut session).await.unwrap();
    // Over the socket the test server may trust everybody; a role that may not log in is refused on any path.
    database.sql(&format!("CREATE ROLE {role}_nologin NOLOGIN")).await.unwrap();
    let admin = admin_url();
    let nologin = replace_user(&with_database(&admin, &database.name), &format!("{role}_nologin"));
    let refused = Store::connect(&Secret::new(nologin)).await;
    let over_tcp = format!("postgres://{role}:wrong@127.0.0.1:{port}/{}", database.name);
    let wrong = if listens.is_empty() { None } else { Some(Store::connect(&Secret::new(over_tcp)).await) };
    database.sql(&format!("DROP ROLE {role}; DROP ROLE {role}_nologin")).await.unwrap();
    let error = refused.unwrap_err();
    assert!(matches!(&error, StoreError::Auth { user, .. } if *user == format!("{role}_nologin")), "{error:?}");
    if let Some(wrong) = wrong {
        let error = wrong.unwrap_err();
        assert!(matches!(&error, StoreError::Auth { sqlstate, .. } if sqlstate == "28P01"), "{error:?}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

fn replace_user(url: &str, user: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let host = rest.split_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{user}@{host}")
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let url = with_database(&admin_url(), "idem_test_no_such_database");
    let error = Store::connect(&Secret::new(url)).await.unwrap_err();
    assert!(matches!(&error, StoreError::NoDatabase { database, .. } if database == "idem_test_no_such_database"));
    assert!(error.to_string().ends_with("has no database \"idem_test_no_such_database\""), "{error}");
}

#[tokio::test]
async fn each_state_of_the_schema_has_its_own_sentence() {
    let database = TestDatabase::empty().await;
    let error = database.store.require_ready().await.unwrap_err();
    insta::assert_snapshot!(error, @r#"the schema "idem" does not exist in this database: run `idem-jobs migrate`"#);

    let steps = database.store.migrate(true).await.unwrap();
    assert!(steps.iter().all(|step| !step.was_applied), "{steps:?}");
    assert!(
        matches!(database.store.require_ready().await, Err(StoreError::SchemaMissing)),
        "a dry run wrote something"
    );

    database.store.migrate(false).await.unwrap();
    database.store.require_ready().await.unwrap();

    let newest = MIGRATOR.iter().map(|migration| migration.version).max().unwrap();
    database.sql(&format!("DELETE FROM idem.schema_migrations WHERE version = {newest}")).await.unwrap();
    assert!(
        matches!(database.store.require_ready().await, Err(StoreError::SchemaOld { needed, .. }) if needed == newest)
    );

    database
        .sql("INSERT INTO idem.schema_migrations VALUES (9000, 'from the future', now(), true, '\\x00', 0)")
        .await
        .unwrap();
    for error in [database.store.require_ready().await.unwrap_err(), database.store.migrate(false).await.unwrap_err()] {
        assert!(matches!(error, StoreError::SchemaUnknown { .. }), "{error:?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @r#"the schema "idem" is not one that this program knows: it has migration 9000, this program knows up to 7: use a newer program"#);
        }
    }

    database
        .sql(
            "DELETE FROM idem.schema_migrations WHERE version = 9000;
              UPDATE idem.schema_migrations SET checksum = '\\x00' WHERE version = 1",
        )
        .await
        .unwrap();
    insta::assert_snapshot!(database.store.require_ready().await.unwrap_err(), @r#"the schema "idem" is not one that this program knows: migration 1 differs from the one that was applied"#);
}

#[tokio::test]
async fn migrating_twice_and_at_the_same_time_applies_each_step_once() {
    let database = TestDatabase::empty().await;
    let (one, two) = tokio::join!(database.store.migrate(false), database.store.migrate(false));
    let (one, two) = (one.unwrap(), two.unwrap());
    let fresh = |steps: &[idem_jobs::store::MigrationStep]| steps.iter().filter(|step| !step.was_applied).count();
    assert_eq!(fresh(&one) + fresh(&two), MIGRATOR.iter().count());
    assert!(database.store.migrate(false).await.unwrap().iter().all(|step| step.was_applied));
    let steps = i64::try_from(MIGRATOR.iter().count()).unwrap();
    assert_eq!(database.number("SELECT count(*) FROM idem.schema_migrations").await, steps);
}

#[tokio::test]
async fn migrating_gives_up_when_the_application_holds_what_it_needs() {
    let database = TestDatabase::empty().await;
    database.sql("CREATE SCHEMA idem").await.unwrap();
    let mut application = database.session().await;
    let mut held = application.begin().await.unwrap();
    // A name that the first migration wants, held by a transaction that has not ended.
    sqlx::raw_sql("CREATE TABLE idem.charges (id int)").execute(&mut *held).await.unwrap();
    let error = database.store.migrate(false).await.unwrap_err();
    assert!(matches!(error, StoreError::Contended { .. }), "{error:?}");
    assert!(error.to_string().contains("applying migration 1 \"charges\""), "{error}");
    held.rollback().await.unwrap();
    database.store.migrate(false).await.unwrap();
    database.store.require_ready().await.unwrap();
}

#[tokio::test]
async fn a_database_that_takes_no_writes_is_refused() {
    let database = TestDatabase::new().await;
    database.sql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name)).await.unwrap();
    assert!(matches!(database.store.require_ready().await, Err(StoreError::ReadOnly)));
}

#[tokio::test]
async fn a_refused_statement_shows_sqlstate_and_constraint_and_no_line_of_the_servers_source() {
    let database = TestDatabase::new().await;
    let start = JobStart { job: "", started_at: DateTime::UNIX_EPOCH, host: "h", version: "1", config_hash: "c" };
    let error = database.store.start_job_run(&start).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.sqlstate(), Some("23514"));
    assert!(text.contains("SQLSTATE 23514; constraint: job_runs_job_check"), "{text}");
    assert!(!text.contains("at line"), "{text}");
}

#[tokio::test]
async fn a_job_run_ends_once() {
    let database = TestDatabase::new().await;
    let at = DateTime::UNIX_EPOCH;
    let start = JobStart { job: "reconcile", started_at: at, host: "h", version: "1", config_hash: "c" };
    let id = database.store.start_job_run(&start).await.unwrap();
    let outcome = serde_json::json!({ "seen": 3 });
    database.store.finish_job_run(id, at + TimeDelta::seconds(2), &outcome, 0).await.unwrap();
    let again = database.store.finish_job_run(id, at, &outcome, 1).await.unwrap_err();
    assert!(matches!(again, StoreError::Corrupt { .. }), "{again:?}");
    let kept = "SELECT count(*) FROM idem.job_runs WHERE exit_code = 0 AND outcome->>'seen' = '3'";
    assert_eq!(database.number(kept).await, 1);
}

#[tokio::test]
async fn a_lock_excludes_its_like_until_it_is_released() {
    let database = TestDatabase::empty().await;
    let acquire = |key, wait| Lock::acquire(&database.url, key, wait);
    let key = LockKey::reconcile("stripe", "acct_1");
    let mut held = acquire(key, Duration::ZERO).await.unwrap().unwrap();
    held.check().await.unwrap();
    assert!(acquire(key, Duration::from_millis(300)).await.unwrap().is_none());
    let other = acquire(LockKey::reconcile("stripe", "acct_2"), Duration::ZERO).await.unwrap().unwrap();
    other.release().await.unwrap();
    let (waited, released) = tokio::join!(acquire(key, Duration::from_secs(20)), held.release());
    released.unwrap();
    waited.unwrap().expect("it became free while we waited").release().await.unwrap();
}

#[tokio::test]
async fn a_lock_whose_session_was_ended_says_so() {
    let database = TestDatabase::empty().await;
    let mut held =
        Lock::acquire(&database.url, LockKey::reconcile("stripe", ""), Duration::ZERO).await.unwrap().unwrap();
    end_other_sessions(&mut database.session().await).await;
    let error = held.check().await.unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
}

/// Ends every session of this database but the caller's, and returns when they are gone.
pub(crate) async fn end_other_sessions(session: &mut PgConnection) {
    sqlx::query(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    )
    .execute(session)
    .await
    .unwrap();
}

#[tokio::test]
async fn sessions_say_whose_they_are() {
    let database = TestDatabase::empty().await;
    let before = database.store.now().await.unwrap();
    assert!(database.store.now().await.unwrap() >= before, "the database's clock went back");
    let ours = "SELECT count(*) FROM pg_stat_activity
                 WHERE application_name = 'idem-jobs' AND datname = current_database()";
    assert!(database.number(ours).await >= 1, "the first session may still be going");
}
