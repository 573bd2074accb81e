//! Rows of managed tables: what is unfinished, what stands in the default partition, how large days are.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use crate::config::{PartitionSettings, PartitionTable, TableKind};
use crate::domain::partition::{Child, ForeignKey, Period, TableFacts, TableName};

use super::Statement;
use super::ddl::within;
use crate::store::StoreError;

/// More rows than this are not counted, only said to be more.
const COUNTED_MAX: u64 = 1_000;

/// Keys that move to `idem.held_keys` in one transaction.
const BATCH_ROWS: i64 = 50;

/// Rows that must outlive their day: everything but what has expired and may expire.
const UNFINISHED_KEY: &str = "(expires_at <= clock_timestamp() \
    AND (status = 'completed' OR (status = 'failed' AND provider_first_sent_at IS NULL))) IS NOT TRUE";

/// What keeps a day of a table, as SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    condition: String,
    /// Whether such rows can be moved to `idem.held_keys`.
    pub movable: bool,
}

impl Unfinished {
    /// What keeps days of this table; `None` when nothing does.
    pub fn of(table: &PartitionTable) -> Option<Self> {
        match (table.kind, &table.unfinished) {
            (TableKind::Keys, _) => Some(Self { condition: UNFINISHED_KEY.to_owned(), movable: true }),
            (_, Some(condition)) => Some(Self { condition: condition.clone(), movable: false }),
            (_, None) => None,
        }
    }

    /// The query that counts such rows of a child, up to a bound.
    pub fn count_sql(&self, child: &TableName) -> String {
        let (child, condition) = (child.quoted(), &self.condition);
        format!("SELECT count(*) FROM (SELECT FROM ONLY {child} WHERE ({condition}) LIMIT {COUNTED_MAX}) AS unfinished")
    }

    /// The statement that moves the next batch of such keys, each under the lock of its claim.
    pub fn hold_sql(&self, child: &TableName, day: Period) -> String {
        format!(
            "WITH due AS MATERIALIZED (SELECT account_id, key FROM ONLY {} WHERE ({}) AND (account_id, key) > ($1, $2) \
             ORDER BY account_id, key LIMIT {BATCH_ROWS}) \
             SELECT account_id, key, idem.hold_key('{}', account_id, key) AS outcome FROM due",
            child.quoted(),
            self.condition,
            day.from.date_naive(),
        )
    }
}

impl Unfinished {
    /// [`Self::hold_sql`] as a plan shows it.
    pub fn hold_statement(&self, child: &TableName, day: Period) -> Statement {
        let lock = "the claim's lock on each of 50 keys at a time, row locks on them";
        Statement::new(self.hold_sql(child, day), lock)
    }
}

/// What one batch of keys came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Moved to `idem.held_keys`.
    pub held: u64,
    /// Left where they are: somebody holds a lease.
    pub live: u64,
    /// Where the next batch begins; `None` after the last.
    pub next: Option<(String, String)>,
}

/// A day's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaySize {
    /// The child.
    pub child: Child,
    /// Table, indexes and out-of-line values.
    pub bytes: u64,
}

/// How late replays come.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayAge {
    /// Keys that were replayed at least once.
    pub keys: i64,
    /// From a key's creation to its latest replay: the longest, in seconds.
    pub latest_seconds: Option<f64>,
    /// The same at the 99th of a hundred.
    pub p99_seconds: Option<f64>,
}

async fn number(connection: &mut PgConnection, sql: String, what: String) -> Result<u64, StoreError> {
    let number: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
        .persistent(false)
        .fetch_one(connection)
        .await
        .map_err(|error| StoreError::query(what, &error))?;
    Ok(u64::try_from(number).unwrap_or(0))
}

pub(super) async fn unfinished(
    connection: &mut PgConnection,
    unfinished: &Unfinished,
    child: &TableName,
) -> Result<u64, StoreError> {
    number(connection, unfinished.count_sql(child), format!("counting unfinished rows of {child}")).await
}

/// Rows of the default partition that belong to a period, counted to one above `rows_max`.
pub(super) async fn in_default(
    connection: &mut PgConnection,
    facts: &TableFacts,
    period: Period,
    rows_max: u64,
) -> Result<u64, StoreError> {
    let Some(default) = facts.default_child().and_then(|child| child.name.as_ref()) else { return Ok(0) };
    let sql = format!(
        "SELECT count(*) FROM (SELECT FROM ONLY {} WHERE {} LIMIT {}) AS early",
        default.quoted(),
        within(facts, period),
        rows_max + 1
    );
    number(connection, sql, format!("counting rows of {default}")).await
}

/// Rows of a table, counted up to a bound.
pub(super) async fn up_to(connection: &mut PgConnection, table: &TableName, rows_max: u64) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) FROM (SELECT FROM ONLY {} LIMIT {rows_max}) AS first", table.quoted());
    number(connection, sql, format!("counting rows of {table}")).await
}

