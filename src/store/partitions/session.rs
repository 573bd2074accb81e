//! The one session of a run: it holds the job's lock, reads the catalog and runs the statements.
//!
//! While a statement waits, a second session looks at who it waits for, so that a deferred day names its blocker.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rand::Rng;
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{AssertSqlSafe, Row};
use tokio::time::{Instant, sleep};

use crate::config::{PartitionSettings, PartitionTable, Secret};
use crate::domain::partition::{ForeignKey, Leftover, Period, TableFacts, TableName, TableProblem};

use super::{DaySize, Held, Patience, ReplayAge, Statement, Step, Unfinished, facts, ledger, rows};
use crate::store::{Lock, LockKey, Store, StoreError, session};

/// One try where writers queue behind us. A shorter one would be starved by ordinary statements.
const LADDER_LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// Tries of one step.
const LADDER_TRIES_MAX: u32 = 20;
/// Pause after a try, before jitter; writers catch up meanwhile.
const LADDER_PAUSE: Duration = Duration::from_millis(400);
/// With less budget than this a detach is not begun: it would only be left pending.
const BUDGET_MIN: Duration = Duration::from_secs(1);
/// When the second session first looks for blockers, and how often.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// How long a statement may work, once it has its locks.
const WORK_MAX: Duration = Duration::from_mins(10);

/// Zone and date style decide what a bound means; the connection check makes the server end a statement whose client
/// is gone; parallel workers and JIT have no use here.
const SETTINGS: &str = "SET TIME ZONE 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; \
    SET search_path = ''; SET default_transaction_isolation = 'read committed'; SET row_security = off";

/// A session that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Blocker {
    /// Server process.
    pub pid: i32,
    /// Role and program.
    pub who: String,
    /// What it does: `active`, `idle in transaction`...
    pub state: String,
    /// Age of its transaction in seconds.
    pub transaction_seconds: i64,
    /// When its last statement began.
    pub query_start: Option<DateTime<Utc>>,
    /// Vacuum against wraparound does not make way for anybody.
    pub wraparound: bool,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, who, state, transaction_seconds, .. } = self;
        write!(f, "pid {pid} ({who}, {state}, transaction {transaction_seconds} s old")?;
        if let Some(start) = self.query_start {
            write!(f, ", last statement began {}", start.format("%Y-%m-%dT%H:%M:%SZ"))?;
        }
        f.write_str(if self.wraparound { ", vacuum against wraparound)" } else { ")" })
    }
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Others kept what it needs: not a failure, the next run goes on.
    #[error("{what}: {reason}{}", said(.blockers))]
    Deferred {
        /// What was to be done.
        what: String,
        /// Which bound was reached.
        reason: String,
        /// Who was waited for, as last seen.
        blockers: Vec<Blocker>,
    },
    /// A check inside the step did not hold; nothing of it was done.
    #[error("{what}: {reason}")]
    Refuted {
        /// What was to be done.
        what: String,
        /// What does not hold.
        reason: String,
    },
    /// The server refused, or is gone.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn said(blockers: &[Blocker]) -> String {
    if blockers.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = blockers.iter().map(Blocker::to_string).collect();
    format!("; blocked by {}", shown.join(", "))
}

/// A session for partition maintenance, with or without the job's lock.
#[derive(Debug)]
pub struct PartitionSession {
    lock: Option<Lock>,
    /// For those that only look.
    unlocked: Option<PgConnection>,
    /// For the look at blockers.
    pool: PgPool,
    pid: i32,
    server_version: i32,
    lock_timeout: Duration,
    /// What is left of `wait_budget`.
    left: Duration,
}

impl Store {
    /// Takes the job's lock, one a database, on a session of its own. `None` when another run holds it.
    pub async fn begin_partitions(
        &self,
        url: &Secret,
        settings: &PartitionSettings,
    ) -> Result<Option<PartitionSession>, StoreError> {
        let Some(lock) = Lock::acquire(url, LockKey::partitions(), Duration::ZERO).await? else { return Ok(None) };
        PartitionSession::of(Some(lock), None, self, settings).await.map(Some)
    }

