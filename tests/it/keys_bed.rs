//! A database whose key functions take their clock from the session, and clients of it.
//!
//! The functions of the migrations know no clock but the database's. The bed rewrites them in its own database, so that
//! nothing of the kind exists where money is.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use uuid::Uuid;

use crate::harness::TestDatabase;

pub(crate) const ENDPOINT: &str = "POST /v1/payments";
pub(crate) const HASH: [u8; 32] = [7; 32];

/// The advisory lock of the claim, as it stands in the function.
pub(crate) const LOCK: &str = "pg_advisory_xact_lock(";

/// A migrated database, with a clock for each session.
pub(crate) struct KeysBed {
    pub(crate) database: TestDatabase,
    /// Noon of the first day that has a partition.
    pub(crate) noon: DateTime<Utc>,
}

impl KeysBed {
    pub(crate) async fn new() -> Self {
        let bed = Self::with_real_clock().await;
        bed.database
            .sql(
                "CREATE SCHEMA idem_test;
                 CREATE FUNCTION idem_test.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS
                 $$ SELECT coalesce(nullif(current_setting('idem_test.now', true), '')::timestamptz,
                                    clock_timestamp()) $$;",
            )
            .await
            .unwrap();
        assert!(bed.rewrite("clock_timestamp()", "idem_test.now()").await >= 8, "functions that read the clock");
        bed
    }

    /// With the functions exactly as they are shipped.
    pub(crate) async fn with_real_clock() -> Self {
        let database = TestDatabase::new().await;
        let mut session = database.session().await;
        let first: NaiveDate = sqlx::query_scalar(
            r#"SELECT min(to_date(substring(relname FROM '_y(.{10})$'), 'YYYY"m"MM"d"DD')) FROM pg_class
                WHERE relname ~ '^idempotency_keys_y\d{4}m\d\dd\d\d$' AND relkind = 'r'"#,
        )
        .fetch_one(&mut session)
        .await
        .unwrap();
        session.close().await.unwrap();
        let noon = first.and_hms_opt(12, 0, 0).unwrap().and_utc();
        Self { database, noon }
    }

    /// Replaces a text in the source of every function that holds it, and says in how many.
    pub(crate) async fn rewrite(&self, from: &str, to: &str) -> usize {
        let mut session = self.database.session().await;
        let sources: Vec<String> = sqlx::query_scalar(
            "SELECT pg_get_functiondef(oid) FROM pg_proc
              WHERE pronamespace = 'idem'::regnamespace AND position($1 IN prosrc) > 0",
        )
        .bind(from)
        .fetch_all(&mut session)
        .await
        .unwrap();
        for source in &sources {
            sqlx::raw_sql(AssertSqlSafe(source.replace(from, to))).execute(&mut session).await.unwrap();
        }
        session.close().await.unwrap();
        sources.len()
    }

    /// The first midnight between two days that have partitions.
    pub(crate) fn midnight(&self) -> DateTime<Utc> {
        self.noon + TimeDelta::hours(12)
    }

    /// A client whose clock says noon.
    pub(crate) async fn client(&self) -> Client {
        let mut client = Client { session: self.database.session().await };
        client.at(self.noon).await;
        client
    }

    /// Days and counts of the rows of a key, wherever they are.
    pub(crate) async fn rows(&self, key: &str) -> i64 {
        let live = format!("SELECT count(*) FROM idem.idempotency_keys WHERE key = '{key}'");
        let held = format!("SELECT count(*) FROM idem.held_keys WHERE key = '{key}'");
        self.database.number(&live).await + self.database.number(&held).await
    }

    /// Moves a key of the first day among the held ones.
    pub(crate) async fn hold(&self, client: &mut Client, key: &str) -> String {
        sqlx::query_scalar("SELECT idem.hold_key($1, 'acct', $2)")
            .bind(self.noon.date_naive())
            .bind(key)
            .fetch_one(&mut client.session)
            .await
            .unwrap()
    }
}

/// What a claim answered.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) outcome: String,
    pub(crate) lease: Option<Uuid>,
    pub(crate) epoch: Option<i64>,
    pub(crate) retry_after_s: Option<i32>,
    pub(crate) point: Option<String>,
    pub(crate) code: Option<i32>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) created_at: Option<DateTime<Utc>>,
    pub(crate) charge: Option<String>,
}