/// Rows of another table that point into a child.
pub(super) async fn referencing(
    connection: &mut PgConnection,
    key: &ForeignKey,
    child: &TableName,
) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT count(*) FROM (SELECT FROM {} r WHERE EXISTS (SELECT FROM ONLY {} k WHERE {}) LIMIT {COUNTED_MAX}) AS pointing",
        key.other_quoted,
        child.quoted(),
        key.condition
    );
    number(connection, sql, format!("counting rows of {} that point to {child}", key.other)).await
}

pub(super) async fn hold_batch(
    connection: &mut PgConnection,
    sql: &str,
    after: &(String, String),
) -> Result<Held, StoreError> {
    let rows = sqlx::query(AssertSqlSafe(sql))
        .persistent(false)
        .bind(&after.0)
        .bind(&after.1)
        .fetch_all(connection)
        .await
        .map_err(|error| StoreError::query("moving unfinished keys to idem.held_keys", &error))?;
    let mut batch = Held::default();
    for row in &rows {
        match row.get::<Option<String>, _>("outcome").as_deref() {
            Some("held") => batch.held += 1,
            Some("live_lease") => batch.live += 1,
            // Somebody finished or moved it meanwhile.
            _ => {}
        }
    }
    let last = rows.iter().map(|row| (row.get("account_id"), row.get("key"))).max();
    batch.next = last.filter(|_| i64::try_from(rows.len()) == Ok(BATCH_ROWS));
    Ok(batch)
}

pub(super) async fn sizes(connection: &mut PgConnection, facts: &TableFacts) -> Result<Vec<DaySize>, StoreError> {
    let oids: Vec<_> = facts.children.iter().map(|child| sqlx::postgres::types::Oid(child.oid)).collect();
    let bytes: Vec<i64> = sqlx::query_scalar(
        "/* store::partition_sizes */ SELECT coalesce(pg_total_relation_size(oid), 0) FROM unnest($1) WITH ORDINALITY AS t (oid, n) ORDER BY n",
    )
    .bind(oids)
    .fetch_all(connection)
    .await
    .map_err(|error| StoreError::query(format!("reading sizes of {}", facts.name), &error))?;
    let sizes = facts.children.iter().zip(bytes);
    Ok(sizes.map(|(child, bytes)| DaySize { child: child.clone(), bytes: u64::try_from(bytes).unwrap_or(0) }).collect())
}

pub(super) async fn replay_age(connection: &mut PgConnection) -> Result<ReplayAge, StoreError> {
    let row = sqlx::query(
        "/* store::replay_age */
         SELECT count(*) AS keys, max(age)::float8 AS latest,
                percentile_cont(0.99) WITHIN GROUP (ORDER BY age) AS p99
           FROM (SELECT extract(epoch FROM last_replay_at - created_at)::float8 AS age
                   FROM idem.idempotency_keys WHERE last_replay_at IS NOT NULL
                  UNION ALL
                 SELECT extract(epoch FROM last_replay_at - created_at)::float8
                   FROM idem.held_keys WHERE last_replay_at IS NOT NULL) AS replays",
    )
    .fetch_one(connection)
    .await
    .map_err(|error| StoreError::query("reading how late replays come", &error))?;
    Ok(ReplayAge { keys: row.get("keys"), latest_seconds: row.get("latest"), p99_seconds: row.get("p99") })
}

/// Tells the SQL functions what jobs.toml promises. Nothing is written when they know it.
pub(super) async fn write_settings(
    connection: &mut PgConnection,
    settings: &PartitionSettings,
) -> Result<(), StoreError> {
    let keys = settings.tables.iter().find(|table| table.kind == TableKind::Keys);
    let Some(retention) = keys.map(|table| table.retention) else { return Ok(()) };
    let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    sqlx::query(
        "/* store::write_settings */
         WITH said AS (SELECT make_interval(secs => $1) AS retention, make_interval(secs => $2) AS ttl_max,
                              make_interval(secs => $3) AS client_retry_window)
         UPDATE idem.settings s
            SET retention = said.retention, ttl_max = said.ttl_max, client_retry_window = said.client_retry_window,
                updated_at = clock_timestamp()
           FROM said
          WHERE (s.retention, s.ttl_max, s.client_retry_window)
                IS DISTINCT FROM (said.retention, said.ttl_max, said.client_retry_window)",
    )
    .bind(seconds(retention) as f64)
    .bind(seconds(settings.largest_ttl) as f64)
    .bind(seconds(settings.client_retry_window) as f64)
    .execute(connection)
    .await
    .map_err(|error| StoreError::query("writing idem.settings", &error))?;
    Ok(())
}

/// When the last run ended well. One that found another at work did nothing.
pub(super) async fn last_success(connection: &mut PgConnection) -> Result<Option<DateTime<Utc>>, StoreError> {
    sqlx::query_scalar(
        "/* store::last_partitions */ SELECT max(finished_at) FROM idem.job_runs WHERE job = 'partitions' AND exit_code = 0 AND outcome ->> 'outcome' <> 'busy'",
    )
    .fetch_one(connection)
    .await
    .map_err(|error| StoreError::query("reading the journal of partitions", &error))
}
