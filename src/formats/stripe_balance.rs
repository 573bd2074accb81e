//! Stripe, itemised balance reports: balance change from activity, and payout reconciliation.
//!
//! docs.stripe.com/reports/report-types/balance-change-from-activity and .../payout-reconciliation. One row a balance
//! transaction; `gross` is in the settlement currency, what the customer paid is in `customer_facing_...`.

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::{Currency, NumberStyle};

use super::Format;
use super::row::{Emit, Fault, Row, flag, word};
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const ID: usize = 0;
const SOURCE: usize = 1;
const CHARGE: usize = 2;
const CATEGORY: usize = 3;
const CURRENCY: usize = 4;
const GROSS: usize = 5;
const FEE: usize = 6;
const NET: usize = 7;
const CREATED_UTC: usize = 8;
const CREATED: usize = 9;
const CUSTOMER_AMOUNT: usize = 10;
const CUSTOMER_CURRENCY: usize = 11;
const TRACE_STATUS: usize = 12;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::StripeBalance,
    name: "stripe-balance",
    provider: "stripe",
    dated_by: DatedBy::Created,
    columns: &[
        key(ID, &["balance_transaction_id"]),
        needed(SOURCE, &["source_id"]),
        useful(CHARGE, &["charge_id"]),
        key(CATEGORY, &["reporting_category"]),
        needed(CURRENCY, &["currency"]),
        key(GROSS, &["gross"]),
        optional(FEE, &["fee"]),
        key(NET, &["net"]),
        useful(CREATED_UTC, &["created_utc"]),
        optional(CREATED, &["created"]),
        useful(CUSTOMER_AMOUNT, &["customer_facing_amount"]),
        useful(CUSTOMER_CURRENCY, &["customer_facing_currency"]),
        optional(TRACE_STATUS, &["trace_id_status", "trace_id"]),
    ],
    // The report can be run with a decimal comma, and nothing in the file says so.
    number: NumberStyle { mark: None, grouping: false },
    reference: ReferenceOrder::Metadata { before: "payment_metadata[", after: "]", then: &[] },
    missing_hint: "the default columns of this report cannot be matched: run it again with source_id, charge_id, \
                   created_utc, customer_facing_amount, customer_facing_currency and the payment metadata that holds \
                   your reference",
    read_row,
    // Only payout reconciliation has the trace: its rows belong to a payout, days after the payments.
    extra: Extra { settled_if: &[TRACE_STATUS], ..PLAIN },
};

const CATEGORIES: &[(&str, EntryKind)] = &[
    ("charge", EntryKind::Charge),
    ("payment", EntryKind::Charge),
    ("refund", EntryKind::Refund),
    ("refund_failure", EntryKind::RefundReversal),
    ("charge_failure", EntryKind::ChargeReversal),
    ("partial_capture_reversal", EntryKind::ChargeReversal),
    ("dispute", EntryKind::Chargeback),
    ("dispute_reversal", EntryKind::ChargebackReversal),
    ("fee", EntryKind::Fee),
    ("network_cost", EntryKind::Fee),
    ("tax", EntryKind::Fee),
    ("payout", EntryKind::Payout),
    ("payout_reversal", EntryKind::PayoutReversal),
    ("payout_minimum_balance_hold", EntryKind::Hold),
    ("payout_minimum_balance_release", EntryKind::HoldRelease),
    ("transfer", EntryKind::Transfer),
    ("transfer_reversal", EntryKind::Transfer),
    ("topup", EntryKind::Transfer),
    ("topup_reversal", EntryKind::Transfer),
    ("contribution", EntryKind::Transfer),
    ("connect_collection_transfer", EntryKind::Transfer),
    ("platform_earning", EntryKind::Transfer),
    ("platform_earning_refund", EntryKind::Transfer),
    ("connect_reserved_funds", EntryKind::Reserve),
    ("risk_reserved_funds", EntryKind::Reserve),
    ("currency_conversion", EntryKind::Conversion),
    ("adjustment", EntryKind::Adjustment),
    ("other_adjustment", EntryKind::Adjustment),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let gross = row.needed_amount(GROSS, currency)?;
    let category = row.text(CATEGORY);
    let known = word(CATEGORIES, category);
    let kind = known.unwrap_or(EntryKind::Unknown);

    let mut entry = row.entry(kind, Status::Succeeded, currency, Some(gross));
    entry.entry_id = row.id(ID)?;
    entry.provider_id = row.id(SOURCE)?;
    entry.reference = row.merchant_reference()?;
    if kind != EntryKind::Charge {
        entry.parent_id = row.id(CHARGE)?;
    }
    if row.text(CREATED_UTC).is_empty() {
        // `created` is in the zone that the report was run with, which the file does not say.
        row.time(CREATED, when::local).put(&mut entry);
    } else {
        row.time(CREATED_UTC, when::utc).put(&mut entry);
    }
    if known.is_none() {
        flag(&mut entry, format!("unknown reporting_category {category:?}"));
    }
    customer_side(row, CUSTOMER_AMOUNT, CUSTOMER_CURRENCY, &mut entry)?;
    check_net(row, [GROSS, FEE, NET], currency, &mut entry)?;
    emit.entry(row, entry);
    Ok(())
}

/// What the customer paid, where that is another currency than the settlement's.
pub(super) fn customer_side(row: &Row<'_>, amount: usize, currency: usize, entry: &mut Entry<'_>) -> Result<(), Fault> {
    if row.text(amount).is_empty() || row.text(currency).is_empty() {
        return Ok(());
    }
    let customer = row.currency(currency)?;
    if customer != entry.currency {
        entry.presentment_minor = row.amount(amount, customer)?;
        entry.presentment_currency = Some(customer);
    }
    Ok(())
}

/// The row's own arithmetic: net = gross - fee. A row where it fails has shifted cells or a wrong decimal mark.
pub(super) fn check_net(
    row: &Row<'_>,
    [gross, fee, net]: [usize; 3],
    currency: Currency,
    entry: &mut Entry<'_>,
) -> Result<(), Fault> {
    let (gross, fee, net) = (row.amount(gross, currency)?, row.amount(fee, currency)?, row.amount(net, currency)?);
    if let (Some(gross), Some(fee), Some(net)) = (gross, fee, net)
        && i128::from(gross) - i128::from(fee) != i128::from(net)
    {
        flag(entry, "gross less fee is not net");
    }
    Ok(())
}
