//! Mercado Pago, account money (settlement) report: one row a movement of the account.
//!
//! mercadopago.com developers, account money report. Amounts are signed. `SOURCE_ID` is the payment's id on all of its
//! movements. Two columns hold JSON whose quotes are not doubled: those two are repaired, and the row's own arithmetic
//! shows whether the rest stands where it should. Delimiter and decimal mark are settings of the account.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::{Currency, NumberStyle};

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder, key, needed, optional};
use super::when;

const REFERENCE: usize = 0;
const SOURCE: usize = 1;
const TYPE: usize = 2;
const AMOUNT: usize = 3;
const CURRENCY: usize = 4;
const DATE: usize = 5;
const FEE: usize = 6;
const NET: usize = 7;
const NET_CURRENCY: usize = 8;
const TAXES: usize = 9;
const MARKETPLACE_FEE: usize = 10;
const METADATA: usize = 11;
const TAXES_IN_PARTS: usize = 12;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::MercadoPago,
    name: "mercadopago-account-money",
    provider: "mercadopago",
    dated_by: DatedBy::Created,
    columns: &[
        key(REFERENCE, &["external_reference"]),
        key(SOURCE, &["source_id"]),
        key(TYPE, &["transaction_type"]),
        needed(AMOUNT, &["transaction_amount"]),
        needed(CURRENCY, &["transaction_currency"]),
        needed(DATE, &["transaction_date"]),
        optional(FEE, &["fee_amount"]),
        key(NET, &["settlement_net_amount"]),
        optional(NET_CURRENCY, &["settlement_currency"]),
        optional(TAXES, &["taxes_amount"]),
        optional(MARKETPLACE_FEE, &["mkp_fee_amount"]),
        optional(METADATA, &["metadata"]),
        optional(TAXES_IN_PARTS, &["taxes_disaggregated"]),
    ],
    number: NumberStyle { mark: None, grouping: false },
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "add them to the report in its configuration",
    read_row,
    extra: Extra { json_columns: &[METADATA, TAXES_IN_PARTS], ..PLAIN },
};

const TYPES: &[(&str, EntryKind)] = &[
    ("SETTLEMENT", EntryKind::Charge),
    ("REFUND", EntryKind::Refund),
    ("CHARGEBACK", EntryKind::Chargeback),
    ("CHARGEBACK_CANCEL", EntryKind::ChargebackReversal),
    ("DISPUTE", EntryKind::Chargeback),
    ("WITHDRAWAL", EntryKind::Payout),
    ("WITHDRAWAL_CANCEL", EntryKind::PayoutReversal),
    ("PAYOUT", EntryKind::Payout),
    ("PAYOUTS", EntryKind::Payout),
    ("CASHBACK", EntryKind::Adjustment),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let type_raw = row.text(TYPE);
    // What was paid for shipping moves as the payment does: `REFUND_SHIPPING`.
    let known = word(TYPES, type_raw.strip_suffix("_SHIPPING").unwrap_or(type_raw));
    let (kind, minor) = match known {
        // Sent by this account.
        Some(EntryKind::Charge) if amount < 0 => (EntryKind::Transfer, amount),
        Some(EntryKind::Chargeback) if amount > 0 => (EntryKind::ChargebackReversal, amount),
        Some(EntryKind::Refund) => (EntryKind::Refund, outward(amount)),
        known => (known.unwrap_or(EntryKind::Unknown), amount),
    };
    let mut entry = row.entry(kind, Status::Succeeded, currency, Some(minor));
    match kind {
        EntryKind::Unknown => flag(&mut entry, format!("unknown transaction type {type_raw:?}")),
        EntryKind::Refund if amount > 0 => flag(&mut entry, "a refund without a minus sign; the type was followed"),
        _ => {}
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    let source = row.id(SOURCE)?;
    if matches!(kind, EntryKind::Refund | EntryKind::Chargeback | EntryKind::ChargebackReversal) {
        entry.parent_id = source;
    } else {
        entry.provider_id = source;
    }
    entry.reference = row.merchant_reference()?;
    row.time(DATE, when::local).put(&mut entry);
    check(row, currency, amount, &mut entry)?;
    emit.entry(row, entry);
    Ok(())
}

/// The row's own arithmetic: amount, fees and taxes are the net. The marketplace's fee stands inside the fees in some
/// files and beside them in others.
fn check(row: &Row<'_>, currency: Currency, amount: i64, entry: &mut Entry<'_>) -> Result<(), Fault> {
    if !row.text(NET_CURRENCY).is_empty() && row.currency(NET_CURRENCY)? != currency {
        return Ok(());
    }
    let minor = |column| row.amount(column, currency).map(|minor| i128::from(minor.unwrap_or(0)));
    let Some(net) = row.amount(NET, currency)? else {
        return Ok(());
    };
    let found = i128::from(amount) + minor(FEE)? + minor(TAXES)?;
    let net = i128::from(net);
    if found != net && found + minor(MARKETPLACE_FEE)? != net {
        flag(entry, "amount, fees and taxes do not add up to the net: cells may have shifted");
    }
    Ok(())
}
