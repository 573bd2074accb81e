//! Stripe, balance history: the older "all activity" export of the dashboard.
//!
//! docs.stripe.com/reports/balance. One row a balance transaction, times to the minute in UTC, disputes under the type
//! `adjustment`. Refund rows name no charge, so they stay without a parent.

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, word};
use super::stripe_balance::{check_net, customer_side};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const ID: usize = 0;
const TYPE: usize = 1;
const SOURCE: usize = 2;
const AMOUNT: usize = 3;
const FEE: usize = 4;
const NET: usize = 5;
const CURRENCY: usize = 6;
const CREATED: usize = 7;
const AVAILABLE: usize = 8;
const CUSTOMER_AMOUNT: usize = 9;
const CUSTOMER_CURRENCY: usize = 10;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::StripeHistory,
    name: "stripe-history",
    provider: "stripe",
    dated_by: DatedBy::Created,
    columns: &[
        key(ID, &["id"]),
        key(TYPE, &["type"]),
        key(SOURCE, &["source"]),
        needed(AMOUNT, &["amount"]),
        optional(FEE, &["fee"]),
        key(NET, &["net"]),
        needed(CURRENCY, &["currency"]),
        key(CREATED, &["created (utc)"]),
        optional(AVAILABLE, &["available on (utc)"]),
        useful(CUSTOMER_AMOUNT, &["customer facing amount"]),
        useful(CUSTOMER_CURRENCY, &["customer facing currency"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Metadata { before: "", after: " (metadata)", then: &[] },
    missing_hint: "export the balance history with all its columns",
    read_row,
    extra: PLAIN,
};

const TYPES: &[(&str, EntryKind)] = &[
    ("charge", EntryKind::Charge),
    ("payment", EntryKind::Charge),
    ("refund", EntryKind::Refund),
    ("payment_refund", EntryKind::Refund),
    ("refund_failure", EntryKind::RefundReversal),
    ("payment_refund_failure", EntryKind::RefundReversal),
    ("charge_failure", EntryKind::ChargeReversal),
    ("payment_failure_refund", EntryKind::ChargeReversal),
    ("payment_reversal", EntryKind::ChargeReversal),
    ("partial_capture_reversal", EntryKind::ChargeReversal),
    ("payout", EntryKind::Payout),
    ("payout_cancel", EntryKind::PayoutReversal),
    ("payout_failure", EntryKind::PayoutReversal),
    ("transfer", EntryKind::Transfer),
    ("transfer_cancel", EntryKind::Transfer),
    ("transfer_failure", EntryKind::Transfer),
    ("transfer_refund", EntryKind::Transfer),
    ("topup", EntryKind::Transfer),
    ("topup_reversal", EntryKind::Transfer),
    ("stripe_fee", EntryKind::Fee),
    ("stripe_fx_fee", EntryKind::Fee),
    ("tax_fee", EntryKind::Fee),
    ("network_cost", EntryKind::Fee),
    ("application_fee", EntryKind::Fee),
    ("application_fee_refund", EntryKind::Fee),
    ("reserve_transaction", EntryKind::Reserve),
    ("reserved_funds", EntryKind::Reserve),
    ("adjustment", EntryKind::Adjustment),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let source = row.id(SOURCE)?;
    let type_word = row.text(TYPE);
    let known = word(TYPES, type_word);
    let of_dispute = source.as_deref().is_some_and(|s| s.starts_with("dp_") || s.starts_with("du_"));
    let kind = match known {
        // Withdrawn and returned amounts of a dispute carry the same source: the sign tells which it is.
        Some(EntryKind::Adjustment) if of_dispute && amount < 0 => EntryKind::Chargeback,
        Some(EntryKind::Adjustment) if of_dispute => EntryKind::ChargebackReversal,
        // Until 2017 payouts were called transfers.
        Some(EntryKind::Transfer) if source.as_deref().is_some_and(|s| s.starts_with("po_")) => EntryKind::Payout,
        known => known.unwrap_or(EntryKind::Unknown),
    };
    let mut entry = row.entry(kind, Status::Succeeded, currency, Some(amount));
    entry.entry_id = row.id(ID)?;
    entry.provider_id = source;
    entry.reference = row.merchant_reference()?;
    row.time(CREATED, when::utc).put(&mut entry);
    if known.is_none() {
        flag(&mut entry, format!("unknown type {type_word:?}"));
    }
    customer_side(row, CUSTOMER_AMOUNT, CUSTOMER_CURRENCY, &mut entry)?;
    check_net(row, [AMOUNT, FEE, NET], currency, &mut entry)?;
    emit.entry(row, entry);
    Ok(())
}
