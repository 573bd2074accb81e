//! Square, transactions export: one row a payment, amounts with a currency's symbol and no currency column.
//!
//! Read from exported files. What the customer paid is `Total Collected`: sales, tax and tip, over all tenders. A refund
//! is a row of its own with a negative total.

use std::borrow::Cow;

use crate::config::settings::DateOrder;
use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::{Currency, DecimalMark, NumberStyle};

use super::Format;
use super::row::{Emit, Fault, Row, flag, word};
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const DATE: usize = 0;
const TIME: usize = 1;
const ZONE: usize = 2;
const COLLECTED: usize = 3;
const FEES: usize = 4;
const NET: usize = 5;
const ORDER: usize = 6;
const PAYMENT: usize = 7;
const EVENT: usize = 8;
const PAN_SUFFIX: usize = 9;
const STATUS: usize = 10;
const ORDER_REFERENCE: usize = 11;
const CUSTOMER_REFERENCE: usize = 12;
const CURRENCY: usize = 13;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::Square,
    name: "square",
    provider: "square",
    dated_by: DatedBy::Created,
    columns: &[
        needed(DATE, &["date"]),
        needed(TIME, &["time"]),
        useful(ZONE, &["time zone", "timezone"]),
        key(COLLECTED, &["total collected"]),
        optional(FEES, &["fees"]),
        optional(NET, &["net total"]),
        optional(ORDER, &["transaction id"]),
        key(PAYMENT, &["payment id"]),
        needed(EVENT, &["event type"]),
        key(PAN_SUFFIX, &["pan suffix"]),
        optional(STATUS, &["transaction status"]),
        useful(ORDER_REFERENCE, &["order reference id"]),
        optional(CUSTOMER_REFERENCE, &["customer reference id"]),
        // Never seen: a place for the stated currency to stand in for.
        optional(CURRENCY, &["currency"]),
    ],
    number: NumberStyle { mark: Some(DecimalMark::Point), grouping: true },
    reference: ReferenceOrder::Columns(&[ORDER_REFERENCE, CUSTOMER_REFERENCE]),
    missing_hint: "export the transactions again, with all columns",
    read_row,
    extra: Extra { no_currency: true, ..PLAIN },
};

const EVENTS: &[(&str, EntryKind)] = &[("Payment", EntryKind::Charge), ("Refund", EntryKind::Refund)];

const STATES: &[(&str, Status)] = &[
    ("Complete", Status::Succeeded),
    ("Completed", Status::Succeeded),
    ("Approved", Status::Authorized),
    ("Pending", Status::Pending),
    ("Failed", Status::Failed),
    ("Declined", Status::Failed),
    ("Canceled", Status::Canceled),
    ("Voided", Status::Canceled),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let collected = money(row, COLLECTED, currency)?.ok_or_else(|| row.fault(COLLECTED, "blank amount"))?;
    let event = row.text(EVENT);
    let known = word(EVENTS, event);
    let kind = known.unwrap_or(EntryKind::Unknown);
    let state = row.text(STATUS);
    let status = if state.is_empty() { Some(Status::Succeeded) } else { word(STATES, state) };
    let mut entry = row.entry(kind, status.unwrap_or(Status::Pending), currency, Some(collected));
    if known.is_none() {
        flag(&mut entry, format!("unknown event type {event:?}"));
    }
    if status.is_none() {
        flag(&mut entry, format!("unknown transaction status {state:?}"));
    }
    if status != Some(Status::Succeeded) {
        entry.status_raw = Some(Cow::Borrowed(state));
    }
    if kind == EntryKind::Refund && collected > 0 {
        entry.amount_minor = collected.checked_neg();
        flag(&mut entry, "a refund without a minus sign; the event type was followed");
    }
    if kind == EntryKind::Charge && collected < 0 {
        flag(&mut entry, "a payment with a minus sign");
    }
    entry.provider_id = row.id(PAYMENT)?;
    entry.order_id = row.id(ORDER)?;
    entry.reference = row.merchant_reference()?;
    let (date, clock) = (row.text(DATE), row.text(TIME));
    let order = row.rules.date_order.unwrap_or(DateOrder::MonthFirst);
    let day = when::account_date(date, Some(order));
    let local = day.and_then(|day| when::time_on_a_clock(clock).map(|time| day.and_time(time)));
    when::labelled(date, local, row.text(ZONE), row.rules.timezone).put(&mut entry);
    if entry.time_raw.is_some() {
        entry.time_raw = Some(Cow::Owned(format!("{date} {clock}")));
    }
    if let (Some(fees), Some(net)) = (money(row, FEES, currency)?, money(row, NET, currency)?)
        && i128::from(collected) + i128::from(fees) != i128::from(net)
    {
        flag(&mut entry, "total collected and fees do not add up to the net total");
    }
    emit.entry(row, entry);
    Ok(())
}

/// Which currencies a symbol may stand for; a dollar sign alone says little.
const SYMBOLS: &[(&str, &[&str])] = &[
    ("$", &["USD", "CAD", "AUD", "NZD", "HKD", "SGD", "MXN"]),
    ("CA$", &["CAD"]),
    ("A$", &["AUD"]),
    ("US$", &["USD"]),
    ("£", &["GBP"]),
    ("€", &["EUR"]),
    ("¥", &["JPY"]),
    ("￥", &["JPY"]),
];

/// `-$1,234.00`: the sign, perhaps the symbol, the number. The symbol must not contradict the stated currency.
fn money(row: &Row<'_>, column: usize, currency: Currency) -> Result<Option<i64>, Fault> {
    let text = row.text(column);
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let number_at = rest.find(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | ',')).unwrap_or(rest.len());
    let symbol = rest[..number_at].trim();
    if !symbol.is_empty() {
        let Some((_, currencies)) = SYMBOLS.iter().find(|(known, _)| *known == symbol) else {
            return Err(row.fault(column, "unknown currency symbol"));
        };
        if !currencies.contains(&currency.as_str()) {
            return Err(row.fault(column, format!("the symbol is not that of the stated currency {currency}")));
        }
    }
    let minor = row.amount_of(column, &rest[number_at..], currency)?;
    match minor {
        Some(minor) if negative && minor < 0 => Err(row.fault(column, "two signs")),
        Some(minor) if negative => Ok(minor.checked_neg()),
        minor => Ok(minor),
    }
}