impl Claim {
    fn read(row: &PgRow) -> Self {
        Self {
            outcome: row.get("outcome"),
            lease: row.get("lease_id"),
            epoch: row.get("lease_epoch"),
            retry_after_s: row.get("retry_after_s"),
            point: row.get("recovery_point"),
            code: row.get("response_code"),
            body: row.get("response_body"),
            created_at: row.get("created_at"),
            charge: row.get("provider_charge_id"),
        }
    }

    /// The token of a claim that must have got one.
    pub(crate) fn token(&self) -> Uuid {
        self.lease.unwrap_or_else(|| panic!("no lease: {self:?}"))
    }
}

/// A session of an application.
pub(crate) struct Client {
    pub(crate) session: PgConnection,
}

impl Client {
    /// Sets the clock of this session.
    pub(crate) async fn at(&mut self, now: DateTime<Utc>) {
        sqlx::query("SELECT set_config('idem_test.now', $1, false)")
            .bind(now.to_rfc3339())
            .execute(&mut self.session)
            .await
            .unwrap();
    }

    pub(crate) async fn sql(&mut self, statements: &str) {
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut self.session).await.unwrap();
    }

    pub(crate) async fn claim(&mut self, key: &str) -> Claim {
        self.claim_for(key, "72 hours").await
    }

    pub(crate) async fn claim_for(&mut self, key: &str, ttl: &str) -> Claim {
        self.try_claim(key, ENDPOINT, &HASH, ttl).await.unwrap()
    }

    pub(crate) async fn try_claim(
        &mut self,
        key: &str,
        endpoint: &str,
        hash: &[u8],
        ttl: &str,
    ) -> Result<Claim, sqlx::Error> {
        let row = sqlx::query(
            "SELECT * FROM idem.claim_key(account => 'acct', key => $1, endpoint => $2, request_hash => $3,
                                          ttl => $4::text::interval, owner => 'test')",
        )
        .bind(key)
        .bind(endpoint)
        .bind(hash)
        .bind(ttl)
        .fetch_one(&mut self.session)
        .await?;
        Ok(Claim::read(&row))
    }

    /// The claim's message and SQLSTATE where it is refused.
    pub(crate) async fn refused(&mut self, key: &str, endpoint: &str, hash: &[u8], ttl: &str) -> (String, String) {
        refusal(self.try_claim(key, endpoint, hash, ttl).await.unwrap_err())
    }

    /// Calls one of the functions that answer a boolean, for the account `acct`.
    pub(crate) async fn write(&mut self, function: &str, key: &str, lease: Uuid, more: &str) -> bool {
        self.try_write(function, key, lease, more).await.unwrap()
    }

    pub(crate) async fn try_write(
        &mut self,
        function: &str,
        key: &str,
        lease: Uuid,
        more: &str,
    ) -> Result<bool, sqlx::Error> {
        let comma = if more.is_empty() { "" } else { ", " };
        sqlx::query_scalar(AssertSqlSafe(format!("SELECT idem.{function}('acct', $1, $2{comma}{more})")))
            .bind(key)
            .bind(lease)
            .fetch_one(&mut self.session)
            .await
    }

    pub(crate) async fn complete(&mut self, key: &str, lease: Uuid) -> bool {
        self.write("complete_key", key, lease, "201, NULL, 'done'").await
    }

    pub(crate) async fn send_intent(&mut self, key: &str, lease: Uuid, window: Option<&str>) -> String {
        self.try_send_intent(key, lease, "stripe", &format!("ik_{key}"), window).await.unwrap()
    }

    pub(crate) async fn try_send_intent(
        &mut self,
        key: &str,
        lease: Uuid,
        provider: &str,
        provider_key: &str,
        window: Option<&str>,
    ) -> Result<String, sqlx::Error> {
        sqlx::query_scalar("SELECT idem.send_intent('acct', $1, $2, $3, $4, $5::text::interval)")
            .bind(key)
            .bind(lease)
            .bind(provider)
            .bind(provider_key)
            .bind(window)
            .fetch_one(&mut self.session)
            .await
    }
}

/// Message and SQLSTATE of a refused statement.
pub(crate) fn refusal(error: sqlx::Error) -> (String, String) {
    let sqlx::Error::Database(error) = error else { panic!("not the server's refusal: {error}") };
    (error.message().to_owned(), error.code().unwrap_or_default().into_owned())
}
