//! GoCardless, payments export: one row a payment, whose status says whether money moved and whether it was taken back.
//!
//! support.gocardless.com. A failure can come after the confirmation, so the status of a row is that of the day of the
//! export. Refunds and chargebacks have no rows and no ids. `reference` is what the payer's bank statement shows; the
//! shop's key is in a metadata column.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, useful};
use super::when;

const ID: usize = 0;
const CREATED: usize = 1;
const CHARGED: usize = 2;
const AMOUNT: usize = 3;
const CURRENCY: usize = 4;
const STATUS: usize = 5;
const REFUNDED: usize = 6;
const MANDATE: usize = 7;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::GocardlessPayments,
    name: "gocardless-payments",
    provider: "gocardless",
    dated_by: DatedBy::Created,
    columns: &[
        key(ID, &["id"]),
        needed(CREATED, &["created_at"]),
        key(CHARGED, &["charge_date"]),
        needed(AMOUNT, &["amount"]),
        needed(CURRENCY, &["currency"]),
        needed(STATUS, &["status"]),
        useful(REFUNDED, &["amount_refunded"]),
        // Any of the linked ids tells these payments from others.
        key(MANDATE, &["links.mandate", "links.creditor", "links.payout", "links.customer"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Metadata { before: "metadata.", after: "", then: &[] },
    missing_hint: "export the payments with all columns and your metadata",
    read_row,
    extra: PLAIN,
};

/// What a status says, and whether the money was taken back by the payer's bank.
const STATUSES: &[(&str, (Status, bool))] = &[
    ("pending_customer_approval", (Status::Pending, false)),
    ("pending_submission", (Status::Pending, false)),
    ("submitted", (Status::Pending, false)),
    ("confirmed", (Status::Succeeded, false)),
    ("paid_out", (Status::Succeeded, false)),
    ("charged_back", (Status::Succeeded, true)),
    ("failed", (Status::Failed, false)),
    ("cancelled", (Status::Canceled, false)),
    ("canceled", (Status::Canceled, false)),
    ("customer_approval_denied", (Status::Canceled, false)),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let refunded = row.amount(REFUNDED, currency)?.unwrap_or(0);
    let status_raw = row.text(STATUS);
    let known = word(STATUSES, status_raw);
    let (status, charged_back) = known.unwrap_or((Status::Pending, false));
    let kind = if known.is_some() { EntryKind::Charge } else { EntryKind::Unknown };
    let mut payment = row.entry(kind, status, currency, Some(amount));
    if known.is_none() {
        flag(&mut payment, format!("unknown status {status_raw:?}"));
    }
    payment.provider_id = row.id(ID)?;
    payment.reference = row.merchant_reference()?;
    payment.status_raw = Some(Cow::Borrowed(status_raw));
    let refund = (refunded != 0).then(|| {
        taken_back(&payment, EntryKind::Refund, refunded, "derived from amount_refunded: no refund id nor time")
    });
    let chargeback = charged_back.then(|| {
        taken_back(&payment, EntryKind::Chargeback, amount, "derived from the status: no chargeback id nor time")
    });
    row.time(CREATED, when::utc).put(&mut payment);
    emit.entry(row, payment);
    for entry in [refund, chargeback].into_iter().flatten() {
        emit.entry(row, entry);
    }
    Ok(())
}

/// What the row says of money that went back; `payment` has no time yet.
fn taken_back<'a>(payment: &Entry<'a>, kind: EntryKind, minor: i64, note: &'static str) -> Entry<'a> {
    let mut back = payment.clone();
    back.kind = kind;
    back.amount_minor = Some(outward(minor));
    back.parent_id = back.provider_id.take();
    back.notes = vec![Cow::Borrowed(note)];
    back
}
