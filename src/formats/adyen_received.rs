//! Adyen, received payments report: which payments were asked for, and whether they were authorised.
//!
//! docs.adyen.com/reporting/received-payment-details-report. One row a request. Nothing here has moved money, so every row
//! is an authorisation. The file holds personal data: only the columns below are looked at.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::adyen_settlement::time;
use super::row::{Emit, Fault, Row, flag, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed};

const PSP: usize = 0;
const REFERENCE: usize = 1;
const CREATED: usize = 2;
const ZONE: usize = 3;
const CURRENCY: usize = 4;
const AMOUNT: usize = 5;
const TYPE: usize = 6;
const INTERACTION: usize = 7;
const RESPONSE: usize = 8;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::AdyenReceived,
    name: "adyen-received",
    provider: "adyen",
    dated_by: DatedBy::Created,
    columns: &[
        key(PSP, &["psp reference"]),
        needed(REFERENCE, &["merchant reference"]),
        needed(CREATED, &["creation date"]),
        needed(ZONE, &["timezone", "time zone"]),
        needed(CURRENCY, &["currency"]),
        key(AMOUNT, &["amount"]),
        needed(TYPE, &["type"]),
        key(INTERACTION, &["shopper interaction"]),
        key(RESPONSE, &["acquirer response"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "add them to the report in the Customer Area",
    read_row,
    extra: PLAIN,
};

const TYPES: &[(&str, Status)] = &[
    ("Authorised", Status::Authorized),
    ("AuthorisedPending", Status::Pending),
    ("Received", Status::Pending),
    ("Pending", Status::Pending),
    ("Refused", Status::Failed),
    ("Error", Status::Failed),
    ("Expired", Status::Canceled),
    ("Cancelled", Status::Canceled),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let type_raw = row.text(TYPE);
    let known = word(TYPES, type_raw);
    let status = known.unwrap_or(Status::Pending);
    let mut entry = row.entry(EntryKind::Authorization, status, currency, Some(amount));
    if known.is_none() {
        flag(&mut entry, format!("unknown type {type_raw:?}"));
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    entry.provider_id = row.id(PSP)?;
    entry.reference = row.merchant_reference()?;
    time(row, CREATED, ZONE).put(&mut entry);
    emit.entry(row, entry);
    Ok(())
}
