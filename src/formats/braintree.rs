//! Braintree, transaction search export: one row a transaction, whose status says whether money moved.
//!
//! developer.paypal.com/braintree/docs. Amounts are positive on sales and on credits: the type gives the sign. What was
//! submitted for settlement counts, which can be less than what was authorised. Of disputes there is a date only.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const ID: usize = 0;
const TYPE: usize = 1;
const STATUS: usize = 2;
const ESCROW: usize = 3;
const CREATED: usize = 4;
const ZONE: usize = 5;
const CURRENCY: usize = 6;
const AUTHORIZED: usize = 7;
const SUBMITTED: usize = 8;
const ORDER: usize = 9;
const REFUNDED: usize = 10;
const DISPUTED: usize = 11;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::Braintree,
    name: "braintree",
    provider: "braintree",
    dated_by: DatedBy::Created,
    columns: &[
        key(ID, &["transaction id"]),
        needed(TYPE, &["transaction type"]),
        needed(STATUS, &["transaction status"]),
        key(ESCROW, &["escrow status"]),
        needed(CREATED, &["created datetime"]),
        useful(ZONE, &["created timezone"]),
        needed(CURRENCY, &["currency iso code"]),
        needed(AUTHORIZED, &["amount authorized"]),
        key(SUBMITTED, &["amount submitted for settlement"]),
        useful(ORDER, &["order id"]),
        useful(REFUNDED, &["refunded transaction id"]),
        optional(DISPUTED, &["disputed date"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[ORDER]),
    missing_hint: "download the transaction search with all its columns",
    read_row,
    extra: PLAIN,
};

/// How far a transaction has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Settled,
    OnItsWay,
    Authorized,
    Authorizing,
    Released,
    Failed,
}

const STAGES: &[(&str, Stage)] = &[
    ("settled", Stage::Settled),
    ("settling", Stage::OnItsWay),
    ("submitted_for_settlement", Stage::OnItsWay),
    ("settlement_pending", Stage::OnItsWay),
    ("settlement_confirmed", Stage::OnItsWay),
    ("authorized", Stage::Authorized),
    ("authorizing", Stage::Authorizing),
    ("authorization_expired", Stage::Released),
    ("voided", Stage::Released),
    ("processor_declined", Stage::Failed),
    ("gateway_rejected", Stage::Failed),
    ("settlement_declined", Stage::Failed),
    ("failed", Stage::Failed),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let authorized = row.amount(AUTHORIZED, currency)?;
    let amount = row.amount(SUBMITTED, currency)?.or(authorized);
    let amount = amount.ok_or_else(|| row.fault(SUBMITTED, "blank amount"))?;
    let (type_raw, status_raw) = (row.text(TYPE), row.text(STATUS));
    let credit = match () {
        () if type_raw.eq_ignore_ascii_case("sale") => Some(false),
        () if type_raw.eq_ignore_ascii_case("credit") => Some(true),
        () => None,
    };
    // Printed as `submitted_for_settlement`, and on screen as `Submitted For Settlement`.
    let stage = word(STAGES, &status_raw.replace(' ', "_"));
    let (kind, status) = match (credit, stage) {
        (None, _) | (_, None) => (EntryKind::Unknown, Status::Pending),
        (Some(true), Some(stage)) => (EntryKind::Refund, status_of(stage)),
        (Some(false), Some(stage @ (Stage::Authorized | Stage::Authorizing))) => {
            (EntryKind::Authorization, status_of(stage))
        }
        (Some(false), Some(Stage::Released)) => (EntryKind::Void, Status::Canceled),
        (Some(false), Some(stage)) => (EntryKind::Charge, status_of(stage)),
    };
    let signed = if credit == Some(true) { outward(amount) } else { amount };
    let mut entry = row.entry(kind, status, currency, Some(signed));
    match kind {
        EntryKind::Void => (entry.amount_minor, entry.authorized_minor) = (Some(0), authorized.or(Some(amount))),
        EntryKind::Charge if status != Status::Failed => {
            entry.authorized_minor = authorized.filter(|&authorized| authorized != amount);
        }
        EntryKind::Unknown => flag(&mut entry, format!("unknown type {type_raw:?} or status {status_raw:?}")),
        _ => {}
    }
    entry.status_raw = (!status_raw.is_empty()).then_some(Cow::Borrowed(status_raw));
    entry.provider_id = row.id(ID)?;
    entry.parent_id = row.id(REFUNDED)?;
    entry.reference = row.merchant_reference()?;
    if !row.text(DISPUTED).is_empty() {
        entry.notes.push(Cow::Borrowed("disputed: the export does not say the amount nor the outcome"));
    }
    let created = row.text(CREATED);
    let local = when::american(created).or_else(|| when::iso(created).map(|(local, _)| local));
    when::labelled(created, local, row.text(ZONE), row.rules.timezone).put(&mut entry);
    emit.entry(row, entry);
    Ok(())
}

fn status_of(stage: Stage) -> Status {
    match stage {
        Stage::Settled => Status::Succeeded,
        Stage::OnItsWay | Stage::Authorizing => Status::Pending,
        Stage::Authorized => Status::Authorized,
        Stage::Released => Status::Canceled,
        Stage::Failed => Status::Failed,
    }
}
