//! The journal of the jobs: when each ran, where, with what outcome.

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use uuid::Uuid;

use super::{Store, StoreError};

/// What is known when a job begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStart<'a> {
    /// Name of the job.
    pub job: &'a str,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// Machine or pod.
    pub host: &'a str,
    /// Version of the program.
    pub version: &'a str,
    /// Hash of the settings that the job was given.
    pub config_hash: &'a str,
}

impl Store {
    /// Writes that a job began and names the row.
    pub async fn start_job_run(&self, start: &JobStart<'_>) -> Result<Uuid, StoreError> {
        sqlx::query_scalar(
            "/* store::start_job_run */
             INSERT INTO idem.job_runs (job, started_at, host, version, config_hash)
             VALUES ($1, $2, $3, $4, $5) RETURNING job_run_id",
        )
        .bind(start.job)
        .bind(start.started_at)
        .bind(start.host)
        .bind(start.version)
        .bind(start.config_hash)
        .fetch_one(&self.pool)
        .await
        .map_err(|error| StoreError::query(format!("writing that job {} began", start.job), &error))
    }

    /// Writes how it ended. `outcome` holds counts and no row of anybody's data.
    pub async fn finish_job_run(
        &self,
        id: Uuid,
        finished_at: DateTime<Utc>,
        outcome: &serde_json::Value,
        exit_code: u8,
    ) -> Result<(), StoreError> {
        let what = format!("writing that job run {id} ended");
        let done = sqlx::query(
            "/* store::finish_job_run */
             UPDATE idem.job_runs SET finished_at = $2, outcome = $3, exit_code = $4
              WHERE job_run_id = $1 AND finished_at IS NULL",
        )
        .bind(id)
        .bind(finished_at)
        .bind(Json(outcome))
        .bind(i16::from(exit_code))
        .execute(&self.pool)
        .await
        .map_err(|error| StoreError::query(what.clone(), &error))?;
        if done.rows_affected() == 1 {
            Ok(())
        } else {
            Err(StoreError::Corrupt { what, reason: "there is no such run that has not ended".to_owned() })
        }
    }
}