    /// A session that only looks: for plans and checks, also beside a run or on a standby.
    pub async fn look_at_partitions(&self, settings: &PartitionSettings) -> Result<PartitionSession, StoreError> {
        let connection = session::open(&self.options).await?;
        PartitionSession::of(None, Some(connection), self, settings).await
    }
}

impl PartitionSession {
    async fn of(
        lock: Option<Lock>,
        unlocked: Option<PgConnection>,
        store: &Store,
        settings: &PartitionSettings,
    ) -> Result<Self, StoreError> {
        let (pool, lock_timeout) = (store.pool.clone(), settings.lock_timeout);
        let left = settings.wait_budget;
        let mut session = Self { lock, unlocked, pool, pid: 0, server_version: 0, lock_timeout, left };
        let failed = |error: sqlx::Error| StoreError::query("preparing the session", &error);
        let connection = session.connection();
        sqlx::raw_sql(SETTINGS).execute(&mut *connection).await.map_err(failed)?;
        // Some platforms cannot watch a socket; there a statement outlives a killed client, as it does by default.
        if let Err(error) = sqlx::raw_sql("SET client_connection_check_interval = '1s'").execute(&mut *connection).await
        {
            tracing::warn!(%error, "the server cannot notice a client that was killed");
        }
        let row = sqlx::query(
            "/* store::partition_session */ SELECT pg_backend_pid(), current_setting('server_version_num')::int",
        )
        .fetch_one(connection)
        .await
        .map_err(failed)?;
        session.pid = row.get(0);
        session.server_version = row.get(1);
        Ok(session)
    }

    fn connection(&mut self) -> &mut PgConnection {
        match (&mut self.lock, &mut self.unlocked) {
            (Some(lock), _) => lock.connection(),
            (None, Some(connection)) => connection,
            (None, None) => unreachable!("a session has one of the two"),
        }
    }

    /// `server_version_num`.
    pub fn server_version(&self) -> i32 {
        self.server_version
    }

    /// Ends the session, and gives the lock back if it has it.
    pub async fn end(self) -> Result<(), StoreError> {
        if let Some(lock) = self.lock {
            return lock.release().await;
        }
        if let Some(connection) = self.unlocked {
            session::close(connection).await;
        }
        Ok(())
    }

    /// The database's clock.
    pub async fn now(&mut self) -> Result<DateTime<Utc>, StoreError> {
        sqlx::query_scalar("/* store::partition_now */ SELECT clock_timestamp()")
            .fetch_one(self.connection())
            .await
            .map_err(|error| StoreError::query("reading the database's clock", &error))
    }

    /// What the catalog says about a table.
    pub async fn facts(&mut self, table: &PartitionTable) -> Result<Result<TableFacts, TableProblem>, StoreError> {
        facts::read(self.connection(), table).await
    }

    /// Removals that were begun and not finished.
    pub async fn leftovers(&mut self, facts: &TableFacts) -> Result<Vec<Leftover>, StoreError> {
        ledger::leftovers(self.connection(), facts).await
    }

    /// Rows that keep a child, up to a bound.
    pub async fn unfinished(&mut self, unfinished: &Unfinished, child: &TableName) -> Result<u64, StoreError> {
        self.allow(WORK_MAX).await?;
        rows::unfinished(self.connection(), unfinished, child).await
    }

    /// Rows of the default partition that belong to a period, counted to one above `rows_max`.
    pub async fn in_default(&mut self, facts: &TableFacts, period: Period, rows_max: u64) -> Result<u64, StoreError> {
        self.allow(WORK_MAX).await?;
        rows::in_default(self.connection(), facts, period, rows_max).await
    }

