//! One normalised row of a provider report.
//!
//! Field names are those that `inspect --output json` prints.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::mask::mask_card_numbers;
use super::money::Currency;

/// What a report row is about. Every row lands in a known kind or in review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the field's own words")]
pub enum EntryKind {
    Charge,
    Refund,
    /// A payment taken back by something other than a refund or a dispute.
    ChargeReversal,
    /// A refund that came back.
    RefundReversal,
    Chargeback,
    ChargebackReversal,
    Authorization,
    /// Moved no money: the amount is 0, `authorized_minor` says what had been authorised.
    Void,
    Fee,
    Payout,
    PayoutReversal,
    Transfer,
    Conversion,
    Hold,
    HoldRelease,
    Reserve,
    Adjustment,
    /// A type word that the format does not know: kept and flagged, never skipped.
    Unknown,
}

/// Where a payment stands, in our words; the provider's word is kept beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the field's own words")]
pub enum Status {
    /// Booked: money moved.
    Succeeded,
    Pending,
    Authorized,
    Failed,
    Canceled,
}

/// One normalised row of a report. Text is borrowed from the record while streaming and owned once kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry<'a> {
    /// Physical line (counted by line feeds from 1) on which the record starts.
    pub line: u64,
    /// The merchant's reference, byte for byte after trimming; `None` when blank.
    pub reference: Option<Cow<'a, str>>,
    /// Names this event at the provider: of a charge the payment's id, of a refund or dispute its own.
    pub provider_id: Option<Cow<'a, str>>,
    /// The payment's id, on rows that belong to one.
    pub parent_id: Option<Cow<'a, str>>,
    /// Unique id of the ledger row, where the report has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<Cow<'a, str>>,
    /// What the row is about.
    pub kind: EntryKind,
    /// Gross amount in ISO minor units, positive when money comes to the merchant.
    /// `None` when it is not whole minor units or its meaning is in doubt.
    pub amount_minor: Option<i64>,
    /// The printed amount in major units, where it is not whole minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount_decimal: Option<Cow<'a, str>>,
    /// What had been authorised, on a void.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorized_minor: Option<i64>,
    /// ISO 4217 decimals of `currency`.
    pub exponent: u8,
    /// Currency of the gross amount.
    pub currency: Currency,
    /// Where the payment stands.
    pub status: Status,
    /// When, in UTC; `None` when the file does not settle it.
    pub time_utc: Option<DateTime<Utc>>,
    /// The printed local time, when `time_utc` is `None` for want of a zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_raw: Option<Cow<'a, str>>,
    /// The printed date, when the report has dates only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<Cow<'a, str>>,
    /// The provider's status word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_raw: Option<Cow<'a, str>>,
    /// The provider's type word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_raw: Option<Cow<'a, str>>,
    /// The merchant's reference of the modification (a refund's own), where the report has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modification_reference: Option<Cow<'a, str>>,
    /// The order that the row belongs to at the provider, where that is not its payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_id: Option<Cow<'a, str>>,
    /// The provider's order by which a refund or a dispute is linked to its payment, where the report names no payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_reference: Option<Cow<'a, str>>,
    /// Which capture of an order that can be captured in parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture_id: Option<Cow<'a, str>>,
    /// The shop's own text beside its reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<Cow<'a, str>>,
    /// What has been refunded of a payment so far, where refunds have rows of their own: never to be counted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunded_minor: Option<i64>,
    /// What the customer paid, where `amount_minor` is on the settlement side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presentment_minor: Option<i64>,
    /// Currency of `presentment_minor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presentment_currency: Option<Currency>,
    /// Whether a person has to look; the reason is in `notes`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub review: bool,
    /// Remarks for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Cow<'a, str>>,
}

