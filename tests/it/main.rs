//! The one integration binary: real PostgreSQL, the real executable, real files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_input;
mod bad_reports;
mod config;
mod crash;
mod formats;
mod grants;
mod harness;
mod keys;
mod keys_bed;
mod keys_doc;
mod keys_race;
mod keys_uuidv7;
mod local_postgres;
mod partition_bed;
mod partitions;
mod partitions_keys;
mod partitions_waits;
mod reconcile;
mod sibling_providers;
mod sibling_reports;
mod store;
mod store_charges;
mod store_runs;
mod testbed;
mod tidy;
