//! Razorpay, refunds export: one row a refund, with the id of its payment.
//!
//! razorpay.com/docs. Amounts are rupees and positive. `receipt` is the shop's reference of the refund, the payment's
//! reference can be a key of the JSON in `notes`. Times have no zone.

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::razorpay_payments::time;
use super::row::{Emit, Fault, Row, outward};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, useful};

const ID: usize = 0;
const AMOUNT: usize = 1;
const CURRENCY: usize = 2;
const PAYMENT: usize = 3;
const NOTES: usize = 4;
const RECEIPT: usize = 5;
const CREATED: usize = 6;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::RazorpayRefunds,
    name: "razorpay-refunds",
    provider: "razorpay",
    dated_by: DatedBy::Created,
    columns: &[
        key(ID, &["id"]),
        key(AMOUNT, &["amount"]),
        needed(CURRENCY, &["currency"]),
        key(PAYMENT, &["payment_id"]),
        useful(NOTES, &["notes"]),
        key(RECEIPT, &["receipt"]),
        needed(CREATED, &["created_at"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Notes { columns: &[], json: &[NOTES] },
    missing_hint: "download the refunds with all columns",
    read_row,
    extra: PLAIN,
};

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let mut refund = row.entry(EntryKind::Refund, Status::Succeeded, currency, Some(outward(amount)));
    refund.provider_id = row.id(ID)?;
    refund.parent_id = row.id(PAYMENT)?;
    refund.reference = row.merchant_reference()?;
    refund.modification_reference = row.id(RECEIPT)?;
    time(row, CREATED, &mut refund);
    emit.entry(row, refund);
    Ok(())
}
