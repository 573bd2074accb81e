//! The one integration binary: real PostgreSQL, the real executable, real files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod config;
mod harness;
mod local_postgres;
mod store;
mod store_charges;
mod store_runs;
mod tidy;
