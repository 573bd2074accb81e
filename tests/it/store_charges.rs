//! The local side: odd values, odd names, hostile configuration, one snapshot.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use chrono::{DateTime, Utc};
use idem_jobs::config::LocalSource;
use idem_jobs::config::settings::{GenericStatus, LocalFrom, LocalTable};
use idem_jobs::domain::charge::{Charge, MatchKey};
use idem_jobs::domain::entry::Status;
use idem_jobs::domain::money::MinorUnits;
use idem_jobs::store::{LocalQuery, LocalReader, StoreError};

use crate::harness::TestDatabase;

const TIMEOUT: Duration = Duration::from_secs(30);

fn table() -> LocalTable {
    let some = |name: &str| Some(name.to_owned());
    LocalTable {
        schema: "idem".to_owned(),
        table: "charges".to_owned(),
        charge_id: "charge_id".to_owned(),
        idempotency_key: some("idempotency_key"),
        merchant_reference: some("merchant_reference"),
        provider_id: some("provider_id"),
        amount_minor: "amount_minor".to_owned(),
        refunded_minor: some("refunded_minor"),
        currency: "currency".to_owned(),
        status: "status".to_owned(),
        created_at: "created_at".to_owned(),
        provider_column: some("provider"),
        account_column: some("merchant_account"),
    }
}

fn source(from: LocalFrom) -> LocalSource {
    let is = |word: &str, status| (word.to_owned(), GenericStatus::Is(status));
    LocalSource {
        provider: None,
        account: None,
        from,
        match_key: MatchKey::MerchantReference,
        minor_units: MinorUnits::Iso,
        statuses: BTreeMap::from([
            is("succeeded", Status::Succeeded),
            is("failed", Status::Failed),
            ("refunded".to_owned(), GenericStatus::Refunded),
        ]),
    }
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn may() -> Range<DateTime<Utc>> {
    at("2026-05-01T00:00:00Z")..at("2026-06-01T00:00:00Z")
}

async fn reader(database: &TestDatabase, source: &LocalSource, account: &str) -> Result<LocalReader, StoreError> {
    let query = LocalQuery::new(source, "stripe", account)?;
    database.store.local_reader(query, TIMEOUT).await
}

async fn stream(
    database: &TestDatabase,
    source: &LocalSource,
    account: &str,
) -> Result<Vec<Charge<'static>>, StoreError> {
    let mut charges = Vec::new();
    let mut reader = reader(database, source, account).await?;
    reader
        .copy_all(may(), |charge| {
            charges.push(charge.into_owned());
            ControlFlow::Continue(())
        })
        .await?;
    charges.sort_by(|a, b| a.charge_id.cmp(&b.charge_id));
    reader.close().await?;
    Ok(charges)
}

/// Inserts one charge; `values` override the defaults by column.
async fn insert(database: &TestDatabase, charge_id: &str, values: &[(&str, &str)]) {
    let mut row = BTreeMap::from([
        ("charge_id", format!("'{charge_id}'")),
        ("provider", "'stripe'".to_owned()),
        ("amount_minor", "5000".to_owned()),
        ("currency", "'USD'".to_owned()),
        ("status", "'succeeded'".to_owned()),
        ("created_at", "'2026-05-03 10:00:00+00'".to_owned()),
    ]);
    row.extend(values.iter().map(|(column, value)| (*column, (*value).to_owned())));
    let columns: Vec<&str> = row.keys().copied().collect();
    let values: Vec<&str> = row.values().map(String::as_str).collect();
    let statement = format!("INSERT INTO idem.charges ({}) VALUES ({})", columns.join(", "), values.join(", "));
    database.sql(&statement).await.unwrap();
}