impl<'a> Entry<'a> {
    /// A row with the fields that every row must have; the rest is absent.
    pub fn new(line: u64, kind: EntryKind, status: Status, currency: Currency, amount_minor: Option<i64>) -> Self {
        Self {
            line,
            reference: None,
            provider_id: None,
            parent_id: None,
            entry_id: None,
            kind,
            amount_minor,
            amount_decimal: None,
            authorized_minor: None,
            exponent: currency.exponent(),
            currency,
            status,
            time_utc: None,
            time_raw: None,
            date: None,
            status_raw: None,
            type_raw: None,
            modification_reference: None,
            order_id: None,
            order_reference: None,
            capture_id: None,
            custom: None,
            refunded_minor: None,
            presentment_minor: None,
            presentment_currency: None,
            review: false,
            notes: Vec::new(),
        }
    }

    /// The amount and currency that compare with a local charge: what the customer paid.
    pub fn charge_side(&self) -> (Option<i64>, Currency) {
        match (self.presentment_minor, self.presentment_currency) {
            (Some(minor), Some(currency)) => (Some(minor), currency),
            _ => (self.amount_minor, self.currency),
        }
    }

    /// The row as people may see it: card numbers in its texts masked.
    #[must_use]
    pub fn masked(mut self) -> Self {
        let texts = [
            &mut self.reference,
            &mut self.provider_id,
            &mut self.parent_id,
            &mut self.entry_id,
            &mut self.modification_reference,
            &mut self.status_raw,
            &mut self.type_raw,
        ];
        for text in texts.into_iter().flatten() {
            if let Cow::Owned(masked) = mask_card_numbers(text) {
                *text = Cow::Owned(masked);
            }
        }
        self
    }

    /// Copies what is borrowed, so that the row outlives its record.
    pub fn into_owned(self) -> Entry<'static> {
        let own = |text: Option<Cow<'a, str>>| text.map(|t| Cow::Owned(t.into_owned()));
        Entry {
            line: self.line,
            reference: own(self.reference),
            provider_id: own(self.provider_id),
            parent_id: own(self.parent_id),
            entry_id: own(self.entry_id),
            kind: self.kind,
            amount_minor: self.amount_minor,
            amount_decimal: own(self.amount_decimal),
            authorized_minor: self.authorized_minor,
            exponent: self.exponent,
            currency: self.currency,
            status: self.status,
            time_utc: self.time_utc,
            time_raw: own(self.time_raw),
            date: own(self.date),
            status_raw: own(self.status_raw),
            type_raw: own(self.type_raw),
            modification_reference: own(self.modification_reference),
            order_id: own(self.order_id),
            order_reference: own(self.order_reference),
            capture_id: own(self.capture_id),
            custom: own(self.custom),
            refunded_minor: self.refunded_minor,
            presentment_minor: self.presentment_minor,
            presentment_currency: self.presentment_currency,
            review: self.review,
            notes: self.notes.into_iter().map(|n| Cow::Owned(n.into_owned())).collect(),
        }
    }
}

/// What can be seen of a report row before it is read in full: enough to pass over it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peek<'a> {
    /// The merchant's reference.
    pub reference: Option<&'a str>,
    /// Every id that may name the payment.
    pub ids: [Option<&'a str>; 2],
}

/// A record of a report that could not be read: kept with its place and its text, never guessed at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRow {
    /// Which of the given files, from 0.
    #[serde(default)]
    pub file: usize,
    /// Physical line on which the record starts.
    pub line: u64,
    /// Title of the column at fault, where it is one column's fault.
    pub column: Option<String>,
    /// The text at fault, card numbers masked, at most 200 characters.
    pub raw: String,
    /// What is wrong and what was expected.
    pub reason: String,
}

/// A record that is rightly not an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredLine {
    /// Physical line on which the record starts.
    pub line: u64,
    /// Why it is not an entry.
    pub reason: Cow<'static, str>,
}

/// What the rows of a report are dated by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatedBy {
    /// The payment's own time.
    Created,
    /// When the money was booked, days after the payment.
    Settled,
}
