//! The night shift of idempotency keys on PostgreSQL, as one binary of scheduled batch jobs.
//!
//! `docs/ARCHITECTURE.md` is the map: which room does what, and which imports are forbidden.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod domain;
pub mod exit;
pub mod formats;
pub mod job;
pub mod local_postgres;
pub mod matching;
pub mod operator;
pub mod policy;
pub mod report;
pub mod store;
pub mod telemetry;