    /// Rows of a table, counted up to a bound.
    pub async fn rows_up_to(&mut self, table: &TableName, rows_max: u64) -> Result<u64, StoreError> {
        self.allow(WORK_MAX).await?;
        rows::up_to(self.connection(), table, rows_max).await
    }

    /// Rows of another table that point into a child, up to a bound.
    pub async fn referencing(&mut self, key: &ForeignKey, child: &TableName) -> Result<u64, StoreError> {
        self.allow(WORK_MAX).await?;
        rows::referencing(self.connection(), key, child).await
    }

    /// Moves the next batch of unfinished keys to `idem.held_keys`, in one transaction.
    pub async fn hold_batch(&mut self, sql: &str, after: &(String, String)) -> Result<Held, StoreError> {
        self.allow(WORK_MAX).await?;
        rows::hold_batch(self.connection(), sql, after).await
    }

    /// Size of each child.
    pub async fn sizes(&mut self, facts: &TableFacts) -> Result<Vec<DaySize>, StoreError> {
        rows::sizes(self.connection(), facts).await
    }

    /// How late replays come.
    pub async fn replay_age(&mut self) -> Result<ReplayAge, StoreError> {
        rows::replay_age(self.connection()).await
    }

    /// Tells the SQL functions what jobs.toml promises.
    pub async fn write_settings(&mut self, settings: &PartitionSettings) -> Result<(), StoreError> {
        rows::write_settings(self.connection(), settings).await
    }

    /// When the job last ended well.
    pub async fn last_success(&mut self) -> Result<Option<DateTime<Utc>>, StoreError> {
        rows::last_success(self.connection()).await
    }

    async fn allow(&mut self, statement: Duration) -> Result<(), StoreError> {
        let sql = format!("SET statement_timeout = {}", statement.as_millis());
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(self.connection())
            .await
            .map(|_| ())
            .map_err(|error| StoreError::query("setting a timeout", &error))
    }

    /// Does a step, as patiently as it says.
    pub async fn run(&mut self, step: &Step) -> Result<(), StepError> {
        let deferred = |reason: String, blockers| StepError::Deferred { what: step.what.clone(), reason, blockers };
        let (lock_timeout, statement_timeout, tries) = match step.patience {
            Patience::Long => (self.lock_timeout, self.lock_timeout + WORK_MAX, 1),
            Patience::Finish => (self.lock_timeout, self.lock_timeout.min(self.left.max(BUDGET_MIN)), 1),
            Patience::Ladder => (LADDER_LOCK_TIMEOUT, WORK_MAX, LADDER_TRIES_MAX),
            Patience::Budget if self.left < BUDGET_MIN => {
                return Err(deferred("the run's wait_budget is used up".to_owned(), Vec::new()));
            }
            // A bound on each single wait would leave the detach pending for nothing.
            Patience::Budget => (Duration::ZERO, self.left, 1),
        };
        let settings = format!(
            "SET lock_timeout = {}; SET statement_timeout = {}",
            lock_timeout.as_millis(),
            statement_timeout.as_millis()
        );
        let mut attempt = 1;
        loop {
            let begun = Instant::now();
            sqlx::raw_sql(AssertSqlSafe(settings.clone()))
                .execute(self.connection())
                .await
                .map_err(|error| StoreError::query(step.what.clone(), &error))?;
            let (done, blockers) = self.watched(step).await;
            if step.patience != Patience::Long {
                self.left = self.left.saturating_sub(begun.elapsed());
            }
            let error = match done {
                Ok(()) => return Ok(()),
                Err(StepError::Store(error)) => error,
                Err(other) => return Err(other),
            };
            let waited = match error.sqlstate() {
                // lock_not_available, query_canceled
                Some("55P03") => format!("a lock could not be had within {:.1} s", lock_timeout.as_secs_f64()),
                Some("57014") => format!("not done within {:.1} s", statement_timeout.as_secs_f64()),
                Some("40P01") => "a deadlock".to_owned(),
                _ => return Err(error.into()),
            };
            if attempt >= tries || self.left.is_zero() {
                let reason = if tries > 1 { format!("{waited}, {attempt} tries") } else { waited };
                return Err(deferred(reason, blockers));
            }
            attempt += 1;
            // Jitter, so that two who wait for each other do not meet again.
            sleep(LADDER_PAUSE.mul_f64(rand::rng().random_range(0.5..1.5))).await;
        }
    }

