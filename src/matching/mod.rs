//! The comparison of a provider's report with our own charges: pure functions over rows.
//!
//! The steps of a run, each in its file: `hash` turns a row into a key and its facts, `tally` routes and counts the
//! rows of one stream, `difference` cancels what both sides have, `recall` says which rows have to be read again,
//! `group` puts them together by payment, `classify` judges a payment, `settle` adds everything up.
//! `window` says which time a report covers.
//!
//! Never here: SQL, files, threads, the clock, a random source, severities (`policy` weighs), titles of report
//! columns (`formats` knows them). The seed and now are arguments.

pub mod classify;
pub mod difference;
mod filter;
mod finding;
pub mod group;
pub mod hash;
mod judge;
mod one_sided;
mod pair;
mod part;
mod payment;
pub mod recall;
pub mod rules;
pub mod settle;
mod suggest;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod window;

pub use classify::{Verdict, classify};
pub use difference::{Difference, Leftover, Row, Side};
pub use group::{Group, ProviderRow, group};
pub use hash::KeyHasher;
pub use recall::Recall;
pub use rules::{Guard, Rules};
pub use settle::{Implausible, Inputs, Settled, check_keys, settle};
pub use tally::{LocalTally, ProviderTally, Route};
pub use window::{Window, WindowError};
