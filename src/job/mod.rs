//! The jobs, one file each: read facts, decide, apply. A job never imports another job.
//!
//! Here is what every job has: its line in the journal.

pub mod partitions;
pub mod reconcile;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::store::{JobStart, Store, StoreError};

/// One run's line in `idem.job_runs`.
#[derive(Debug)]
pub struct Journal<'a> {
    store: &'a Store,
    id: Uuid,
}

impl<'a> Journal<'a> {
    /// Writes that `job` has begun.
    pub async fn begin(store: &'a Store, job: &str, config_hash: &str, now: DateTime<Utc>) -> Result<Self, StoreError> {
        let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let start = JobStart { job, started_at: now, host: &host, version: env!("CARGO_PKG_VERSION"), config_hash };
        Ok(Self { store, id: store.start_job_run(&start).await? })
    }

    /// Writes how it ended. `outcome` holds counts and nobody's data.
    pub async fn end(self, now: DateTime<Utc>, outcome: &Value, exit_code: u8) -> Result<(), StoreError> {
        self.store.finish_job_run(self.id, now, outcome, exit_code).await
    }
}