    /// Runs the step while a second session looks at who blocks it.
    async fn watched(&mut self, step: &Step) -> (Result<(), StepError>, Vec<Blocker>) {
        let (pool, pid) = (self.pool.clone(), self.pid);
        let mut seen = Vec::new();
        let mut running = std::pin::pin!(perform(self.connection(), step));
        loop {
            tokio::select! {
                done = &mut running => return (done, seen),
                () = sleep(LOOK_EVERY) => match blockers(&pool, pid).await {
                    Ok(now) if !now.is_empty() => seen = now,
                    Ok(_) => {}
                    // Who blocks is good to know and not worth a failure.
                    Err(error) => tracing::debug!(%error, "cannot see who blocks"),
                },
            }
        }
    }
}

async fn perform(connection: &mut PgConnection, step: &Step) -> Result<(), StepError> {
    if !step.transaction {
        for statement in &step.statements {
            send(connection, step, statement).await?;
        }
        return Ok(());
    }
    plain(connection, step, "BEGIN").await?;
    for statement in &step.statements {
        if let Err(error) = send(connection, step, statement).await {
            // The first error is what counts; a session that is gone has rolled back too.
            let _ = plain(connection, step, "ROLLBACK").await;
            return Err(error);
        }
    }
    plain(connection, step, "COMMIT").await
}

async fn send(connection: &mut PgConnection, step: &Step, statement: &Statement) -> Result<(), StepError> {
    let Some((expected, otherwise)) = statement.expects else {
        return plain(connection, step, &statement.sql).await;
    };
    let found: i64 = sqlx::query_scalar(AssertSqlSafe(statement.sql.as_str()))
        .persistent(false)
        .fetch_one(connection)
        .await
        .map_err(|error| StoreError::query(step.what.clone(), &error))?;
    if found == expected {
        Ok(())
    } else {
        Err(StepError::Refuted { what: step.what.clone(), reason: otherwise.to_owned() })
    }
}

async fn plain(connection: &mut PgConnection, step: &Step, sql: &str) -> Result<(), StepError> {
    tracing::debug!(sql, "sent");
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(connection)
        .await
        .map(|_| ())
        .map_err(|error| StoreError::query(step.what.clone(), &error).into())
}

async fn blockers(pool: &PgPool, pid: i32) -> Result<Vec<Blocker>, sqlx::Error> {
    let rows = sqlx::query(
        "/* store::partition_blockers */
         SELECT a.pid, concat_ws(' ', a.usename, nullif(a.application_name, ''), nullif(a.backend_type, 'client backend')) AS who,
                coalesce(a.state, 'active') AS state,
                coalesce(floor(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::bigint AS seconds,
                a.query_start, coalesce(a.query LIKE '%to prevent wraparound%', false) AS wraparound
           FROM pg_stat_activity a WHERE a.pid = ANY (pg_blocking_pids($1)) ORDER BY a.xact_start LIMIT 5",
    )
    .bind(pid)
    .fetch_all(pool)
    .await?;
    let of = |row: &sqlx::postgres::PgRow| Blocker {
        pid: row.get("pid"),
        who: row.get("who"),
        state: row.get("state"),
        transaction_seconds: row.get("seconds"),
        query_start: row.get("query_start"),
        wraparound: row.get("wraparound"),
    };
    Ok(rows.iter().map(of).collect())
}
