//! Shopify Payments, payment transactions export: one row a movement, without ids of its own.
//!
//! help.shopify.com, payouts. `Amount` is signed and in the payout's currency, `Fee` positive, `Net = Amount - Fee`. What the
//! customer paid is the presentment amount, which is printed without a sign. The rows of a payout sum up to zero with it.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::stripe_balance::check_net;
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const DATE: usize = 0;
const TYPE: usize = 1;
const ORDER: usize = 2;
const PAYOUT_STATUS: usize = 3;
const PAYOUT: usize = 4;
const AMOUNT: usize = 5;
const FEE: usize = 6;
const NET: usize = 7;
const PRESENTMENT: usize = 8;
const PRESENTMENT_CURRENCY: usize = 9;
const CURRENCY: usize = 10;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::Shopify,
    name: "shopify-payments",
    provider: "shopify",
    dated_by: DatedBy::Created,
    columns: &[
        key(DATE, &["transaction date"]),
        key(TYPE, &["type"]),
        key(ORDER, &["order"]),
        key(PAYOUT_STATUS, &["payout status"]),
        optional(PAYOUT, &["payout id"]),
        needed(AMOUNT, &["amount"]),
        needed(FEE, &["fee"]),
        key(NET, &["net"]),
        useful(PRESENTMENT, &["presentment amount"]),
        useful(PRESENTMENT_CURRENCY, &["presentment currency"]),
        needed(CURRENCY, &["currency"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[ORDER]),
    missing_hint: "export the payment transactions, not the payouts",
    read_row,
    extra: PLAIN,
};

const TYPES: &[(&str, EntryKind)] = &[
    ("charge", EntryKind::Charge),
    ("refund", EntryKind::Refund),
    ("refund failure", EntryKind::RefundReversal),
    ("chargeback", EntryKind::Chargeback),
    ("dispute", EntryKind::Chargeback),
    ("chargeback won", EntryKind::ChargebackReversal),
    ("chargeback reversal", EntryKind::ChargebackReversal),
    ("dispute won", EntryKind::ChargebackReversal),
    ("dispute reversal", EntryKind::ChargebackReversal),
    ("won dispute", EntryKind::ChargebackReversal),
    ("adjustment", EntryKind::Adjustment),
    ("credit", EntryKind::Adjustment),
    ("debit", EntryKind::Adjustment),
    ("reserve", EntryKind::Reserve),
    ("payout", EntryKind::Payout),
    ("payout failure", EntryKind::PayoutReversal),
    ("payout cancellation", EntryKind::PayoutReversal),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let type_raw = row.text(TYPE);
    let kind = match word(TYPES, &type_raw.replace('_', " ")) {
        Some(EntryKind::Chargeback) if amount > 0 => EntryKind::ChargebackReversal,
        known => known.unwrap_or(EntryKind::Unknown),
    };
    let mut entry = row.entry(kind, Status::Succeeded, currency, Some(amount));
    match kind {
        EntryKind::Unknown => flag(&mut entry, format!("unknown type {type_raw:?}")),
        EntryKind::Charge if amount < 0 => flag(&mut entry, "a charge with a minus sign"),
        EntryKind::Refund if amount > 0 => flag(&mut entry, "a refund without a minus sign"),
        _ => {}
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    entry.reference = row.merchant_reference()?;
    row.time(DATE, when::local).put(&mut entry);
    presentment(row, amount, &mut entry)?;
    check_net(row, [AMOUNT, FEE, NET], currency, &mut entry)?;
    // A payment that is in no payout yet adds up to nothing.
    let payout = row.text(PAYOUT);
    if !payout.is_empty()
        && let Some(net) = row.amount(NET, currency)?
    {
        emit.add_to_batch(payout, currency, net);
    }
    emit.entry(row, entry);
    Ok(())
}

/// What the customer paid, with the sign of the amount.
fn presentment(row: &Row<'_>, amount: i64, entry: &mut Entry<'_>) -> Result<(), Fault> {
    if row.text(PRESENTMENT).is_empty() || row.text(PRESENTMENT_CURRENCY).is_empty() {
        return Ok(());
    }
    let currency = row.currency(PRESENTMENT_CURRENCY)?;
    let size = row.needed_amount(PRESENTMENT, currency)?;
    entry.presentment_minor = if amount < 0 { Some(outward(size)) } else { size.checked_abs() };
    entry.presentment_currency = Some(currency);
    Ok(())
}
