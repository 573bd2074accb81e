//! `deploy/grants.sql`: each role can do its own work and nothing beside it.

use sqlx::AssertSqlSafe;

use crate::keys_bed::{Client, KeysBed, refusal};

const GRANTS: &str = include_str!("../../deploy/grants.sql");

/// A bed with the grants, given twice: an upgrade runs the file again.
async fn bed() -> KeysBed {
    let bed = KeysBed::with_real_clock().await;
    for _ in 0..2 {
        bed.database.sql(GRANTS).await.unwrap();
    }
    bed
}

async fn as_role(bed: &KeysBed, role: &str) -> Client {
    let mut client = bed.client().await;
    client.sql(&format!("SET ROLE {role}")).await;
    client
}

/// The SQLSTATE of a statement that must be refused.
async fn refused(client: &mut Client, statement: &str) -> String {
    match sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut client.session).await {
        Ok(_) => panic!("allowed: {statement}"),
        Err(error) => refusal(error).1,
    }
}

#[tokio::test]
async fn the_application_can_claim_and_finish() {
    let bed = bed().await;
    let mut app = as_role(&bed, "idem_app").await;
    let claim = app.claim("k").await;
    assert_eq!(claim.outcome, "claimed");
    let lease = claim.token();
    assert!(app.write("renew_lease", "k", lease, "").await);
    assert_eq!(app.send_intent("k", lease, Some("24 hours")).await, "ok");
    assert!(app.write("checkpoint", "k", lease, "'charged', 'ch_1'").await);
    assert!(app.complete("k", lease).await);
    assert_eq!(app.claim("k").await.outcome, "replay");
    for (key, function, more) in [("r", "release_key", ""), ("f", "fail_key", "'refused'")] {
        let lease = app.claim(key).await.token();
        assert!(app.write(function, key, lease, more).await, "{function}");
    }
    app.sql("SELECT idem.claim_message('mailer', 'm'), idem.provider_key('a', 'k'), idem.key_from_header('k')").await;
}

#[tokio::test]
async fn the_application_can_neither_read_nor_change_nor_drop_anything() {
    let bed = bed().await;
    let mut app = as_role(&bed, "idem_app").await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT relname::text FROM pg_class
          WHERE relnamespace = 'idem'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1",
    )
    .fetch_all(&mut app.session)
    .await
    .unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    for table in &tables {
        for statement in ["SELECT 1 FROM", "DELETE FROM", "TRUNCATE", "DROP TABLE"] {
            assert_eq!(refused(&mut app, &format!("{statement} idem.{table}")).await, "42501", "{statement} {table}");
        }
    }
    for statement in [
        "CREATE TABLE idem.x (i int)",
        "DROP SCHEMA idem CASCADE",
        "DROP FUNCTION idem.claim_message(text, text)",
        "UPDATE idem.settings SET retention = '1 year'",
        "INSERT INTO idem.idempotency_keys (day) VALUES (current_date)",
        "SELECT idem.hold_key(current_date, 'acct', 'k')",
        "SELECT idem.count_answer(current_date, 'e', 'replay')",
        "SELECT idem.new_lease(current_date)",
    ] {
        assert_eq!(refused(&mut app, statement).await, "42501", "{statement}");
    }
}

#[tokio::test]
async fn an_object_in_the_callers_path_is_never_used_in_place_of_ours() {
    let bed = bed().await;
    bed.database
        .sql(
            "CREATE SCHEMA trap;
             CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'epoch'::timestamptz $$;
             CREATE FUNCTION trap.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE sql AS $$ SELECT $$;
             GRANT USAGE ON SCHEMA trap TO idem_app",
        )
        .await
        .unwrap();
    let mut app = as_role(&bed, "idem_app").await;
    app.sql("SET search_path = trap, pg_catalog").await;
    let claim = app.claim("k").await;
    assert!(claim.created_at.unwrap() >= bed.noon - chrono::TimeDelta::hours(12), "{claim:?}");
    app.sql("BEGIN").await;
    app.claim("k").await;
    let locks: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            .fetch_one(&mut app.session)
            .await
            .unwrap();
    assert_eq!(locks, 1);
}

#[tokio::test]
async fn the_reader_sees_states_and_no_requests_answers_or_mails() {
    let bed = bed().await;
    let mut reader = as_role(&bed, "idem_reader").await;
    for table in ["idempotency_keys", "held_keys"] {
        reader.sql(&format!("SELECT key, status, expires_at FROM idem.{table}")).await;
        for secret in ["request_body", "request_headers", "response_body", "response_headers", "request_path"] {
            assert_eq!(refused(&mut reader, &format!("SELECT {secret} FROM idem.{table}")).await, "42501", "{secret}");
        }
    }
    reader.sql("SELECT * FROM idem.mismatches; SELECT * FROM idem.key_stats; SELECT topic FROM idem.outbox").await;
    for statement in
        ["SELECT payload FROM idem.outbox", "DELETE FROM idem.key_stats", "SELECT idem.claim_message('c', 'm')"]
    {
        assert_eq!(refused(&mut reader, statement).await, "42501", "{statement}");
    }
}

#[tokio::test]
async fn the_jobs_own_what_they_must_attach_detach_and_drop() {
    let bed = bed().await;
    let mut jobs = as_role(&bed, "idem_jobs").await;
    let foreign = "SELECT count(*) FROM pg_class WHERE relnamespace = 'idem'::regnamespace
                      AND relowner <> 'idem_jobs'::regrole";
    assert_eq!(bed.database.number(foreign).await, 0);
    jobs.sql(
        "CREATE TABLE idem.idempotency_keys_y2099m01d01 (LIKE idem.idempotency_keys INCLUDING ALL);
         ALTER TABLE idem.idempotency_keys ATTACH PARTITION idem.idempotency_keys_y2099m01d01
               FOR VALUES FROM ('2099-01-01') TO ('2099-01-02');",
    )
    .await;
    jobs.sql("ALTER TABLE idem.idempotency_keys DETACH PARTITION idem.idempotency_keys_y2099m01d01 CONCURRENTLY").await;
    jobs.sql("DROP TABLE idem.idempotency_keys_y2099m01d01").await;
    jobs.sql("SELECT idem.hold_key(current_date, 'acct', 'k'); UPDATE idem.settings SET ttl_max = '72 hours'").await;
}
