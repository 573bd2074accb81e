//! Checkout.com, settlement breakdown: one row a payment, refund or dispute of a payout, with its deductions beside it.
//!
//! checkout.com/docs, settlement breakdown. What is compared is the gross in the processing currency; the holding side is
//! the payout's. A charge whose gross is zero is a fee that came late. Times are UTC.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::rate::{converts, scaled};
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const TYPE: usize = 0;
const PAYMENT: usize = 1;
const REFERENCE: usize = 2;
const PROCESSED: usize = 3;
const HOLDING_CURRENCY: usize = 4;
const HOLDING_GROSS: usize = 5;
const DEDUCTION: usize = 6;
const HOLDING_NET: usize = 7;
const CURRENCY: usize = 8;
const GROSS: usize = 9;
const RATE: usize = 10;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::CheckoutBreakdown,
    name: "checkout-settlement-breakdown",
    provider: "checkout",
    dated_by: DatedBy::Settled,
    columns: &[
        needed(TYPE, &["type"]),
        needed(PAYMENT, &["payment id"]),
        useful(REFERENCE, &["reference"]),
        needed(PROCESSED, &["processed on"]),
        needed(HOLDING_CURRENCY, &["holding currency"]),
        key(HOLDING_GROSS, &["gross in holding currency"]),
        optional(DEDUCTION, &["deduction in holding currency"]),
        key(HOLDING_NET, &["net in holding currency"]),
        needed(CURRENCY, &["processing currency"]),
        key(GROSS, &["gross in processing currency"]),
        optional(RATE, &["fx rate applied"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "download the settlement breakdown with all columns",
    read_row,
    extra: PLAIN,
};

const TYPES: &[(&str, EntryKind)] = &[
    ("Charge", EntryKind::Charge),
    ("Refund", EntryKind::Refund),
    ("Chargeback", EntryKind::Chargeback),
    ("Void", EntryKind::Void),
    ("Network Token Provisioning", EntryKind::Fee),
    ("Network Token Update", EntryKind::Fee),
    ("Account Updater", EntryKind::Fee),
    ("Merchant Payout", EntryKind::Payout),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let type_raw = row.text(TYPE);
    let known = word(TYPES, type_raw);
    let mut entry = match known {
        Some(EntryKind::Fee | EntryKind::Payout) => of_the_account(row, known.unwrap_or(EntryKind::Fee))?,
        known => of_a_payment(row, known.unwrap_or(EntryKind::Unknown))?,
    };
    if known.is_none() {
        flag(&mut entry, format!("unknown type {type_raw:?}"));
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    let payment = row.id(PAYMENT)?;
    if matches!(entry.kind, EntryKind::Charge | EntryKind::Void) {
        entry.provider_id = payment;
    } else {
        // The report has no ids of refunds and disputes.
        entry.parent_id = payment;
    }
    entry.reference = row.merchant_reference()?;
    row.time(PROCESSED, when::utc).put(&mut entry);
    check(row, &mut entry)?;
    emit.entry(row, entry);
    Ok(())
}

fn of_a_payment<'a>(row: &Row<'a>, kind: EntryKind) -> Result<Entry<'a>, Fault> {
    let currency = row.currency(CURRENCY)?;
    let gross = row.needed_amount(GROSS, currency)?;
    match kind {
        EntryKind::Charge if gross == 0 => of_the_account(row, EntryKind::Fee),
        EntryKind::Void => {
            let mut void = row.entry(kind, Status::Canceled, currency, Some(0));
            void.authorized_minor = gross.checked_abs().filter(|&authorized| authorized != 0);
            Ok(void)
        }
        EntryKind::Refund => Ok(row.entry(kind, Status::Succeeded, currency, Some(outward(gross)))),
        EntryKind::Chargeback if gross > 0 => {
            Ok(row.entry(EntryKind::ChargebackReversal, Status::Succeeded, currency, Some(gross)))
        }
        kind => Ok(row.entry(kind, Status::Succeeded, currency, Some(gross))),
    }
}

/// A row that has moved no customer's money: its net is what there is.
fn of_the_account<'a>(row: &Row<'a>, kind: EntryKind) -> Result<Entry<'a>, Fault> {
    let currency = row.currency(HOLDING_CURRENCY)?;
    let (minor, decimal) = row.fine_amount(HOLDING_NET, currency)?;
    let mut entry = row.entry(kind, Status::Succeeded, currency, minor);
    entry.amount_decimal = decimal;
    Ok(entry)
}

/// The row's own arithmetic: gross and deduction are the net, and the rate leads from one gross to the other.
fn check(row: &Row<'_>, entry: &mut Entry<'_>) -> Result<(), Fault> {
    let sums = [HOLDING_GROSS, DEDUCTION, HOLDING_NET].map(|column| scaled(row.text(column)));
    if let [Some(gross), Some(deduction), Some(net)] = sums
        && gross + deduction != net
    {
        flag(entry, "gross and deduction do not add up to net");
    }
    if row.text(RATE).is_empty() || row.text(GROSS).is_empty() || row.text(HOLDING_GROSS).is_empty() {
        return Ok(());
    }
    let (currency, holding) = (row.currency(CURRENCY)?, row.currency(HOLDING_CURRENCY)?);
    if let (Ok(Some(gross)), Ok(Some(held))) = (row.amount(GROSS, currency), row.amount(HOLDING_GROSS, holding))
        && converts((gross, currency), row.text(RATE), (held, holding)) == Some(false)
    {
        flag(entry, "gross times the FX rate is not the gross in the holding currency");
    }
    Ok(())
}
