//! Worldpay, eCommerce (formerly Vantiv) financial detail: one row a transaction, dates only.
//!
//! Read from public descriptions of the export. Whether refunds carry a minus sign is an option of the export: the type
//! gives the direction, and a refund without a sign among others with one is marked for a look. Other products of this
//! provider print other titles: those are declared as a generic format.

use std::borrow::Cow;

use crate::config::settings::DateOrder;
use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::survey::Survey;
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder, key, needed, optional};
use super::when;

const ACTIVITY: usize = 0;
const ID: usize = 1;
const PARENT: usize = 2;
const TYPE: usize = 3;
const CURRENCY: usize = 4;
const AMOUNT: usize = 5;
const REFERENCE: usize = 6;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::Worldpay,
    name: "worldpay-financial-detail",
    provider: "worldpay",
    dated_by: DatedBy::Settled,
    columns: &[
        needed(ACTIVITY, &["activity date"]),
        key(ID, &["vantiv payment id", "worldpay payment id"]),
        optional(PARENT, &["parent vantiv payment id", "parent worldpay payment id"]),
        key(TYPE, &["txn type", "transaction type"]),
        needed(CURRENCY, &["settlement currency"]),
        key(AMOUNT, &["net amount"]),
        optional(REFERENCE, &["merchant transaction id", "merchant order number", "order id", "merchant order id"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "for another Worldpay report declare its titles as a generic format in jobs.toml",
    read_row,
    extra: Extra { survey: Some(survey), ..PLAIN },
};

const TYPES: &[(&str, EntryKind)] = &[
    ("Deposit", EntryKind::Charge),
    ("Sale", EntryKind::Charge),
    ("Capture", EntryKind::Charge),
    ("Purchase", EntryKind::Charge),
    ("Refund", EntryKind::Refund),
    ("Return", EntryKind::Refund),
    ("Credit", EntryKind::Refund),
    ("Chargeback", EntryKind::Chargeback),
    ("Chargeback Reversal", EntryKind::ChargebackReversal),
    ("Representment", EntryKind::ChargebackReversal),
    ("Authorization", EntryKind::Authorization),
    ("Void", EntryKind::Void),
    ("Authorization Reversal", EntryKind::Void),
    ("Fee", EntryKind::Fee),
    ("Adjustment", EntryKind::Adjustment),
];

fn survey(row: &Row<'_>, survey: &mut Survey) -> Result<(), Fault> {
    if word(TYPES, row.text(TYPE)) == Some(EntryKind::Refund) {
        survey.signed_refunds |= row.needed_amount(AMOUNT, row.currency(CURRENCY)?)? < 0;
    }
    Ok(())
}

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let type_raw = row.text(TYPE);
    let known = word(TYPES, type_raw);
    let kind = known.unwrap_or(EntryKind::Unknown);
    let (status, minor) = match kind {
        EntryKind::Refund | EntryKind::Chargeback => (Status::Succeeded, outward(amount)),
        EntryKind::Authorization => (Status::Authorized, amount),
        EntryKind::Void => (Status::Canceled, 0),
        _ => (Status::Succeeded, amount),
    };
    let mut entry = row.entry(kind, status, currency, Some(minor));
    match kind {
        EntryKind::Void => entry.authorized_minor = amount.checked_abs(),
        EntryKind::Refund if amount > 0 && row.rules.survey.signed_refunds => {
            flag(&mut entry, "a refund without a minus sign in a report that has signed refunds");
        }
        EntryKind::Charge if amount < 0 => flag(&mut entry, "a payment with a minus sign"),
        EntryKind::Unknown => flag(&mut entry, format!("unknown transaction type {type_raw:?}")),
        _ => {}
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    entry.provider_id = row.id(ID)?;
    entry.parent_id = row.id(PARENT)?;
    entry.reference = row.merchant_reference()?;
    let printed = row.text(ACTIVITY);
    let order = row.rules.date_order.unwrap_or(DateOrder::MonthFirst);
    match when::account_date(printed, Some(order)) {
        Some(day) => entry.date = Some(Cow::Owned(day.to_string())),
        None if printed.is_empty() => {}
        None => {
            entry.time_raw = Some(Cow::Borrowed(printed));
            flag(&mut entry, "the date is not in the report's own pattern: was the file saved by a spreadsheet?");
        }
    }
    emit.entry(row, entry);
    Ok(())
}