#[tokio::test]
async fn odd_values_come_out_as_they_are() {
    let database = TestDatabase::new().await;
    insert(&database, "c1", &[("merchant_reference", "'é=日本🦀\"'''"), ("idempotency_key", r"E'a\tb\\'")]).await;
    insert(&database, "c2", &[("amount_minor", "10000"), ("currency", "'JPY'"), ("merchant_reference", "'  '")]).await;
    insert(&database, "c3", &[("amount_minor", "-1234"), ("currency", "'KWD'"), ("refunded_minor", "34")]).await;
    insert(&database, "c4", &[("status", "'refunded'"), ("provider_id", "'ch_4'")]).await;
    insert(
        &database,
        "c5",
        &[("created_at", "'2026-05-31 23:59:59.999999+00'"), ("amount_minor", "9223372036854775807")],
    )
    .await;
    insert(&database, "not in the window", &[("created_at", "'2026-06-01 00:00:00+00'")]).await;
    insert(&database, "of another provider", &[("provider", "'adyen'")]).await;
    let charges = stream(&database, &source(LocalFrom::Table(table())), "").await.unwrap();
    assert_eq!(charges.iter().map(|c| c.charge_id.as_ref()).collect::<Vec<_>>(), ["c1", "c2", "c3", "c4", "c5"]);
    assert_eq!(charges[0].merchant_reference.as_deref(), Some("é=日本🦀\"'"));
    assert_eq!(charges[0].idempotency_key.as_deref(), Some("a\tb\\"));
    assert_eq!(charges[0].provider_id, None);
    assert_eq!((charges[1].amount_minor, charges[1].currency.as_str()), (10_000, "JPY"));
    assert_eq!(charges[1].merchant_reference, None, "a blank reference is none");
    assert_eq!((charges[2].amount_minor, charges[2].refunded_minor), (-1_234, Some(34)));
    assert_eq!((charges[3].status, charges[3].refunded_minor), (Status::Succeeded, Some(5_000)));
    assert_eq!(charges[3].status_raw, "refunded");
    assert_eq!(charges[4].created_at, at("2026-05-31T23:59:59.999999Z"));
    assert_eq!(charges[4].amount_minor, i64::MAX);
}

