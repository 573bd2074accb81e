//! Razorpay, settlement reconciliation: one row an entity of a settlement.
//!
//! razorpay.com/docs/api/settlements/fetch-recon. `amount` is the gross and always positive, `debit` and `credit` are net:
//! the entity gives the direction, and for entities that go both ways the column. The file's amounts are rupees (those of
//! the API are paise). Times have no zone.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::{Currency, NumberStyle};

use super::Format;
use super::razorpay_payments::time;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};

const ENTITY: usize = 0;
const ID: usize = 1;
const AMOUNT: usize = 2;
const CURRENCY: usize = 3;
const FEE: usize = 4;
const TAX: usize = 5;
const DEBIT: usize = 6;
const CREDIT: usize = 7;
const CREATED: usize = 8;
const RECEIPT: usize = 9;
const PAYMENT_NOTES: usize = 10;
const ORDER_NOTES: usize = 11;
const SETTLED: usize = 12;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::RazorpayRecon,
    name: "razorpay-recon",
    provider: "razorpay",
    dated_by: DatedBy::Created,
    columns: &[
        key(ENTITY, &["transaction_entity"]),
        key(ID, &["entity_id"]),
        needed(AMOUNT, &["amount"]),
        needed(CURRENCY, &["currency"]),
        optional(FEE, &["fee (exclusive tax)", "fee"]),
        optional(TAX, &["tax"]),
        key(DEBIT, &["debit"]),
        key(CREDIT, &["credit"]),
        needed(CREATED, &["entity_created_at"]),
        useful(RECEIPT, &["order_receipt"]),
        useful(PAYMENT_NOTES, &["payment_notes"]),
        optional(ORDER_NOTES, &["order_notes"]),
        optional(SETTLED, &["settled_at"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Notes { columns: &[RECEIPT], json: &[PAYMENT_NOTES, ORDER_NOTES] },
    missing_hint: "download the settlement reconciliation with all columns",
    read_row,
    extra: PLAIN,
};

const ENTITIES: &[(&str, EntryKind)] = &[
    ("payment", EntryKind::Charge),
    ("refund", EntryKind::Refund),
    ("dispute", EntryKind::Chargeback),
    ("adjustment", EntryKind::Adjustment),
    ("transfer", EntryKind::Transfer),
    ("reversal", EntryKind::Transfer),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let size = row.needed_amount(AMOUNT, currency)?;
    let debit = row.amount(DEBIT, currency)?.unwrap_or(0);
    let credit = row.amount(CREDIT, currency)?.unwrap_or(0);
    let entity = row.text(ENTITY);
    let known = word(ENTITIES, entity);
    let money_in = credit != 0 && debit == 0;
    let (kind, minor) = match known {
        // A payment whose fees exceed it is debited all the same.
        Some(EntryKind::Charge) => (EntryKind::Charge, Some(size)),
        Some(EntryKind::Refund) => (EntryKind::Refund, Some(outward(size))),
        Some(EntryKind::Chargeback) if money_in => (EntryKind::ChargebackReversal, size.checked_abs()),
        Some(EntryKind::Chargeback) => (EntryKind::Chargeback, Some(outward(size))),
        known => {
            let minor = if money_in { size.checked_abs() } else { Some(outward(size)) };
            (known.unwrap_or(EntryKind::Unknown), minor)
        }
    };
    let mut entry = row.entry(kind, Status::Succeeded, currency, minor);
    if known.is_none() {
        flag(&mut entry, format!("unknown entity {entity:?}"));
    }
    entry.type_raw = Some(Cow::Borrowed(entity));
    entry.provider_id = row.id(ID)?;
    entry.reference = row.merchant_reference()?;
    time(row, CREATED, &mut entry);
    check(row, currency, [debit, credit], &mut entry)?;
    emit.entry(row, entry);
    Ok(())
}

/// The row's own arithmetic: credit less debit is the signed amount less fee and tax.
fn check(row: &Row<'_>, currency: Currency, [debit, credit]: [i64; 2], entry: &mut Entry<'_>) -> Result<(), Fault> {
    if row.text(DEBIT).is_empty() && row.text(CREDIT).is_empty() {
        return Ok(());
    }
    let fee = i128::from(row.amount(FEE, currency)?.unwrap_or(0));
    let tax = i128::from(row.amount(TAX, currency)?.unwrap_or(0));
    let net = i128::from(credit) - i128::from(debit);
    if entry.amount_minor.is_some_and(|minor| i128::from(minor) - fee - tax != net) {
        flag(entry, "amount less fee and tax is not what was credited or debited");
    }
    Ok(())
}
