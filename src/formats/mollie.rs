//! Mollie, settlement or payments export, in English and Dutch: payments, refunds and chargebacks as rows of their own.
//!
//! docs.mollie.com/docs/settlement-report. Ids tell the kind. `Amount refunded` repeats refunds that have rows: it is
//! never counted. Rows without an id are the provider's fees, of which only the settlement amount is printed. There is no
//! reference column: `Description` is free text. Times have no zone.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::{DecimalMark, NumberStyle};

use super::Format;
use super::row::{Emit, Fault, Row, flag, outward, word};
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder, key, needed, optional};
use super::when;

const DATE: usize = 0;
const METHOD: usize = 1;
const CURRENCY: usize = 2;
const AMOUNT: usize = 3;
const STATUS: usize = 4;
const ID: usize = 5;
const DESCRIPTION: usize = 6;
const SETTLED_CURRENCY: usize = 7;
const SETTLED: usize = 8;
const REFUNDED: usize = 9;
const MARK: usize = 10;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::Mollie,
    name: "mollie",
    provider: "mollie",
    dated_by: DatedBy::Created,
    columns: &[
        needed(DATE, &["date", "datum"]),
        key(METHOD, &["payment method", "betaalmethode"]),
        needed(CURRENCY, &["currency", "valuta"]),
        needed(AMOUNT, &["amount", "bedrag"]),
        needed(STATUS, &["status"]),
        key(ID, &["id"]),
        optional(DESCRIPTION, &["description", "omschrijving"]),
        optional(SETTLED_CURRENCY, &["settlement currency", "uitbetalingsvaluta"]),
        optional(SETTLED, &["settlement amount", "uitbetalingsbedrag"]),
        optional(REFUNDED, &["amount refunded", "teruggestort bedrag"]),
        // Any of them tells the export from a shop's own list of payments.
        key(
            MARK,
            &[
                "consumer name",
                "naam consument",
                "settlement reference",
                "uitbetalingsreferentie",
                "amount refunded",
                "teruggestort bedrag",
            ],
        ),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[DESCRIPTION]),
    missing_hint: "export the payments or the settlement with all columns",
    read_row,
    extra: Extra { number_of: Some(number_of), ..PLAIN },
};

/// Dutch files have a decimal comma and no grouping, so that `1.000` in them is in doubt and refused.
fn number_of(titles: &[String]) -> NumberStyle {
    let dutch = titles.iter().any(|title| title == "bedrag");
    let mark = if dutch { DecimalMark::Comma } else { DecimalMark::Point };
    NumberStyle { mark: Some(mark), grouping: false }
}

const STATUSES: &[(&str, Status)] = &[
    ("paidout", Status::Succeeded),
    ("paid", Status::Succeeded),
    ("refunded", Status::Succeeded),
    ("charged_back", Status::Succeeded),
    ("open", Status::Pending),
    ("pending", Status::Pending),
    ("queued", Status::Pending),
    ("processing", Status::Pending),
    ("authorized", Status::Authorized),
    ("failed", Status::Failed),
    ("expired", Status::Failed),
    ("canceled", Status::Canceled),
    ("cancelled", Status::Canceled),
];

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let Some(id) = row.id(ID)? else {
        return fee(row, emit);
    };
    let currency = row.currency(CURRENCY)?;
    let amount = row.needed_amount(AMOUNT, currency)?;
    let status_raw = row.text(STATUS);
    let known = word(STATUSES, status_raw);
    let status = known.unwrap_or(Status::Pending);
    let kind = match id.split_once('_').map(|(prefix, _)| prefix) {
        Some("tr") if status == Status::Authorized => EntryKind::Authorization,
        Some("tr") => EntryKind::Charge,
        Some("re") => EntryKind::Refund,
        Some("chb") if amount > 0 => EntryKind::ChargebackReversal,
        Some("chb") => EntryKind::Chargeback,
        _ => EntryKind::Unknown,
    };
    let minor = if kind == EntryKind::Refund { outward(amount) } else { amount };
    let mut entry = row.entry(kind, status, currency, Some(minor));
    match kind {
        EntryKind::Unknown => flag(&mut entry, "an id of unknown kind"),
        EntryKind::Charge if amount < 0 => flag(&mut entry, "a payment with a minus sign"),
        EntryKind::Charge if status_raw.eq_ignore_ascii_case("charged_back") => {
            flag(&mut entry, "charged back: whether the chargeback has a row of its own is not certain");
        }
        _ => {}
    }
    if known.is_none() {
        flag(&mut entry, format!("unknown status {status_raw:?}"));
    }
    entry.provider_id = Some(id);
    entry.reference = row.merchant_reference()?;
    entry.status_raw = (!status_raw.is_empty()).then_some(Cow::Borrowed(status_raw));
    entry.refunded_minor = row.amount(REFUNDED, currency)?.filter(|&refunded| refunded != 0);
    row.time(DATE, when::local).put(&mut entry);
    emit.entry(row, entry);
    Ok(())
}

/// A row of the account. Its description is no payment's.
fn fee(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    if !row.text(AMOUNT).is_empty() {
        return Err(row.fault(ID, "blank id on a row with an amount: a total, or a damaged row"));
    }
    let currency =
        if row.text(SETTLED_CURRENCY).is_empty() { row.currency(CURRENCY)? } else { row.currency(SETTLED_CURRENCY)? };
    let amount = row.needed_amount(SETTLED, currency)?;
    let mut entry = row.entry(EntryKind::Fee, Status::Succeeded, currency, Some(amount));
    row.time(DATE, when::local).put(&mut entry);
    emit.entry(row, entry);
    Ok(())
}
