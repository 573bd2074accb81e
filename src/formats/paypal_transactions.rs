//! PayPal, transaction detail report (TRR) by SFTP: all transactions, those too that moved no money.
//!
//! The settlement report's envelope with a status in each row. Only a success moves money; the amount of a voided
//! authorisation is what had been authorised.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::paypal_envelope::{self, CUSTOM, INVOICE, SHARED};
use super::row::{Emit, Fault, Row, flag, word};
use super::titles::{Column, Extra, Layout, PLAIN, ReferenceOrder, key};

const STATUS: usize = SHARED.len();

pub(super) static LAYOUT: Layout = Layout {
    format: Format::PaypalTransactions,
    name: "paypal-transactions",
    provider: "paypal",
    dated_by: DatedBy::Settled,
    columns: &COLUMNS,
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[INVOICE, CUSTOM]),
    missing_hint: "the CH record lacks them",
    read_row,
    extra: Extra { envelope: true, scan: paypal_envelope::scan, ..PLAIN },
};

/// The shared columns and the status.
static COLUMNS: [Column; STATUS + 1] = {
    let mut columns = [key(STATUS, &["transactionalstatus"]); STATUS + 1];
    let mut at = 0;
    while at < STATUS {
        columns[at] = SHARED[at];
        at += 1;
    }
    columns
};

const STATES: &[(&str, Status)] = &[
    ("S", Status::Succeeded),
    // Refunded in part: the payment itself succeeded.
    ("F", Status::Succeeded),
    ("P", Status::Pending),
    ("D", Status::Failed),
    ("V", Status::Canceled),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let mut entry = paypal_envelope::entry(row)?;
    let status_raw = row.text(STATUS);
    let state = word(STATES, status_raw);
    entry.status = match (entry.kind, state) {
        (EntryKind::Void, _) => Status::Canceled,
        (EntryKind::Authorization, Some(Status::Succeeded | Status::Pending)) => Status::Authorized,
        (EntryKind::Authorization, None) => Status::Pending,
        (_, known) => known.unwrap_or(Status::Pending),
    };
    if state.is_none() {
        flag(&mut entry, format!("unknown status {status_raw:?}"));
    }
    if state == Some(Status::Canceled) && entry.kind == EntryKind::Authorization {
        entry.kind = EntryKind::Void;
        (entry.authorized_minor, entry.amount_minor) = (entry.amount_minor, Some(0));
    }
    entry.status_raw = (!status_raw.is_empty()).then_some(Cow::Borrowed(status_raw));
    let custom = row.text(CUSTOM);
    entry.custom = (!custom.is_empty()).then_some(Cow::Borrowed(custom));
    emit.entry(row, entry);
    Ok(())
}
