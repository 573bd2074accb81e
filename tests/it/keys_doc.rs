//! `docs/KEYS.md` and the handlers beside it: every statement runs, and the four languages say the same.

// The Rust handler is not only read: the tests below call it.
#[path = "../../docs/handlers/handler.rs"]
#[expect(unreachable_pub, reason = "it is written for an application, not for this crate")]
mod handler;

use std::collections::BTreeSet;

use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgPool};

use crate::keys_bed::KeysBed;
use handler::{Charged, Reply};

const DOC: &str = include_str!("../../docs/KEYS.md");
const HANDLERS: [(&str, &str); 4] = [
    ("handler.go", include_str!("../../docs/handlers/handler.go")),
    ("handler.mjs", include_str!("../../docs/handlers/handler.mjs")),
    ("handler.py", include_str!("../../docs/handlers/handler.py")),
    ("handler.rs", include_str!("../../docs/handlers/handler.rs")),
];

/// One statement a line, however it was broken.
fn flat(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The statements of the page.
fn statements() -> BTreeSet<String> {
    DOC.split("```sql\n").skip(1).map(|rest| flat(rest.split("```").next().unwrap())).collect()
}

/// Each `SELECT` of a handler that calls one of our functions, up to the quote that ends it.
fn statements_of(source: &str) -> BTreeSet<String> {
    source
        .match_indices("SELECT ")
        // Not the sub-select of a statement that was found already.
        .filter(|(at, _)| !source[..*at].ends_with('('))
        .map(|(at, _)| flat(source[at..].split(['"', '`']).next().unwrap()))
        .map(|sql| sql.trim_end_matches(" AS ok").trim_end_matches(" AS is_new").to_owned())
        .collect()
}

#[tokio::test]
async fn every_statement_of_the_page_is_one_that_the_server_takes() {
    let bed = KeysBed::with_real_clock().await;
    let statements = statements();
    assert_eq!(statements.len(), 8, "{statements:#?}");
    let mut session = bed.database.session().await;
    for sql in &statements {
        sqlx::raw_sql(AssertSqlSafe(format!("PREPARE s AS {sql}; DEALLOCATE s")))
            .execute(&mut session)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    session.close().await.unwrap();
}

#[test]
fn the_handlers_use_the_statements_of_the_page_and_no_others() {
    let page = statements();
    let used = |name: &str| page.iter().find(|sql| sql.contains(name)).unwrap().clone();
    let needed: BTreeSet<String> =
        ["claim_key", "send_intent", "checkpoint", "complete_key", "release_key", "claim_message"].map(used).into();
    for (name, source) in HANDLERS {
        assert_eq!(statements_of(source), needed, "{name}");
        for word in ["Idempotent-Replayed", "X-Original-Request-Time", "Retry-After", "409", "410", "422", "503"] {
            assert!(source.contains(word), "{name} does not speak of {word}");
        }
    }
}

#[test]
fn the_page_names_every_outcome_and_every_function_of_the_application() {
    for outcome in ["claimed", "resumed", "replay", "in_progress", "needs_review", "mismatch", "stale"] {
        assert!(DOC.contains(&format!("| `{outcome}` |")), "{outcome}");
    }
    let grants = include_str!("../../deploy/grants.sql");
    let granted = grants.split("GRANT EXECUTE ON FUNCTION").nth(1).unwrap().split("TO idem_app").next().unwrap();
    let functions: Vec<&str> = granted.split("idem.").skip(1).map(|rest| rest.split('(').next().unwrap()).collect();
    assert_eq!(functions.len(), 10);
    for function in functions {
        assert!(DOC.contains(&format!("idem.{function}")), "{function}");
    }
}

async fn shop() -> (KeysBed, PgPool) {
    let bed = KeysBed::with_real_clock().await;
    bed.database
        .sql(
            "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY, body text);
             CREATE TABLE payments (charge_id text)",
        )
        .await
        .unwrap();
    let pool = PgPoolOptions::new().max_connections(4).connect(bed.database.url.expose()).await.unwrap();
    (bed, pool)
}

fn header(reply: &Reply, name: &str) -> Option<String> {
    reply.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone())
}

#[tokio::test]
async fn the_order_handler_works_once_and_replays() {
    let (bed, pool) = shop().await;
    let first = handler::create_order(&pool, "acct", "\"k\"", br#"{"sku": 1, "n": 2}"#).await;
    assert_eq!((first.code, first.body.as_slice()), (201, &br#"{"order":1}"#[..]));
    // The same intent: no quotes, other order of the fields.
    let again = handler::create_order(&pool, "acct", "k", br#"{"n":2,"sku":1}"#).await;
    assert_eq!((again.code, &again.body), (201, &first.body));
    assert_eq!(header(&again, "Idempotent-Replayed").as_deref(), Some("true"));
    assert!(header(&again, "X-Original-Request-Time").is_some());
    assert_eq!(handler::create_order(&pool, "acct", "k", br#"{"n":3}"#).await.code, 422);
    assert_eq!(handler::create_order(&pool, "acct", "", b"{}").await.code, 400);
    assert_eq!(handler::create_order(&pool, "acct", "k2", b"{").await.code, 400);
    assert_eq!(handler::create_order(&pool, "another", "k", br#"{"n":3}"#).await.code, 201);
    assert_eq!(bed.database.number("SELECT count(*) FROM orders").await, 2);
    pool.close().await;
    assert_eq!(handler::create_order(&pool, "acct", "k3", b"{}").await.code, 503, "fail closed");
}

#[tokio::test]
async fn a_failed_order_leaves_nothing_and_its_retry_works() {
    let (bed, pool) = shop().await;
    bed.database.sql("ALTER TABLE orders ADD CONSTRAINT broken CHECK (false)").await.unwrap();
    assert_eq!(handler::create_order(&pool, "acct", "k", b"{}").await.code, 503);
    assert_eq!(bed.rows("k").await, 0);
    bed.database.sql("ALTER TABLE orders DROP CONSTRAINT broken").await.unwrap();
    assert_eq!(handler::create_order(&pool, "acct", "k", b"{}").await.code, 201);
    pool.close().await;
}

#[tokio::test]
async fn the_payment_handler_charges_once_whatever_the_provider_answers() {
    let (bed, pool) = shop().await;
    let mut sent = Vec::new();
    let pay = async |key: &str, answer: Charged, sent: &mut Vec<String>| {
        handler::create_payment(&pool, "acct", key, br#"{"amount":1}"#, async |provider_key: &str, _: &[u8]| {
            sent.push(provider_key.to_owned());
            answer
        })
        .await
    };
    let unknown = || Charged::Unknown { reason: "no answer within 20 s".to_owned() };
    let yes = || Charged::Yes { charge_id: "ch_1".to_owned() };

    let lost = pay("k", unknown(), &mut sent).await;
    assert_eq!((lost.code, header(&lost, "Retry-After").as_deref()), (503, Some("30")));
    let paid = pay("k", yes(), &mut sent).await;
    assert_eq!((paid.code, paid.body.as_slice()), (201, &br#"{"charge":"ch_1"}"#[..]));
    assert_eq!(pay("k", yes(), &mut sent).await.body, paid.body);
    assert_eq!(sent.len(), 2, "the replay calls nobody");
    assert_eq!(sent[0], sent[1], "the retry sends the same provider key");

    let declined = pay("d", Charged::Declined, &mut sent).await;
    assert_eq!(declined.code, 402);
    assert_eq!(pay("d", yes(), &mut sent).await.body, declined.body);
    assert_eq!(sent.len(), 3);

    // The last transaction fails after the charge: the retry only finishes.
    bed.database.sql("ALTER TABLE payments RENAME TO away").await.unwrap();
    assert_eq!(pay("f", yes(), &mut sent).await.code, 503);
    bed.database.sql("ALTER TABLE away RENAME TO payments").await.unwrap();
    assert_eq!(pay("f", yes(), &mut sent).await.code, 409, "its lease still runs");
    bed.database
        .sql("UPDATE idem.idempotency_keys SET locked_until = clock_timestamp() WHERE key = 'f'")
        .await
        .unwrap();
    assert_eq!(pay("f", yes(), &mut sent).await.code, 201);
    assert_eq!(sent.len(), 4, "one call for it");
    assert_eq!(bed.database.number("SELECT count(*) FROM payments").await, 2);
    pool.close().await;
}

#[tokio::test]
async fn a_message_is_new_once_and_again_after_a_rollback() {
    let (_bed, pool) = shop().await;
    for (wanted, commit) in [(true, false), (true, true), (false, true)] {
        let mut transaction = pool.begin().await.unwrap();
        assert_eq!(handler::is_new_message(&mut transaction, "m1").await.unwrap(), wanted);
        if commit {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
    }
    pool.close().await;
}
