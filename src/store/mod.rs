//! PostgreSQL: the only room with SQL. Reads local charges, writes runs, breaks, events, mail and job runs.
//!
//! Never here: what a mismatch is (`matching`), how a report looks (`report`), the machine's clock
//! (instants are arguments; locks and leases use the database's clock and say so).

pub mod chain;
mod charge_row;
pub mod charges;
mod copy_binary;
pub mod error;
mod findings;
pub mod job_runs;
mod local_sql;
pub mod lock;
pub mod migrate;
pub mod outbox;
pub mod partitions;
mod ready;
mod record;
pub mod runs;
mod session;

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::config::Secret;

pub use chain::ChainFault;
pub use charges::{CopyOut, LocalQuery, LocalReader};
pub use error::{Refusal, StoreError};
pub use job_runs::JobStart;
pub use lock::{Lock, LockKey};
pub use migrate::{MIGRATOR, MigrationStep};
pub use outbox::{Attachment, Mail, OutboxMessage};
pub use runs::{Begun, Committed, RunTx, StoredRun};

/// Sessions that one process holds at most, its locks and local readers apart.
const POOL_SESSIONS_MAX: u32 = 4;

/// The database of the jobs: a small pool of checked sessions.
#[derive(Clone, Debug)]
pub struct Store {
    pool: PgPool,
    options: PgConnectOptions,
}

impl Store {
    /// Connects and proves that the address works, with one sentence for each way in which it may not.
    pub async fn connect(url: &Secret) -> Result<Self, StoreError> {
        let options = session::options(url)?;
        // The pool hides why a connection failed behind a timeout, so the first one is made in the open.
        session::close(session::open(&options).await?).await;
        let pool = PgPoolOptions::new()
            .max_connections(POOL_SESSIONS_MAX)
            .acquire_timeout(session::CONNECT_TIMEOUT)
            .connect_lazy_with(options.clone());
        Ok(Self { pool, options })
    }

    /// The database's clock.
    pub async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        sqlx::query_scalar("/* store::now */ SELECT clock_timestamp()")
            .fetch_one(&self.pool)
            .await
            .map_err(|error| StoreError::query("reading the database's clock", &error))
    }

    /// Closes the pool and waits for its sessions to end.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// PostgreSQL's text cannot hold NUL: a hostile reference must not stop the night's run.
fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
