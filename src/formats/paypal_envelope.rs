//! The envelope of PayPal's SFTP reports: records begin with their type, and footers count and sum them.
//!
//! developer.paypal.com/docs/reports/sftp-reports. Amounts are unsigned hundredths of the major unit for every currency,
//! the yen too; CR and DR give the direction. A file without its last footer is cut off. What a report's own columns
//! mean is said in its own file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::domain::entry::{Entry, EntryKind, Status};
use crate::domain::money::Currency;

use super::Format;
use super::error::ReportError;
use super::paypal_codes::{Direction, kind_of_code};
use super::records::{Record, Records};
use super::report::Part;
use super::row::{Emit, Fault, Row, flag};
use super::scan;
use super::titles::{Column, Layout, Need, Places, ReferencePlace, Wanted, key, needed, normalise, optional};
use super::when;

/// The columns that all reports of the envelope have, in front of their own. Older files write the titles without
/// blanks: they are compared without them.
pub(super) const SHARED: [Column; 14] = [
    key(ID, &["transactionid"]),
    needed(INVOICE, &["invoiceid"]),
    needed(PARENT, &["paypalreferenceid"]),
    needed(PARENT_TYPE, &["paypalreferenceidtype"]),
    needed(CODE, &["transactioneventcode"]),
    optional(STARTED, &["transactioninitiationdate"]),
    needed(COMPLETED, &["transactioncompletiondate"]),
    needed(SIDE, &["transactiondebitorcredit"]),
    needed(GROSS, &["grosstransactionamount"]),
    needed(CURRENCY, &["grosstransactioncurrency"]),
    needed(FEE_SIDE, &["feedebitorcredit"]),
    needed(FEE, &["feeamount"]),
    needed(FEE_CURRENCY, &["feecurrency"]),
    optional(CUSTOM, &["customfield"]),
];

const ID: usize = 0;
pub(super) const INVOICE: usize = 1;
const PARENT: usize = 2;
const PARENT_TYPE: usize = 3;
const CODE: usize = 4;
const STARTED: usize = 5;
const COMPLETED: usize = 6;
const SIDE: usize = 7;
const GROSS: usize = 8;
const CURRENCY: usize = 9;
const FEE_SIDE: usize = 10;
const FEE: usize = 11;
const FEE_CURRENCY: usize = 12;
pub(super) const CUSTOM: usize = 13;

/// Record types that may begin a file.
pub(super) const FIRST_RECORDS: &[&str] = &["RH", "FH", "SH", "CH"];

/// A title in the form in which the titles of this report are compared.
pub(super) fn squeezed(title: &str) -> String {
    normalise(title).replace(' ', "")
}

/// Rows and sums of a section or of the report, to be compared with its footers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows: u64,
    /// Per currency: gross credits, gross debits, fee credits, fee debits, in hundredths.
    sums: BTreeMap<Currency, [u128; 4]>,
    /// Currencies whose sums a footer has confirmed.
    confirmed: BTreeSet<Currency>,
    /// A row could not be read, so that sums prove nothing.
    unreadable: bool,
}

/// Reads one file.
pub(super) fn scan(layout: &Layout, part: &Part, emit: &mut Emit<'_>) -> Result<(), ReportError> {
    let name = &part.source.name;
    let mut records = Records::new(name, part.text(), part.plan.delimiter);
    let (mut section, mut in_file) = (Tally::default(), Tally::default());
    let mut titles = Titles::default();
    let (mut complete, mut first, mut last_line) = (false, true, 0);
    // The transaction detail report has rows that moved no money, and which of them its sums count is not documented.
    let sums_bind = layout.format == Format::PaypalSettlement;
    while let Some(record) = records.next()? {
        let line = record.line;
        last_line = line;
        let kind = cell(&record, 0).to_ascii_uppercase();
        if std::mem::take(&mut first) && kind != "RH" {
            emit.late.push(format!("{name} does not begin with its RH record: it went through a spreadsheet"));
        }
        let trailer = |reason: String| ReportError::Trailer { name: name.clone(), line, reason };
        let reason = match kind.as_str() {
            "SB" => {
                let mut tallies = [&mut section, &mut in_file, &mut std::mem::take(&mut emit.whole_report)];
                read_body((layout, part), &titles, record, &mut tallies, emit)?;
                emit.whole_report = std::mem::take(tallies[2]);
                if emit.stopped {
                    return Ok(());
                }
                continue;
            }
            "CH" => {
                titles = Titles::of(layout, part, &record)?;
                "CH column header"
            }
            "SH" => {
                section = Tally::default();
                "SH section header"
            }
            "SF" | "RF" if !sums_bind => {
                if let Err(reason) = section.check_sums(&record) {
                    emit.late.push(format!("{name} line {line}: the sums do not agree with the rows: {reason}"));
                }
                "sums of some of the rows"
            }
            "SF" => {
                section.check_sums(&record).map_err(trailer)?;
                "SF footer"
            }
            "RF" => {
                // Of the report, which may be split over files; a file of its own counts itself.
                let confirmed =
                    in_file.check_sums(&record).or_else(|e| emit.whole_report.check_sums(&record).map_err(|_| e));
                confirmed.map_err(trailer)?;
                "RF footer"
            }
            "SC" => {
                section.check_rows(&record).map_err(trailer)?;
                if sums_bind {
                    section.all_confirmed().map_err(trailer)?;
                }
                "SC section count"
            }
            "RC" => {
                let confirmed =
                    in_file.check_rows(&record).or_else(|e| emit.whole_report.check_rows(&record).map_err(|_| e));
                confirmed.map_err(trailer)?;
                "RC report count"
            }
            "FF" => {
                in_file.check_rows(&record).map_err(trailer)?;
                complete = true;
                "FF file footer"
            }
            "RH" => {
                complete = false;
                "RH report header"
            }
            "FH" => {
                // Joined files: each has its own count.
                (in_file, complete) = (Tally::default(), false);
                "FH file header"
            }
            _ => {
                emit.refused(line, scan::whole(&record, "unknown record type"));
                continue;
            }
        };
        emit.ignored(line, reason);
        if emit.stopped {
            return Ok(());
        }
    }
    if complete {
        return Ok(());
    }
    let reason = "its FF footer is missing".to_owned();
    Err(ReportError::Cut { name: name.clone(), line: last_line, reason })
}

