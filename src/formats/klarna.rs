//! Klarna, settlement report: a summary of the payout, then its transactions, each section with titles of its own.
//!
//! docs.klarna.com/payments/after-payments/settlements/settlement-files. The rows must add up to the summary's total, or the
//! report is refused; where amounts are printed without signs, it is this sum that shows it, and the documented signs of
//! the types are used. `order_id` names the sale; an order can be captured in parts, each a sale of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::{Currency, NumberStyle, format_minor, parse_minor};

use super::Format;
use super::error::ReportError;
use super::records::{Record, Records};
use super::report::Part;
use super::row::{Emit, Fault, Row, Rules, flag, outward, word};
use super::scan::{cut, emit_preamble, is_title_line, read_record, with_row};
use super::survey::Survey;
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder, key, needed, normalise, optional, useful};
use super::when;

const TYPE: usize = 0;
const CAPTURED: usize = 1;
const SOLD: usize = 2;
const ORDER: usize = 3;
const CAPTURE: usize = 4;
const REFERENCE: usize = 5;
const AMOUNT: usize = 6;
const CURRENCY: usize = 7;
const REFUND: usize = 8;
const DETAIL: usize = 9;
const REFUND_REFERENCE: usize = 10;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::Klarna,
    name: "klarna-settlement",
    provider: "klarna",
    dated_by: DatedBy::Settled,
    columns: &[
        key(TYPE, &["type"]),
        key(CAPTURED, &["capture_date", "sale_date"]),
        optional(SOLD, &["sale_date"]),
        key(ORDER, &["order_id"]),
        optional(CAPTURE, &["capture_id"]),
        useful(REFERENCE, &["merchant_reference1"]),
        key(AMOUNT, &["amount"]),
        needed(CURRENCY, &["posting_currency", "currency"]),
        useful(REFUND, &["refund_id"]),
        optional(DETAIL, &["detailed_type"]),
        optional(REFUND_REFERENCE, &["merchant_refund_reference"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "add them to the settlement report in the merchant portal",
    read_row,
    extra: Extra { scan, ..PLAIN },
};

/// Which way the money of a type goes, by its documentation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
    /// As printed.
    Either,
}

const TYPES: &[(&str, (EntryKind, Way))] = &[
    ("SALE", (EntryKind::Charge, Way::In)),
    ("FEE", (EntryKind::Fee, Way::Out)),
    ("FEE_REFUND", (EntryKind::Fee, Way::In)),
    ("COMMISSION", (EntryKind::Fee, Way::In)),
    ("RETURN", (EntryKind::Refund, Way::Out)),
    ("REVERSAL", (EntryKind::Chargeback, Way::Out)),
    ("REVERSAL_MERCHANT_PROTECTION", (EntryKind::ChargebackReversal, Way::In)),
    ("CORRECTION", (EntryKind::Adjustment, Way::Either)),
    ("HOLDBACK", (EntryKind::Hold, Way::Out)),
    ("RELEASE", (EntryKind::HoldRelease, Way::In)),
    ("CREDIT", (EntryKind::Adjustment, Way::In)),
    ("CHARGE", (EntryKind::Adjustment, Way::Out)),
];

/// The amount of a row by the documented sign of its type.
fn by_type(way: Way, printed: i64) -> i64 {
    match way {
        Way::In => outward(printed).checked_neg().unwrap_or(i64::MAX),
        Way::Out => outward(printed),
        Way::Either => printed,
    }
}

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let currency = row.currency(CURRENCY)?;
    let printed = row.needed_amount(AMOUNT, currency)?;
    let type_raw = row.text(TYPE);
    let known = word(TYPES, type_raw);
    let (kind, way) = known.unwrap_or((EntryKind::Unknown, Way::Either));
    // A commission that is taken back is filed under the reversals.
    let commission = row.text(DETAIL).eq_ignore_ascii_case("COMMISSION_RETURN");
    let kind = if kind == EntryKind::Chargeback && commission { EntryKind::Fee } else { kind };
    let signs_as_printed = row.rules.survey.signs_as_printed;
    let minor = if signs_as_printed { printed } else { by_type(way, printed) };
    let mut entry = row.entry(kind, Status::Succeeded, currency, Some(minor));
    if known.is_none() {
        flag(&mut entry, format!("unknown type {type_raw:?}"));
    }
    if signs_as_printed && minor != by_type(way, minor) {
        flag(&mut entry, "the sign is not that of the type; the report's total needs it as it is printed");
    }
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    let order = row.id(ORDER)?;
    if kind == EntryKind::Charge {
        entry.provider_id = order;
        entry.capture_id = row.id(CAPTURE)?;
    } else {
        entry.parent_id = order;
        entry.provider_id = row.id(REFUND)?;
    }
    entry.reference = row.merchant_reference()?;
    let column = if row.text(CAPTURED).is_empty() { SOLD } else { CAPTURED };
    row.time(column, when::utc).put(&mut entry);
    emit.entry(row, entry);
    Ok(())
}

/// What a record of the file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    SummaryTitles,
    Summary,
    Titles,
    Transaction,
}

/// Tells the records of the two sections apart, and where a summary's columns are.
#[derive(Default)]
struct Sections {
    in_summary: bool,
    /// Cells of the total and of its currency in the summary.
    total: Option<(usize, Option<usize>)>,
}

