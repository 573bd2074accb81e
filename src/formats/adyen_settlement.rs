//! Adyen, settlement detail report, in its classic and its wide layout.
//!
//! docs.adyen.com/reporting/settlement-reconciliation/transaction-level/settlement-details-report. Amounts are unsigned:
//! the type gives the direction of a payment's rows, the column that of account rows. The published wide sample has
//! settled gross in the debit column, so the gross is taken from whichever column is filled and the contradiction is
//! flagged.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::{Currency, NumberStyle};

use super::Format;
use super::rate::converts;
use super::row::{Emit, Fault, Row, flag, word};
use super::titles::{Layout, PLAIN, ReferenceOrder, key, needed, optional};
use super::when::{self, When};

const PSP: usize = 0;
const REFERENCE: usize = 1;
const CREATED: usize = 2;
const ZONE: usize = 3;
const TYPE: usize = 4;
const MODIFICATION: usize = 5;
const GROSS_CURRENCY: usize = 6;
const GROSS_DEBIT: usize = 7;
const GROSS_CREDIT: usize = 8;
const NET_CURRENCY: usize = 9;
const NET_DEBIT: usize = 10;
const NET_CREDIT: usize = 11;
const MODIFICATION_REFERENCE: usize = 12;
const BATCH: usize = 13;
const RATE: usize = 14;
const COMMISSION: usize = 15;
const MARKUP: usize = 16;
const SCHEME: usize = 17;
const INTERCHANGE: usize = 18;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::AdyenSettlement,
    name: "adyen-settlement",
    provider: "adyen",
    dated_by: DatedBy::Settled,
    columns: &[
        key(PSP, &["psp reference"]),
        needed(REFERENCE, &["merchant reference"]),
        needed(CREATED, &["creation date"]),
        needed(ZONE, &["timezone", "time zone"]),
        needed(TYPE, &["type"]),
        needed(MODIFICATION, &["modification reference"]),
        needed(GROSS_CURRENCY, &["gross currency"]),
        key(GROSS_DEBIT, &["gross debit (gc)"]),
        key(GROSS_CREDIT, &["gross credit (gc)"]),
        key(NET_CURRENCY, &["net currency"]),
        needed(NET_DEBIT, &["net debit (nc)"]),
        needed(NET_CREDIT, &["net credit (nc)"]),
        optional(MODIFICATION_REFERENCE, &["modification merchant reference"]),
        optional(BATCH, &["batch number"]),
        optional(RATE, &["exchange rate"]),
        optional(COMMISSION, &["commission (nc)"]),
        optional(MARKUP, &["markup (nc)"]),
        optional(SCHEME, &["scheme fees (nc)"]),
        optional(INTERCHANGE, &["interchange (nc)"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "add them to the report in the Customer Area",
    read_row,
    extra: PLAIN,
};

/// Which way the money of a type goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
    /// As the column says: rows of the account, not of a payment.
    Column,
}

const TYPES: &[(&str, (EntryKind, Way))] = &[
    ("Settled", (EntryKind::Charge, Way::In)),
    ("SettledExternally", (EntryKind::Charge, Way::In)),
    ("SettledReversed", (EntryKind::ChargeReversal, Way::Out)),
    ("SettledReversedExternally", (EntryKind::ChargeReversal, Way::Out)),
    ("Refunded", (EntryKind::Refund, Way::Out)),
    ("RefundedExternally", (EntryKind::Refund, Way::Out)),
    ("RefundedReversed", (EntryKind::RefundReversal, Way::In)),
    ("RefundedReversedExternally", (EntryKind::RefundReversal, Way::In)),
    ("Chargeback", (EntryKind::Chargeback, Way::Out)),
    ("ChargebackExternally", (EntryKind::Chargeback, Way::Out)),
    ("SecondChargeback", (EntryKind::Chargeback, Way::Out)),
    ("SecondChargebackExternally", (EntryKind::Chargeback, Way::Out)),
    ("ChargebackReversed", (EntryKind::ChargebackReversal, Way::In)),
    ("ChargebackReversedExternally", (EntryKind::ChargebackReversal, Way::In)),
    ("Fee", (EntryKind::Fee, Way::Column)),
    ("MiscCosts", (EntryKind::Fee, Way::Column)),
    ("PaymentCost", (EntryKind::Fee, Way::Column)),
    ("InvoiceDeduction", (EntryKind::Fee, Way::Column)),
    ("MerchantPayout", (EntryKind::Payout, Way::Column)),
    ("MerchantPayoutReversed", (EntryKind::PayoutReversal, Way::Column)),
    ("PaidOut", (EntryKind::Payout, Way::Column)),
    ("PaidOutReversed", (EntryKind::PayoutReversal, Way::Column)),
    ("BankInstructionReturned", (EntryKind::PayoutReversal, Way::Column)),
    ("Balancetransfer", (EntryKind::Transfer, Way::Column)),
    ("InternalCompanyPayout", (EntryKind::Transfer, Way::Column)),
    ("DepositCorrection", (EntryKind::Reserve, Way::Column)),
    ("ReserveAdjustment", (EntryKind::Reserve, Way::Column)),
    ("ManualCorrected", (EntryKind::Adjustment, Way::Column)),
];

/// The shop's own reference of a modification.
pub(super) fn own_reference<'a>(row: &Row<'a>, column: usize) -> Result<Option<Cow<'a, str>>, Fault> {
    Ok(row.id(column)?.filter(|reference| reference != NO_REFERENCE))
}