fn cell<'a>(record: &Record<'a>, at: usize) -> &'a str {
    if at >= record.len() {
        return "";
    }
    std::str::from_utf8(record.cell(at)).unwrap_or_default().trim()
}

/// The columns of a section.
#[derive(Default)]
struct Titles {
    printed: Vec<String>,
    named_width: usize,
    places: Places,
    reference: Vec<ReferencePlace>,
}

impl Titles {
    fn of(layout: &Layout, part: &Part, record: &Record<'_>) -> Result<Self, ReportError> {
        let printed = record.texts();
        let squeezed: Vec<String> = printed.iter().map(|t| squeezed(t)).collect();
        let wanted = Wanted::of(layout.columns);
        let places = Places::find(&wanted, &squeezed);
        let missing: Vec<String> = places.missing(&wanted, &[Need::Key, Need::Needed]).collect();
        if !missing.is_empty() {
            return Err(ReportError::MissingColumns {
                name: part.source.name.clone(),
                format: layout.name.to_owned(),
                missing: missing.join(", "),
                seen: super::recognise::shown(&printed),
                hint: format!("; the CH record on line {} lacks them", record.line),
            });
        }
        // Sections of one file could order their columns differently: the reference is found by title again.
        let reference = part.plan.reference.iter().filter_map(|place| {
            let title = self::squeezed(&part.plan.titles[place.at]);
            squeezed.iter().position(|t| *t == title).map(ReferencePlace::cell)
        });
        let reference = reference.collect();
        let named_width = printed.iter().rposition(|t| !t.is_empty()).map_or(0, |last| last + 1);
        Ok(Self { printed, named_width, places, reference })
    }
}

/// Reads one SB record and adds it to the tallies.
fn read_body(
    (layout, part): (&Layout, &Part),
    titles: &Titles,
    record: Record<'_>,
    tallies: &mut [&mut Tally; 3],
    emit: &mut Emit<'_>,
) -> Result<(), ReportError> {
    let line = record.line;
    for tally in tallies.iter_mut() {
        tally.rows += 1;
    }
    if titles.printed.is_empty() {
        let reason = "an SB record stands before the CH record that names its columns".to_owned();
        return Err(ReportError::Trailer { name: part.source.name.clone(), line, reason });
    }
    let wide_enough = (titles.named_width..=titles.printed.len()).contains(&record.len())
        // A spreadsheet widens all records to the widest one, with blank cells.
        || (record.len() > titles.printed.len() && (titles.printed.len()..record.len()).all(|at| cell(&record, at).is_empty()));
    let fault = if let Some(why) = record.damage {
        Some(scan::whole(&record, why))
    } else if !wide_enough {
        let reason = format!("the record has {} cells, its CH record has {}", record.len(), titles.printed.len());
        Some(scan::whole(&record, &reason))
    } else {
        record.bad_text().map(|at| scan::bad_text(&record, at, &titles.printed))
    };
    if let Some(fault) = fault {
        for tally in tallies.iter_mut() {
            tally.unreadable = true;
        }
        emit.refused(line, fault);
        return Ok(());
    }
    let row = Row::new(record, &titles.printed, &titles.places.slots, &titles.reference, &part.rules);
    let read = scan::same_in_twins(&row, &titles.places.twins)
        .and_then(|()| tally(&row, tallies))
        .and_then(|()| (layout.read_row)(&row, emit));
    if let Err(fault) = read {
        for tally in tallies.iter_mut() {
            tally.unreadable = true;
        }
        emit.refused(line, fault);
    }
    Ok(())
}

