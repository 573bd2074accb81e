//! One row of the local side in PostgreSQL's binary format, read as a [`Charge`] that borrows it.
//!
//! Never here: a connection. A row that cannot be used is an error and not skipped: leaving a charge out would turn
//! into a false break on the other side.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::config::settings::GenericStatus;
use crate::domain::charge::Charge;
use crate::domain::entry::Status;
use crate::domain::money::{Currency, MinorUnits};

use super::StoreError;

/// Columns of a row, in the order in which every SELECT on the local side has them.
pub(super) const COLUMNS: [&str; 9] = [
    "charge_id",
    "idempotency_key",
    "merchant_reference",
    "provider_id",
    "amount_minor",
    "refunded_minor",
    "currency",
    "status",
    "created_at",
];

/// The values of one row; `None` for NULL.
pub(super) type Fields<'a> = [Option<&'a [u8]>; COLUMNS.len()];

/// What the values mean.
#[derive(Clone, Debug)]
pub(super) struct Meaning {
    /// Whose minor units the amounts count.
    pub(super) minor_units: MinorUnits,
    /// Words of the status column, lower case.
    pub(super) statuses: BTreeMap<String, GenericStatus>,
}

impl Meaning {
    /// Reads one row.
    pub(super) fn charge<'a>(&self, fields: Fields<'a>) -> Result<Charge<'a>, StoreError> {
        let [id, key, reference, provider_id, amount, refunded, currency, status, created_at] = fields;
        let charge_id = match id.map(|bytes| text("", "charge_id", bytes)).transpose()? {
            Some(id) if !id.is_empty() => id,
            _ => return Err(fault("", "charge_id", "is empty; each charge needs its own".to_owned())),
        };
        let need = |value: Option<&'a [u8]>, column| {
            value.ok_or_else(|| fault(charge_id, column, "is NULL, expected a value".to_owned()))
        };
        let currency_text = text(charge_id, "currency", need(currency, "currency")?)?;
        let currency = Currency::parse(currency_text).ok_or_else(|| {
            fault(charge_id, "currency", format!("{currency_text:?} is not a known ISO 4217 currency"))
        })?;
        let iso = |column, bytes| {
            let minor = i64::from_be_bytes(eight(charge_id, column, bytes)?);
            self.minor_units.to_iso(minor, currency).ok_or_else(|| {
                let reason = format!("{minor} is not a whole number of ISO minor units of {currency}");
                fault(charge_id, column, reason)
            })
        };
        let amount_minor = iso("amount_minor", need(amount, "amount_minor")?)?;
        let refunded_minor = refunded.map(|bytes| iso("refunded_minor", bytes)).transpose()?;
        let status_raw = text(charge_id, "status", need(status, "status")?)?;
        let (status, refunded_minor) = match self.status(status_raw) {
            Some(GenericStatus::Is(status)) => (status, refunded_minor),
            Some(GenericStatus::Refunded) => (Status::Succeeded, Some(amount_minor)),
            None => {
                let known: Vec<&str> = self.statuses.keys().map(String::as_str).collect();
                let reason = format!("{status_raw:?} is not a known status; known are {}", known.join(", "));
                return Err(fault(charge_id, "status", reason));
            }
        };
        Ok(Charge {
            charge_id: Cow::Borrowed(charge_id),
            idempotency_key: optional(charge_id, "idempotency_key", key)?,
            merchant_reference: optional(charge_id, "merchant_reference", reference)?,
            provider_id: optional(charge_id, "provider_id", provider_id)?,
            amount_minor,
            currency,
            status,
            status_raw: Cow::Borrowed(status_raw),
            refunded_minor,
            created_at: instant(charge_id, "created_at", need(created_at, "created_at")?)?,
        })
    }

    /// The usual spelling first: the lower-case copy costs an allocation a row.
    fn status(&self, word: &str) -> Option<GenericStatus> {
        self.statuses.get(word).or_else(|| self.statuses.get(&word.to_lowercase())).copied()
    }
}

fn fault(charge_id: &str, column: &'static str, reason: String) -> StoreError {
    StoreError::LocalRow { charge_id: charge_id.to_owned(), column, reason }
}

fn text<'a>(charge_id: &str, column: &'static str, bytes: &'a [u8]) -> Result<&'a str, StoreError> {
    std::str::from_utf8(bytes).map_err(|_| fault(charge_id, column, "is not UTF-8".to_owned()))
}

/// A blank key is no key: two blanks must not find each other.
fn optional<'a>(
    charge_id: &str,
    column: &'static str,
    value: Option<&'a [u8]>,
) -> Result<Option<Cow<'a, str>>, StoreError> {
    let value = value.map(|bytes| text(charge_id, column, bytes)).transpose()?;
    // Trimmed as the cells of a report are: the same text on both sides is the same key.
    Ok(value.map(str::trim).filter(|text| !text.is_empty()).map(Cow::Borrowed))
}

fn eight(charge_id: &str, column: &'static str, bytes: &[u8]) -> Result<[u8; 8], StoreError> {
    bytes.try_into().map_err(|_| fault(charge_id, column, format!("has {} bytes, expected 8", bytes.len())))
}

/// Microseconds since 2000-01-01 UTC; the two ends of the range stand for infinity.
fn instant(charge_id: &str, column: &'static str, bytes: &[u8]) -> Result<DateTime<Utc>, StoreError> {
    const EPOCH_2000: i64 = 946_684_800;
    let micros = i64::from_be_bytes(eight(charge_id, column, bytes)?);
    let epoch = DateTime::from_timestamp(EPOCH_2000, 0).expect("the year 2000 exists");
    let at = match micros {
        i64::MIN | i64::MAX => None,
        _ => epoch.checked_add_signed(TimeDelta::microseconds(micros)),
    };
    at.ok_or_else(|| fault(charge_id, column, "is infinite or beyond any calendar, expected an instant".to_owned()))
}
