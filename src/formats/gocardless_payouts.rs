//! GoCardless, payout transactions export: one row an event of a payout, gross and fees beside each other.
//!
//! support.gocardless.com. The type tells the event, and where it only says payment, the sign of the gross and the
//! payment's status tell whether it was paid, failed late or was charged back.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const TYPE: usize = 0;
const CREATED: usize = 1;
const STATUS: usize = 2;
const GROSS: usize = 3;
const NET: usize = 4;
const CURRENCY: usize = 5;
const PAYOUT: usize = 6;
const PAYMENT: usize = 7;
const REFUND: usize = 8;
const REFERENCE: usize = 9;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::GocardlessPayouts,
    name: "gocardless-payout-transactions",
    provider: "gocardless",
    dated_by: DatedBy::Settled,
    columns: &[
        key(TYPE, &["resources.type"]),
        needed(CREATED, &["resources.created_at"]),
        useful(STATUS, &["resources.status"]),
        key(GROSS, &["gross_amount"]),
        optional(NET, &["net_amount"]),
        needed(CURRENCY, &["currency"]),
        key(PAYOUT, &["payouts.id"]),
        needed(PAYMENT, &["payments.id"]),
        useful(REFUND, &["refunds.id"]),
        optional(REFERENCE, &["resources.reference"]),
    ],
    number: NumberStyle::POINT,
    // What the payer's bank statement shows is no reference of the shop, unless the operator says so.
    reference: ReferenceOrder::Metadata { before: "metadata.", after: "", then: &[] },
    missing_hint: "export the payout's transactions with all columns",
    read_row,
    extra: PLAIN,
};

const TYPES: &[(&str, EntryKind)] = &[
    ("payment", EntryKind::Charge),
    ("payments", EntryKind::Charge),
    ("payment_paid_out", EntryKind::Charge),
    ("payment_failed", EntryKind::ChargeReversal),
    ("payment_charged_back", EntryKind::Chargeback),
    ("payment_refunded", EntryKind::Refund),
    ("refund", EntryKind::Refund),
    ("refunds", EntryKind::Refund),
    ("refund_funds_returned", EntryKind::RefundReversal),
    ("gocardless_fee", EntryKind::Fee),
    ("app_fee", EntryKind::Fee),
    ("revenue_share", EntryKind::Fee),
    ("surcharge_fee", EntryKind::Fee),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let gross = row.needed_amount(GROSS, currency)?;
    let (type_raw, status_raw) = (row.text(TYPE), row.text(STATUS));
    let known = word(TYPES, type_raw);
    let kind = match known {
        Some(EntryKind::Charge) if gross < 0 && status_raw.eq_ignore_ascii_case("failed") => EntryKind::ChargeReversal,
        Some(EntryKind::Charge) if gross < 0 && status_raw.eq_ignore_ascii_case("charged_back") => {
            EntryKind::Chargeback
        }
        known => known.unwrap_or(EntryKind::Unknown),
    };
    let minor = if kind == EntryKind::Refund { outward(gross) } else { gross };
    let mut entry = row.entry(kind, Status::Succeeded, currency, Some(minor));
    match kind {
        EntryKind::Unknown => flag(&mut entry, format!("unknown type {type_raw:?}")),
        EntryKind::Charge if gross < 0 => flag(&mut entry, "a payment with a minus sign"),
        EntryKind::ChargeReversal | EntryKind::Chargeback if gross > 0 => {
            flag(&mut entry, "money out without a minus sign");
        }
        _ => {}
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    entry.status_raw = (!status_raw.is_empty()).then_some(Cow::Borrowed(status_raw));
    let payment = row.id(PAYMENT)?;
    if kind == EntryKind::Charge {
        entry.provider_id = payment;
    } else {
        entry.provider_id = row.id(REFUND)?;
        entry.parent_id = payment;
    }
    entry.reference = row.merchant_reference()?;
    row.time(CREATED, when::utc).put(&mut entry);
    emit.entry(row, entry);
    Ok(())
}
