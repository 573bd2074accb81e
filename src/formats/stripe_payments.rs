//! Stripe, dashboard export of payments: one row a payment; refunds and disputes are columns of it.
//!
//! Read from the exported files' titles and docs.stripe.com/currencies. `Amount` is what the customer was charged;
//! the `Converted ...` columns are the settlement side and are not looked at.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const ID: usize = 0;
const CREATED: usize = 1;
const AMOUNT: usize = 2;
const CURRENCY: usize = 3;
const CAPTURED: usize = 4;
const STATUS: usize = 5;
const REFUNDED: usize = 6;
const REFUNDED_AT: usize = 7;
const DISPUTED: usize = 8;
const DISPUTED_AT: usize = 9;
const DISPUTE_STATUS: usize = 10;
const CLIENT_REFERENCE: usize = 11;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::StripePayments,
    name: "stripe-payments",
    provider: "stripe",
    dated_by: DatedBy::Created,
    columns: &[
        key(ID, &["id"]),
        key(CREATED, &["created date (utc)", "created (utc)"]),
        needed(AMOUNT, &["amount"]),
        needed(CURRENCY, &["currency"]),
        key(CAPTURED, &["captured"]),
        needed(STATUS, &["status"]),
        key(REFUNDED, &["amount refunded"]),
        useful(REFUNDED_AT, &["refunded date (utc)"]),
        useful(DISPUTED, &["disputed amount"]),
        useful(DISPUTED_AT, &["dispute date (utc)"]),
        useful(DISPUTE_STATUS, &["dispute status"]),
        optional(CLIENT_REFERENCE, &["client reference id"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Metadata { before: "", after: " (metadata)", then: &[CLIENT_REFERENCE] },
    missing_hint: "add them under Columns when exporting payments from the dashboard",
    read_row,
    extra: PLAIN,
};

const STATUSES: &[(&str, (EntryKind, Status))] = &[
    ("Paid", (EntryKind::Charge, Status::Succeeded)),
    ("Succeeded", (EntryKind::Charge, Status::Succeeded)),
    ("Refunded", (EntryKind::Charge, Status::Succeeded)),
    ("Partially refunded", (EntryKind::Charge, Status::Succeeded)),
    ("Partial refund", (EntryKind::Charge, Status::Succeeded)),
    ("Disputed", (EntryKind::Charge, Status::Succeeded)),
    ("Failed", (EntryKind::Charge, Status::Failed)),
    ("Blocked", (EntryKind::Charge, Status::Failed)),
    ("Pending", (EntryKind::Charge, Status::Pending)),
    ("Processing", (EntryKind::Charge, Status::Pending)),
    ("Uncaptured", (EntryKind::Authorization, Status::Authorized)),
    ("requires_capture", (EntryKind::Authorization, Status::Authorized)),
    // An authorisation that was released: it had an id, and no money moved.
    ("Canceled", (EntryKind::Void, Status::Canceled)),
    ("Cancelled", (EntryKind::Void, Status::Canceled)),
];

/// What a dispute's status says about the disputed money.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dispute {
    /// Taken back for good.
    Lost,
    /// Taken back until it is decided.
    Open,
    /// Not taken, or given back: no loss.
    NoLoss,
}

const DISPUTES: &[(&str, Dispute)] = &[
    ("lost", Dispute::Lost),
    ("needs_response", Dispute::Open),
    ("under_review", Dispute::Open),
    ("won", Dispute::NoLoss),
    ("prevented", Dispute::NoLoss),
    ("charge_refunded", Dispute::NoLoss),
    ("warning_needs_response", Dispute::NoLoss),
    ("warning_under_review", Dispute::NoLoss),
    ("warning_closed", Dispute::NoLoss),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let status_raw = row.text(STATUS);
    let known = word(STATUSES, status_raw);
    let Some(id) = row.id(ID)? else {
        if matches!(known, Some((EntryKind::Charge, Status::Succeeded))) {
            return Err(row.fault(ID, format!("blank id on a row whose status is {status_raw}")));
        }
        emit.ignored(row.record.line, "blank id: a payment intent that never became a charge");
        return Ok(());
    };
    let reference = row.merchant_reference()?;
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let refunded = row.amount(REFUNDED, currency)?.unwrap_or(0);
    let disputed = row.amount(DISPUTED, currency)?.unwrap_or(0);

    let (kind, status) = known.unwrap_or((EntryKind::Unknown, Status::Pending));
    let mut payment = row.entry(kind, status, currency, Some(amount));
    row.time(CREATED, when::utc).put(&mut payment);
    payment.reference.clone_from(&reference);
    payment.provider_id = Some(id.clone());
    payment.status_raw = Some(Cow::Borrowed(status_raw));
    match kind {
        EntryKind::Void => (payment.amount_minor, payment.authorized_minor) = (Some(0), Some(amount)),
        EntryKind::Unknown => flag(&mut payment, format!("unknown status {status_raw:?}")),
        _ => {}
    }
    emit.entry(row, payment);

    // A released authorisation shows its whole amount as refunded; no money came back, since none had moved.
    if refunded != 0 && kind != EntryKind::Void {
        let mut refund = row.entry(EntryKind::Refund, Status::Succeeded, currency, refunded.checked_neg());
        row.time(REFUNDED_AT, when::utc).put(&mut refund);
        refund.reference.clone_from(&reference);
        refund.parent_id = Some(id.clone());
        refund.status_raw = Some(Cow::Borrowed(status_raw));
        refund.notes.push(Cow::Borrowed("derived from Amount Refunded: the total so far, without a refund id"));
        emit.entry(row, refund);
    }
    let dispute_raw = row.text(DISPUTE_STATUS);
    let dispute = word(DISPUTES, dispute_raw);
    if disputed != 0 && dispute != Some(Dispute::NoLoss) {
        let status = if dispute == Some(Dispute::Lost) { Status::Succeeded } else { Status::Pending };
        let mut chargeback = row.entry(EntryKind::Chargeback, status, currency, disputed.checked_neg());
        row.time(DISPUTED_AT, when::utc).put(&mut chargeback);
        chargeback.reference = reference;
        chargeback.parent_id = Some(id);
        chargeback.status_raw = (!dispute_raw.is_empty()).then_some(Cow::Borrowed(dispute_raw));
        chargeback.notes.push(Cow::Borrowed("derived from Disputed Amount: the report has no dispute id"));
        if dispute.is_none() {
            flag(&mut chargeback, "unknown dispute status");
        }
        emit.entry(row, chargeback);
    }
    Ok(())
}
