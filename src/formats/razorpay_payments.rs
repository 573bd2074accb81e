//! Razorpay, payments export: one row a payment, refunds only as a total beside it.
//!
//! razorpay.com/docs. Amounts are rupees with dropped zeros (those of the API are paise). The shop's reference is a key of
//! the JSON in `notes`. Times have no zone.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, useful};
use super::when;

const ID: usize = 0;
const AMOUNT: usize = 1;
const CURRENCY: usize = 2;
const STATUS: usize = 3;
const REFUNDED: usize = 4;
const CAPTURED: usize = 5;
const NOTES: usize = 6;
const CREATED: usize = 7;
const METHOD: usize = 8;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::RazorpayPayments,
    name: "razorpay-payments",
    provider: "razorpay",
    dated_by: DatedBy::Created,
    columns: &[
        key(ID, &["id"]),
        needed(AMOUNT, &["amount"]),
        needed(CURRENCY, &["currency"]),
        needed(STATUS, &["status"]),
        key(REFUNDED, &["amount_refunded"]),
        key(CAPTURED, &["captured"]),
        useful(NOTES, &["notes"]),
        needed(CREATED, &["created_at"]),
        key(METHOD, &["method"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Notes { columns: &[], json: &[NOTES] },
    missing_hint: "download the payments with all columns",
    read_row,
    extra: PLAIN,
};

const STATUSES: &[(&str, (EntryKind, Status))] = &[
    ("created", (EntryKind::Charge, Status::Pending)),
    ("authorized", (EntryKind::Authorization, Status::Authorized)),
    ("captured", (EntryKind::Charge, Status::Succeeded)),
    ("refunded", (EntryKind::Charge, Status::Succeeded)),
    ("failed", (EntryKind::Charge, Status::Failed)),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let refunded = row.amount(REFUNDED, currency)?.unwrap_or(0);
    let status_raw = row.text(STATUS);
    let known = word(STATUSES, status_raw);
    let (kind, status) = known.unwrap_or((EntryKind::Unknown, Status::Pending));
    let id = row.id(ID)?;
    let reference = row.merchant_reference()?;

    let mut payment = row.entry(kind, status, currency, Some(amount));
    if known.is_none() {
        flag(&mut payment, format!("unknown status {status_raw:?}"));
    }
    payment.provider_id.clone_from(&id);
    payment.reference.clone_from(&reference);
    payment.status_raw = Some(Cow::Borrowed(status_raw));
    time(row, CREATED, &mut payment);
    emit.entry(row, payment);

    if refunded != 0 {
        let mut refund = row.entry(EntryKind::Refund, Status::Succeeded, currency, Some(outward(refunded)));
        refund.parent_id = id;
        refund.reference = reference;
        refund.status_raw = Some(Cow::Borrowed(status_raw));
        refund.notes.push(Cow::Borrowed("derived from amount_refunded: the total so far, without a refund id or time"));
        emit.entry(row, refund);
    }
    Ok(())
}

/// ISO without a zone; dashboards have printed `31/12/2026 18:30:00` too, the day first.
pub(super) fn time<'a>(row: &Row<'a>, column: usize, entry: &mut Entry<'a>) {
    let text = row.text(column);
    let when = match when::day_first(text) {
        Some(local) => when::labelled(text, Some(local), "", row.rules.timezone),
        None => row.time(column, when::local),
    };
    when.put(entry);
}
