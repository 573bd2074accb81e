//! Decisions: facts, settings and now become what to do.
//!
//! Never here: SQL, files, the clock, a random source, the rooms beside this one.

pub mod budget;
pub mod partitions;
pub mod severity;
