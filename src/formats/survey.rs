//! What a first look at all rows settles before any is read, for the formats whose rows cannot be read one by one.
//!
//! Holds no amounts and no text of the report: only what a format needs to know of the rows around a row.

use std::collections::HashMap;

/// The result of the first look, over all files of a report.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// How far each payment, and each of its modifications, has come: marks by the hash of its ids.
    pub(super) steps: HashMap<u128, u8>,
    /// Whether some refund carries a minus sign.
    pub(super) signed_refunds: bool,
    /// Whether amounts have the signs that are printed, and not those of their types.
    pub(super) signs_as_printed: bool,
}
