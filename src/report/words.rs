//! The wording for people: a title for each kind of finding, and what to do about it.

use crate::domain::mismatch::Kind;

/// A short name that needs no glossary.
pub(super) fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::FileRejected => "Report refused",
        Kind::MissingLocally => "Missing on our side",
        Kind::StatusProviderSucceeded => "Paid, but not in our books",
        Kind::DuplicateAtProvider => "Charged twice",
        Kind::AmountOver => "Charged too much",
        Kind::MissingAtProvider => "Missing at the provider",
        Kind::AmountUnder => "Charged too little",
        Kind::CurrencyMismatch => "Currencies differ",
        Kind::StatusProviderFailed => "Failed, but paid in our books",
        Kind::KeyConflict => "Keys disagree",
        Kind::DuplicateLocally => "Booked twice on our side",
        Kind::UnparseableRow => "Unreadable row",
        Kind::UnknownRowType => "Unknown type of row",
        Kind::TimingPending => "Waiting within the grace",
        Kind::DuplicateReportRow => "Repeated row",
        Kind::NonChargeRow => "Not a charge",
    }
}

/// What a person has to do about all findings of this kind, as the rest of a sentence.
pub(super) fn action(kind: Kind) -> &'static str {
    match kind {
        Kind::FileRejected => "get the report again; nothing was compared",
        Kind::MissingLocally => "the customer paid and we do not know: record the payment or refund it",
        Kind::StatusProviderSucceeded => "the customer paid and our books say no: complete the charge or refund it",
        Kind::DuplicateAtProvider => "keep the payment that our books have and refund the others",
        Kind::AmountOver => "refund what was taken too much",
        Kind::MissingAtProvider => "ask the provider by key; if it knows nothing, revert ours and stop the delivery",
        Kind::AmountUnder => "capture the rest or correct our amount",
        Kind::CurrencyMismatch => "find out which currency the customer agreed to; nothing is converted here",
        Kind::StatusProviderFailed => "revert ours and do not deliver",
        Kind::KeyConflict => "reference and provider id point to different charges: decide by hand",
        Kind::DuplicateLocally => "one of the two charges is false: find the retry that had no key",
        Kind::UnparseableRow => "look at the named lines and have the report corrected or the reading options set",
        Kind::UnknownRowType => "find out what the provider means by this type of row",
        Kind::TimingPending => "nothing yet: the other side may still come",
        Kind::DuplicateReportRow | Kind::NonChargeRow => "nothing: counted only",
    }
}