/// A time and the abbreviation of its zone, which changes with summer time.
pub(super) fn time<'a>(row: &Row<'a>, column: usize, zone: usize) -> When<'a> {
    let text = row.text(column);
    let local = when::iso(text).filter(|(_, rest)| rest.is_empty()).map(|(local, _)| local);
    when::labelled(text, local, row.text(zone), row.rules.timezone)
}

/// What stands in for a modification that the shop has given no reference.
const NO_REFERENCE: &str = "<auto>";

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let type_raw = row.text(TYPE);
    let known = word(TYPES, type_raw);
    let (kind, way) = known.unwrap_or((EntryKind::Unknown, Way::Column));
    let psp = row.id(PSP)?;
    let net = net(row)?;

    let mut entry = match (sides(row, GROSS_CURRENCY, [GROSS_DEBIT, GROSS_CREDIT])?, net) {
        (Some(gross), _) => gross_entry(row, kind, way, &gross),
        // Rows of the account have a net only.
        (None, Some((currency, minor))) if way == Way::Column => {
            row.entry(kind, Status::Succeeded, currency, Some(minor))
        }
        (None, _) => return Err(row.fault(GROSS_CREDIT, "neither gross debit nor gross credit is filled")),
    };
    if known.is_none() {
        flag(&mut entry, format!("unknown type {type_raw:?}"));
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    entry.reference = row.merchant_reference()?;
    match psp {
        Some(psp) if kind == EntryKind::Charge => entry.provider_id = Some(psp),
        Some(psp) => {
            entry.provider_id = row.id(MODIFICATION)?;
            entry.parent_id = Some(psp);
            entry.modification_reference = own_reference(row, MODIFICATION_REFERENCE)?;
        }
        // The modification reference of an account row is free text.
        None => {}
    }
    time(row, CREATED, ZONE).put(&mut entry);

    if let Some((currency, minor)) = net {
        if way != Way::Column && nets_out(row, &entry, (currency, minor)) == Some(false) {
            emit.remark("net is not gross x exchange rate less the fees", row.record.line);
        }
        emit.add_to_batch(row.text(BATCH), currency, minor);
    }
    emit.entry(row, entry);
    Ok(())
}

/// Whether gross x rate less the fees is the net, within a minor unit; `None` where the row does not say.
fn nets_out(row: &Row<'_>, entry: &Entry<'_>, (currency, net): (Currency, i64)) -> Option<bool> {
    // The columns are the account's choice: without all of them nothing can be said.
    if ![COMMISSION, MARKUP, SCHEME, INTERCHANGE, RATE].iter().all(|&column| row.has(column)) {
        return None;
    }
    let mut fees = 0_i64;
    for column in [COMMISSION, MARKUP, SCHEME, INTERCHANGE] {
        fees = fees.checked_add(row.amount(column, currency).ok()?.unwrap_or(0))?;
    }
    let rate = row.text(RATE);
    let rate = if rate.is_empty() { "1" } else { rate };
    converts((entry.amount_minor?, entry.currency), rate, (net.checked_add(fees)?, currency))
}

/// An unsigned amount and the column that it stands in.
struct Sides {
    currency: Currency,
    debit: Option<i64>,
    credit: Option<i64>,
}

/// The two columns of an amount; `None` when both are blank.
fn sides(row: &Row<'_>, currency: usize, [debit, credit]: [usize; 2]) -> Result<Option<Sides>, Fault> {
    if row.text(debit).is_empty() && row.text(credit).is_empty() {
        return Ok(None);
    }
    let currency = row.currency(currency)?;
    let (debit, credit) = (row.amount(debit, currency)?, row.amount(credit, currency)?);
    Ok(Some(Sides { currency, debit, credit }))
}

/// Net credit less net debit.
fn net(row: &Row<'_>) -> Result<Option<(Currency, i64)>, Fault> {
    let Some(net) = sides(row, NET_CURRENCY, [NET_DEBIT, NET_CREDIT])? else {
        return Ok(None);
    };
    let minor = net.credit.unwrap_or(0).checked_sub(net.debit.unwrap_or(0));
    minor.map(|m| Some((net.currency, m))).ok_or_else(|| row.fault(NET_CREDIT, "amount out of range"))
}

fn gross_entry<'a>(row: &Row<'a>, kind: EntryKind, way: Way, gross: &Sides) -> Entry<'a> {
    let signed = |minor: Option<i64>| row.entry(kind, Status::Succeeded, gross.currency, minor);
    // A zero beside the amount says nothing.
    let filled = |side: Option<i64>| side.filter(|&minor| minor != 0);
    let (size, in_credit) = match (filled(gross.debit), filled(gross.credit)) {
        (Some(debit), None) => (debit, false),
        (None, Some(credit)) => (credit, true),
        (None, None) => (0, way != Way::Out),
        (Some(_), Some(_)) => {
            let mut entry = signed(None);
            flag(&mut entry, "gross debit and gross credit are both filled");
            return entry;
        }
    };
    match way {
        Way::Column => signed(if in_credit { Some(size) } else { size.checked_neg() }),
        Way::In | Way::Out => {
            let money_in = way == Way::In;
            let mut entry = signed(if money_in { Some(size) } else { size.checked_neg() });
            if in_credit != money_in {
                flag(&mut entry, "the gross stands in the column of the other direction; the type was followed");
            }
            entry
        }
    }
}
