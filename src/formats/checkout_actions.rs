//! Checkout.com, financial actions by payout: several rows an action, one for each part of what it moved and cost.
//!
//! checkout.com/docs, financial actions by payout id. The row whose breakdown is the action itself is its gross, all others
//! are fees: an action is never summed up. Fees can be less than a minor unit. Times are in the entity's settlement zone,
//! which the file does not say.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const ACTION_TYPE: usize = 0;
const ACTION: usize = 1;
const PAYMENT: usize = 2;
const REQUESTED: usize = 3;
const PROCESSED: usize = 4;
const CURRENCY: usize = 5;
const REFERENCE: usize = 6;
const BREAKDOWN: usize = 7;
const AMOUNT: usize = 8;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::CheckoutActions,
    name: "checkout-financial-actions",
    provider: "checkout",
    dated_by: DatedBy::Settled,
    columns: &[
        needed(ACTION_TYPE, &["action type"]),
        key(ACTION, &["action id"]),
        needed(PAYMENT, &["payment id"]),
        optional(REQUESTED, &["requested on"]),
        needed(PROCESSED, &["processed on"]),
        needed(CURRENCY, &["processing currency"]),
        useful(REFERENCE, &["reference"]),
        key(BREAKDOWN, &["breakdown type"]),
        key(AMOUNT, &["processing currency amount"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "download the financial actions report of the payout, with all columns",
    read_row,
    extra: PLAIN,
};

const BREAKDOWNS: &[(&str, EntryKind)] = &[
    ("Capture", EntryKind::Charge),
    ("Partial Capture", EntryKind::Charge),
    ("Refund", EntryKind::Refund),
    ("Partial Refund", EntryKind::Refund),
    // The codes of the schemes' dispute steps: taken, given back, taken again.
    ("Chargeback (ADJM)", EntryKind::Chargeback),
    ("Chargeback (ARWS)", EntryKind::Chargeback),
    ("Chargeback (ARBW)", EntryKind::ChargebackReversal),
    ("Chargeback (CBRV)", EntryKind::ChargebackReversal),
    ("Chargeback (RPDW)", EntryKind::ChargebackReversal),
    ("Chargeback (ARBL)", EntryKind::Fee),
    ("Card Payout", EntryKind::Transfer),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let (minor, decimal) = row.fine_amount(AMOUNT, currency)?;
    let breakdown = row.text(BREAKDOWN);
    let of_card_payout = row.text(ACTION_TYPE).eq_ignore_ascii_case("Card Payout");
    let kind = match word(BREAKDOWNS, breakdown) {
        Some(kind) => kind,
        None if is_fee(breakdown) => EntryKind::Fee,
        None if of_card_payout => EntryKind::Transfer,
        None => EntryKind::Unknown,
    };
    let mut entry = row.entry(kind, Status::Succeeded, currency, minor);
    if decimal.is_some() && kind != EntryKind::Fee {
        flag(&mut entry, "an amount with parts of a minor unit that is no fee");
    }
    entry.amount_decimal = decimal;
    match (kind, minor) {
        (EntryKind::Unknown, _) => flag(&mut entry, format!("unknown breakdown type {breakdown:?}")),
        (EntryKind::Transfer, minor) => {
            entry.amount_minor = minor.map(outward);
            flag(&mut entry, "a payout to a card: money leaves, though the report prints it without a minus sign");
        }
        (EntryKind::Charge | EntryKind::ChargebackReversal, Some(..0)) => {
            flag(&mut entry, "money in with a minus sign");
        }
        (EntryKind::Refund | EntryKind::Chargeback, Some(1..)) => flag(&mut entry, "money out without a minus sign"),
        _ => {}
    }
    entry.type_raw = Some(Cow::Borrowed(breakdown));
    entry.entry_id = row.id(ACTION)?;
    let payment = row.id(PAYMENT)?;
    if kind == EntryKind::Charge {
        entry.provider_id = payment;
    } else {
        entry.provider_id.clone_from(&entry.entry_id);
        entry.parent_id = payment;
    }
    entry.reference = row.merchant_reference()?;
    let column = if row.text(PROCESSED).is_empty() { REQUESTED } else { PROCESSED };
    row.time(column, when::local).put(&mut entry);
    emit.entry(row, entry);
    Ok(())
}

fn is_fee(breakdown: &str) -> bool {
    breakdown.rsplit(' ').next().is_some_and(|last| last.eq_ignore_ascii_case("fee"))
}
