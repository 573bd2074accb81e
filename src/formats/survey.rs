//! What a first look at all rows settles before any is read, for the formats whose rows cannot be read one by one.
//!
//! Holds no amounts and no text of the report: only what a format needs to know of the rows around a row.

/// The result of the first look, over all files of a report.
#[derive(Debug, Default)]
pub(super) struct Survey {}
