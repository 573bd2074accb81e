//! Amazon Pay, settlement report: a preamble, then one row a transaction; with its transfer the file sums up to zero.
//!
//! developer.amazon.com/docs/amazon-pay-reports/settlement-reports.html. Signed amounts, fees negative, net = amount + fee.
//! Captures and refunds each have a reference of their own.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::NumberStyle;

use super::Format;
use super::row::{Emit, Fault, Row, flag, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const POSTED: usize = 0;
const SETTLEMENT: usize = 1;
const ID: usize = 2;
const REFERENCE: usize = 3;
const TYPE: usize = 4;
const ORDER: usize = 5;
const SELLER_ORDER: usize = 6;
const CURRENCY: usize = 7;
const AMOUNT: usize = 8;
const FEE: usize = 9;
const NET: usize = 10;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::AmazonPay,
    name: "amazonpay-settlement",
    provider: "amazonpay",
    dated_by: DatedBy::Created,
    columns: &[
        needed(POSTED, &["transactionposteddate"]),
        optional(SETTLEMENT, &["settlementid"]),
        key(ID, &["amazontransactionid"]),
        useful(REFERENCE, &["sellerreferenceid"]),
        key(TYPE, &["transactiontype"]),
        optional(ORDER, &["amazonorderreferenceid"]),
        optional(SELLER_ORDER, &["sellerorderid"]),
        needed(CURRENCY, &["currencycode"]),
        key(AMOUNT, &["transactionamount"]),
        optional(FEE, &["totaltransactionfee"]),
        key(NET, &["nettransactionamount"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[REFERENCE, SELLER_ORDER]),
    missing_hint: "download the settlement report again",
    read_row,
    extra: PLAIN,
};

const TYPES: &[(&str, EntryKind)] = &[
    ("Capture", EntryKind::Charge),
    ("Refund", EntryKind::Refund),
    ("Chargeback", EntryKind::Chargeback),
    ("A-to-z Guarantee Claim", EntryKind::Chargeback),
    ("A-to-z Guarantee", EntryKind::Chargeback),
    ("Guarantee Claim", EntryKind::Chargeback),
    ("GuaranteeClaim", EntryKind::Chargeback),
    ("Transfer", EntryKind::Payout),
    ("Reserve", EntryKind::Reserve),
    ("Adjustment", EntryKind::Adjustment),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let type_raw = row.text(TYPE);
    let kind = match word(TYPES, type_raw) {
        Some(EntryKind::Chargeback) if amount > 0 => EntryKind::ChargebackReversal,
        // A transfer that came back.
        Some(EntryKind::Payout) if amount > 0 => EntryKind::PayoutReversal,
        known => known.unwrap_or(EntryKind::Unknown),
    };
    let mut entry = row.entry(kind, Status::Succeeded, currency, Some(amount));
    match kind {
        EntryKind::Unknown => flag(&mut entry, format!("unknown transaction type {type_raw:?}")),
        EntryKind::Charge if amount < 0 => flag(&mut entry, "a capture with a minus sign"),
        EntryKind::Refund if amount > 0 => flag(&mut entry, "a refund without a minus sign"),
        _ => {}
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    entry.provider_id = row.id(ID)?;
    entry.reference = row.merchant_reference()?;
    if matches!(kind, EntryKind::Refund | EntryKind::Chargeback | EntryKind::ChargebackReversal) {
        entry.order_reference = row.id(ORDER)?;
    }
    row.time(POSTED, when::local).put(&mut entry);
    if let Some(net) = row.amount(NET, currency)? {
        let fee = row.amount(FEE, currency)?;
        if fee.is_some_and(|fee| i128::from(amount) + i128::from(fee) != i128::from(net)) {
            flag(&mut entry, "amount and fee do not add up to net");
        }
        emit.add_to_batch(row.text(SETTLEMENT), currency, net);
    }
    emit.entry(row, entry);
    Ok(())
}