impl Sections {
    fn of(&mut self, part: &Part, record: &Record<'_>) -> Section {
        if is_title_line(record, &part.plan.titles) {
            self.in_summary = false;
            return Section::Titles;
        }
        let cells = record.texts();
        let place = |title: &str| cells.iter().position(|cell| normalise(cell) == title);
        if let Some(total) = place("total_settlement_amount") {
            (self.in_summary, self.total) = (true, Some((total, place("settlement_currency"))));
            return Section::SummaryTitles;
        }
        if self.in_summary { Section::Summary } else { Section::Transaction }
    }
}

/// Sums of a file by currency: as the summaries state them, as the rows print them, and by the signs of their types.
#[derive(Default)]
struct Sums {
    stated: BTreeMap<Currency, i128>,
    printed: BTreeMap<Currency, i128>,
    by_type: BTreeMap<Currency, i128>,
    unreadable: bool,
}

fn scan(layout: &Layout, part: &Part, emit: &mut Emit<'_>) -> Result<(), ReportError> {
    // Before a row is handed over: whether the report is whole, and which signs its amounts have.
    let sums = sums(layout, part)?;
    let signs_as_printed = agree(&part.source.name, &sums, emit)?;
    let survey = Arc::new(Survey { signs_as_printed, ..Survey::default() });
    let rules = Rules { survey, ..part.rules.clone() };

    let mut records = Records::new(&part.source.name, part.text(), part.plan.delimiter);
    let (mut sections, mut next_line) = (Sections::default(), 1);
    while let Some(record) = records.next()? {
        emit_preamble(next_line..record.line, emit);
        next_line = record.next_line;
        let line = record.line;
        match sections.of(part, &record) {
            Section::SummaryTitles => emit.ignored(line, "summary section header"),
            Section::Summary => emit.ignored(line, "summary section: totals of a payout"),
            Section::Titles => emit.ignored(line, "transactions section header"),
            Section::Transaction => {
                if !record.ended && record.len() < part.plan.named_width && !record.is_blank() {
                    return Err(cut(part, &record));
                }
                read_record(layout, part, &rules, record, emit);
            }
        }
        if emit.stopped {
            break;
        }
    }
    Ok(())
}

fn sums(layout: &Layout, part: &Part) -> Result<Sums, ReportError> {
    let mut sums = Sums::default();
    let mut records = Records::new(&part.source.name, part.text(), part.plan.delimiter);
    let mut sections = Sections::default();
    while let Some(record) = records.next()? {
        match sections.of(part, &record) {
            Section::SummaryTitles | Section::Titles => {}
            Section::Summary => {
                sums.unreadable |= state(part, &sections, &record, &mut sums.stated).is_none();
            }
            Section::Transaction => {
                let read = with_row(layout, part, &part.rules, record, &mut |row| {
                    let currency = row.currency(CURRENCY)?;
                    let printed = row.needed_amount(AMOUNT, currency)?;
                    let way = word(TYPES, row.text(TYPE)).map_or(Way::Either, |(_, way)| way);
                    *sums.printed.entry(currency).or_default() += i128::from(printed);
                    *sums.by_type.entry(currency).or_default() += i128::from(by_type(way, printed));
                    Ok(())
                });
                sums.unreadable |= read.is_err();
            }
        }
    }
    Ok(sums)
}

/// Adds a summary's total. `None` when it cannot be read.
fn state(part: &Part, sections: &Sections, record: &Record<'_>, stated: &mut BTreeMap<Currency, i128>) -> Option<()> {
    let cells = record.texts();
    let (total, currency) = sections.total?;
    let currency = Currency::parse(cells.get(currency?)?)?;
    let total = parse_minor(cells.get(total)?, currency.exponent(), part.rules.number).ok()?;
    *stated.entry(currency).or_default() += i128::from(total);
    Some(())
}

/// Whether the signs are those that are printed; otherwise they are those of the types.
fn agree(name: &str, sums: &Sums, emit: &mut Emit<'_>) -> Result<bool, ReportError> {
    if sums.stated.is_empty() {
        emit.late.push(format!("{name} has no summary: whether all transactions of the payout are there is not known"));
        return Ok(false);
    }
    let equal = |found: &BTreeMap<Currency, i128>| {
        let of = |sums: &BTreeMap<Currency, i128>, currency: &Currency| sums.get(currency).copied().unwrap_or(0);
        sums.stated.keys().chain(found.keys()).all(|currency| of(&sums.stated, currency) == of(found, currency))
    };
    if equal(&sums.by_type) {
        return Ok(false);
    }
    if equal(&sums.printed) {
        return Ok(true);
    }
    if sums.unreadable {
        emit.late.push(format!("{name}: a record cannot be read, so the summary's total proves nothing"));
        return Ok(false);
    }
    let shown = |sums: &BTreeMap<Currency, i128>| {
        let sums: Vec<String> = sums
            .iter()
            .map(|(currency, sum)| format!("{currency} {}", format_minor(*sum, currency.exponent())))
            .collect();
        sums.join(", ")
    };
    Err(ReportError::Trailer {
        name: name.to_owned(),
        line: 1,
        reason: format!(
            "the summary states a settlement of {}, the transactions come to {}",
            shown(&sums.stated),
            shown(&sums.by_type)
        ),
    })
}
