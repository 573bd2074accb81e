//! The words of the trade: money, entries, charges, mismatches, runs, documents.
//!
//! Nothing here sees a file, a socket, the clock, a random source or SQL.

pub mod charge;
pub mod document;
pub mod entry;
pub mod mask;
pub mod mismatch;
pub mod money;
pub mod partition;
pub mod run;