#[tokio::test]
async fn an_account_selects_and_no_account_takes_all() {
    let database = TestDatabase::new().await;
    insert(&database, "c1", &[("merchant_account", "'acct_1'")]).await;
    insert(&database, "c2", &[("merchant_account", "'acct_2'")]).await;
    let source = source(LocalFrom::Table(table()));
    assert_eq!(stream(&database, &source, "acct_2").await.unwrap()[0].charge_id, "c2");
    assert_eq!(stream(&database, &source, "").await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_charge_that_cannot_be_used_is_named_with_its_column() {
    let database = TestDatabase::new().await;
    database
        .sql(
            "CREATE SCHEMA shop; CREATE TABLE shop.c (LIKE idem.charges INCLUDING DEFAULTS);
              ALTER TABLE shop.c ALTER charge_id DROP NOT NULL, ALTER amount_minor DROP NOT NULL,
                                 ALTER currency DROP NOT NULL, ALTER status DROP NOT NULL",
        )
        .await
        .unwrap();
    let good = [
        ("charge_id", "'c1'"),
        ("provider", "'stripe'"),
        ("amount_minor", "1"),
        ("currency", "'USD'"),
        ("status", "'succeeded'"),
        ("created_at", "'2026-05-03 10:00:00+00'"),
    ];
    let mut source = source(LocalFrom::Query("SELECT * FROM shop.c WHERE provider = $provider".to_owned()));
    source.minor_units = MinorUnits::Stripe;
    for (column, value, expected) in [
        ("charge_id", "NULL", "local charge \"\": column charge_id: is empty; each charge needs its own"),
        ("amount_minor", "NULL", "local charge \"c1\": column amount_minor: is NULL, expected a value"),
        ("currency", "NULL", "local charge \"c1\": column currency: is NULL, expected a value"),
        ("currency", "'XXX'", "local charge \"c1\": column currency: \"XXX\" is not a known ISO 4217 currency"),
        ("status", "NULL", "local charge \"c1\": column status: is NULL, expected a value"),
        (
            "status",
            "'paid'",
            "local charge \"c1\": column status: \"paid\" is not a known status; known are failed, refunded, succeeded",
        ),
        (
            "currency",
            "'ISK'",
            "local charge \"c1\": column amount_minor: 1 is not a whole number of ISO minor units of ISK",
        ),
        (
            "created_at",
            "'infinity'",
            "local charge \"c1\": column created_at: is infinite or beyond any calendar, expected an instant",
        ),
        (
            "created_at",
            "'-infinity'",
            "local charge \"c1\": column created_at: is infinite or beyond any calendar, expected an instant",
        ),
    ] {
        let row: Vec<(&str, &str)> =
            good.iter().map(|(name, good)| (*name, if *name == column { value } else { good })).collect();
        let columns: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
        let values: Vec<&str> = row.iter().map(|(_, value)| *value).collect();
        let statement =
            format!("TRUNCATE shop.c; INSERT INTO shop.c ({}) VALUES ({})", columns.join(", "), values.join(", "));
        database.sql(&statement).await.unwrap();
        let error = stream(&database, &source, "").await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn names_with_quotes_and_enums_are_names_like_others() {
    let database = TestDatabase::empty().await;
    database
        .sql(
            r#"CREATE SCHEMA "my ""shop""";
               CREATE TYPE "my ""shop""".st AS ENUM ('SUCCEEDED', 'failed');
               CREATE TABLE "my ""shop"""."c;--" ("The ""Id""" uuid, "amount$from" int, cur char(4),
                   st "my ""shop""".st, "at" timestamptz);
               INSERT INTO "my ""shop"""."c;--" VALUES
                   ('00000000-0000-0000-0000-00000000000a', 7, 'eur', 'SUCCEEDED', '2026-05-03 10:00:00+00')"#,
        )
        .await
        .unwrap();
    let mut source = source(LocalFrom::Table(LocalTable {
        schema: "my \"shop\"".to_owned(),
        table: "c;--".to_owned(),
        charge_id: "The \"Id\"".to_owned(),
        idempotency_key: None,
        merchant_reference: Some("The \"Id\"".to_owned()),
        provider_id: None,
        amount_minor: "amount$from".to_owned(),
        refunded_minor: None,
        currency: "cur".to_owned(),
        status: "st".to_owned(),
        created_at: "at".to_owned(),
        provider_column: None,
        account_column: None,
    }));
    let error = LocalQuery::new(&source, "stripe", "").unwrap_err();
    assert!(error.to_string().contains("has no provider_column and its source names no provider"), "{error}");
    source.provider = Some("stripe".to_owned());
    let charges = stream(&database, &source, "").await.unwrap();
    assert_eq!(charges[0].charge_id, "00000000-0000-0000-0000-00000000000a");
    assert_eq!(
        (charges[0].amount_minor, charges[0].currency.as_str(), charges[0].status),
        (7, "EUR", Status::Succeeded)
    );
    let mut reader = reader(&database, &source, "").await.unwrap();
    assert!(!reader.has(MatchKey::ProviderId));
    let keys = ["00000000-0000-0000-0000-00000000000a".to_owned(), "not a uuid".to_owned(), "a\0b".to_owned()];
    assert_eq!(reader.lookup(MatchKey::MerchantReference, &keys, |_| {}).await.unwrap(), 1);
    assert_eq!(reader.lookup(MatchKey::ProviderId, &keys, |_| {}).await.unwrap(), 0);
}

#[tokio::test]
async fn types_that_would_have_to_be_guessed_at_are_refused() {
    let database = TestDatabase::new().await;
    for (select, expected) in [
        ("5.5::numeric AS amount_minor, now() AS created_at", "column amount_minor is of type NUMERIC"),
        ("5::float8 AS amount_minor, now() AS created_at", "column amount_minor is of type FLOAT8"),
        ("5 AS amount_minor, now()::timestamp AS created_at", "column created_at is of type TIMESTAMP"),
        ("5 AS amount_minor, current_date AS created_at", "column created_at is of type DATE"),
        ("5 AS amount_minor, now() AS created_at, 'd' AS charge_id", "column reference \"charge_id\" is ambiguous"),
        ("5 AS amount_minor", "the source has no column created_at, which is needed"),
    ] {
        let query = format!("SELECT 'c' AS charge_id, 'USD' AS currency, 'failed' AS status, {select}");
        let error = stream(&database, &source(LocalFrom::Query(query)), "").await.unwrap_err();
        assert!(matches!(error, StoreError::LocalSource { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_query_cannot_reach_out_of_its_place() {
    let database = TestDatabase::new().await;
    insert(&database, "c1", &[]).await;
    for query in [
        "SELECT 1; DROP TABLE idem.charges",
        "SELECT * FROM idem.charges) TO STDOUT; COMMIT; DROP TABLE idem.charges; COPY (SELECT 1",
        "SELECT * FROM idem.charges) AS x; COMMIT; DROP TABLE idem.charges; --",
        "DELETE FROM idem.charges RETURNING *",
        "WITH gone AS (DELETE FROM idem.charges RETURNING *) SELECT * FROM gone",
        "SELECT * FROM charges",
        "SELECT * FROM idem.charges WHERE provider = $until",
        "SELECT * FROM idem.charges WHERE provider = '$provider",
        "SELECT * FROM idem.charges /* $provider",
        "",
    ] {
        let error = stream(&database, &source(LocalFrom::Query(query.to_owned())), "").await.unwrap_err();
        assert!(matches!(error, StoreError::LocalSource { .. }), "{query}: {error:?}");
    }
    assert_eq!(database.number("SELECT count(*) FROM idem.charges").await, 1);
}

#[tokio::test]
async fn a_query_that_writes_through_a_function_is_stopped_by_the_read_only_transaction() {
    let database = TestDatabase::new().await;
    insert(&database, "c1", &[]).await;
    database
        .sql(
            "CREATE FUNCTION idem.sweep() RETURNS bigint LANGUAGE plpgsql AS
              $$ BEGIN DELETE FROM idem.charges; RETURN 1; END $$",
        )
        .await
        .unwrap();
    let query = "SELECT *, idem.sweep() FROM idem.charges".to_owned();
    // Only the wanted columns are read, so the function is put where it cannot be left out.
    let query = query + " WHERE idem.sweep() = 1";
    let error = stream(&database, &source(LocalFrom::Query(query)), "").await.unwrap_err();
    assert!(matches!(error, StoreError::LocalSource { .. }), "{error:?}");
    assert!(error.to_string().contains("it may only read"), "{error}");
    assert_eq!(database.number("SELECT count(*) FROM idem.charges").await, 1);
}

#[tokio::test]
async fn hostile_values_stay_values() {
    let database = TestDatabase::new().await;
    let hostile = "'; DROP TABLE idem.charges; --\\'";
    insert(&database, "c1", &[("merchant_account", "'''; DROP TABLE idem.charges; --\\'''")]).await;
    insert(&database, "c2", &[]).await;
    let query = "SELECT * FROM idem.charges WHERE provider = $provider AND merchant_account = $account
                    AND created_at >= $from AND created_at < $to -- $account";
    for from in [LocalFrom::Table(table()), LocalFrom::Query(query.to_owned())] {
        let charges = stream(&database, &source(from), hostile).await.unwrap();
        assert_eq!(charges.iter().map(|c| c.charge_id.as_ref()).collect::<Vec<_>>(), ["c1"]);
    }
    let error = LocalQuery::new(&source(LocalFrom::Table(table())), "stripe", "a\0b").unwrap_err();
    assert!(error.to_string().contains("contains NUL"), "{error}");
}

#[tokio::test]
async fn lookups_see_the_streams_snapshot_and_no_window() {
    let database = TestDatabase::new().await;
    insert(&database, "c1", &[("merchant_reference", "'r1'")]).await;
    insert(&database, "old", &[("merchant_reference", "'r1'"), ("created_at", "'2019-01-01+00'")]).await;
    for from in [
        LocalFrom::Table(table()),
        LocalFrom::Query(
            "SELECT * FROM idem.charges WHERE provider = $provider AND created_at >= $from AND created_at < $to".into(),
        ),
    ] {
        let mut reader = reader(&database, &source(from), "").await.unwrap();
        let mut rows = 0;
        let mut stream = reader.copy_out(may()).await.unwrap();
        while stream.read(100, |_| rows += 1).await.unwrap() > 0 {}
        drop(stream);
        assert_eq!(rows, 1);
        insert(&database, "later", &[("merchant_reference", "'r1'")]).await;
        let mut keys: Vec<String> = (0..2_500).map(|n| format!("nobody's {n}")).collect();
        keys.extend(["r1".to_owned(), "r1".to_owned()]);
        let mut found = Vec::new();
        let number =
            reader.lookup(MatchKey::MerchantReference, &keys, |c| found.push(c.charge_id.into_owned())).await.unwrap();
        found.sort();
        assert_eq!((number, found), (2, vec!["c1".to_owned(), "old".to_owned()]));
        database.sql("DELETE FROM idem.charges WHERE charge_id = 'later'").await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_that_was_left_early_makes_its_reader_refuse() {
    let database = TestDatabase::new().await;
    for id in ["c1", "c2", "c3"] {
        insert(&database, id, &[]).await;
    }
    let mut reader = reader(&database, &source(LocalFrom::Table(table())), "").await.unwrap();
    assert_eq!(reader.copy_all(may(), |_| ControlFlow::Break(())).await.unwrap(), 1);
    let error = reader.lookup(MatchKey::ProviderId, &["x".to_owned()], |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("left before its end"), "{error}");
}

#[tokio::test]
async fn a_session_that_is_ended_in_the_middle_is_an_error_and_not_a_short_stream() {
    let database = TestDatabase::new().await;
    database
        .sql(
            "INSERT INTO idem.charges (charge_id, provider, amount_minor, currency, status, created_at, order_id)
              SELECT n, 'stripe', n, 'USD', 'succeeded', '2026-05-03+00', NULL FROM generate_series(1, 200000) n",
        )
        .await
        .unwrap();
    let mut reader = reader(&database, &source(LocalFrom::Table(table())), "").await.unwrap();
    let mut stream = reader.copy_out(may()).await.unwrap();
    let mut rows = stream.read(10, |_| {}).await.unwrap();
    crate::store::end_other_sessions(&mut database.session().await).await;
    let error = loop {
        match stream.read(1_000, |_| {}).await {
            Ok(0) => panic!("{rows} rows looked like all of them"),
            Ok(more) => rows += more,
            Err(error) => break error,
        }
    };
    assert!(rows < 200_000, "the stream was at its end before the session was");
    assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
}
