//! The operator's commands that are no jobs, one file each.

pub mod check;
mod check_partitions;
pub mod inspect;
mod inspect_table;
pub mod migrate;
pub mod partitions;
pub mod plan;
pub mod status;

/// A command that needs a database was called without one.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no database is configured: set DATABASE_URL, or [database] url in jobs.toml, or give --local-postgres DIR")]
pub struct NoDatabase;