/// What the shared columns of a row say. Its status is the report's own matter.
pub(super) fn entry<'a>(row: &Row<'a>) -> Result<Entry<'a>, Fault> {
    let currency = row.currency(CURRENCY)?;
    let direction = direction(row, SIDE)?;
    let size = i64::try_from(hundredths(row, GROSS)?).map_err(|_| row.fault(GROSS, "amount out of range"))?;
    let signed = if direction == Direction::Credit { size } else { -size };
    let code = row.text(CODE);
    let kind = kind_of_code(code, direction);
    let minor = to_minor(signed, currency);
    let mut entry = row.entry(kind, status_of(kind), currency, minor);
    if minor.is_none() {
        flag(
            &mut entry,
            "hundredths that are no whole units: whether this currency is counted in hundredths is in doubt",
        );
    }
    if kind == EntryKind::Void {
        (entry.amount_minor, entry.authorized_minor) = (Some(0), minor);
    }
    if kind == EntryKind::Unknown {
        flag(&mut entry, format!("unknown event code {code:?}"));
    }
    entry.provider_id = row.id(ID)?;
    entry.reference = row.merchant_reference()?;
    // The other types name agreements, which are no payments.
    if matches!(row.text(PARENT_TYPE), "TXN" | "ODR") {
        entry.parent_id = row.id(PARENT)?;
    }
    entry.type_raw = Some(Cow::Borrowed(code));
    time(row, &mut entry);
    Ok(entry)
}

/// The status of a row that is in a report of what happened.
fn status_of(kind: EntryKind) -> Status {
    match kind {
        EntryKind::Authorization => Status::Authorized,
        EntryKind::Void => Status::Canceled,
        _ => Status::Succeeded,
    }
}

/// The completion is when money moved; the initiation can be days earlier.
fn time<'a>(row: &Row<'a>, entry: &mut Entry<'a>) {
    let column = if row.text(COMPLETED).is_empty() { STARTED } else { COMPLETED };
    row.time(column, when::slashed_with_offset).put(entry);
}

/// Hundredths of the major unit as ISO minor units; `None` when they are not whole ones.
fn to_minor(hundredths: i64, currency: Currency) -> Option<i64> {
    match currency.exponent() {
        0 => (hundredths % 100 == 0).then_some(hundredths / 100),
        2 => Some(hundredths),
        3 => hundredths.checked_mul(10),
        _ => None,
    }
}

fn hundredths(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    let text = row.text(column);
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| row.fault(column, "expected hundredths as digits only"))
}

fn direction(row: &Row<'_>, column: usize) -> Result<Direction, Fault> {
    match row.text(column) {
        "CR" => Ok(Direction::Credit),
        "DR" => Ok(Direction::Debit),
        _ => Err(row.fault(column, "expected CR or DR")),
    }
}

/// Adds a row to the sums that the footers state.
fn tally(row: &Row<'_>, tallies: &mut [&mut Tally; 3]) -> Result<(), Fault> {
    let gross = (row.currency(CURRENCY)?, hundredths(row, GROSS)?, direction(row, SIDE)?);
    let no_fee = row.text(FEE).is_empty() || (row.text(FEE_SIDE).is_empty() && hundredths(row, FEE)? == 0);
    let fee = if no_fee {
        None
    } else {
        Some((row.currency(FEE_CURRENCY)?, hundredths(row, FEE)?, direction(row, FEE_SIDE)?))
    };
    for tally in tallies {
        tally.add(gross, 0);
        if let Some(fee) = fee {
            tally.add(fee, 2);
        }
    }
    Ok(())
}

impl Tally {
    /// `first` is 0 for gross amounts and 2 for fees.
    fn add(&mut self, (currency, amount, direction): (Currency, u64, Direction), first: usize) {
        let sums = self.sums.entry(currency).or_default();
        sums[first + usize::from(direction == Direction::Debit)] += u128::from(amount);
    }

    /// `SF` and `RF`: currency, then four sums. Short footers state less and are not compared.
    fn check_sums(&mut self, footer: &Record<'_>) -> Result<(), String> {
        let Some(currency) = Currency::parse(cell(footer, 1)) else {
            return Ok(());
        };
        if self.unreadable || cell(footer, 5).is_empty() {
            return Ok(());
        }
        let found = self.sums.get(&currency).copied().unwrap_or_default();
        for (at, what) in ["gross credits", "gross debits", "fee credits", "fee debits"].into_iter().enumerate() {
            let stated = cell(footer, at + 2);
            if stated.parse() != Ok(found[at]) {
                return Err(format!("it states {stated} of {what} in {currency}, the rows come to {}", found[at]));
            }
        }
        self.confirmed.insert(currency);
        Ok(())
    }

    /// A section whose footers state sums has one for each currency.
    fn all_confirmed(&self) -> Result<(), String> {
        let missing = self.sums.keys().find(|currency| !self.confirmed.contains(*currency));
        match missing {
            Some(currency) if !self.unreadable && !self.confirmed.is_empty() => {
                Err(format!("no SF record states the sums in {currency}"))
            }
            _ => Ok(()),
        }
    }

    /// `SC`, `RC` and `FF`: the number of SB records.
    fn check_rows(&self, footer: &Record<'_>) -> Result<(), String> {
        let stated = cell(footer, 1);
        if stated.parse() == Ok(self.rows) {
            return Ok(());
        }
        Err(format!("it states {stated:?} transactions, there are {}", self.rows))
    }
}
