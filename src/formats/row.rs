//! One record seen through its format's columns: text, ids, currencies, amounts, or the fault that stops it.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::config::settings::{DateOrder, GenericFormat};
use crate::domain::entry::{Entry, EntryKind, IgnoredLine, Peek, RefusedRow, Status};
use crate::domain::money::{AmountError, Currency, DecimalMark, NumberStyle, format_minor, parse_minor};

use super::mask::masked;
use super::paypal_envelope::Tally;
use super::rate::scaled;
use super::records::Record;
use super::survey::Survey;
use super::titles::ReferencePlace;
use super::when::When;
use super::{Format, Item};

/// What holds for all rows of a report.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) format: Format,
    pub(super) number: NumberStyle,
    /// Zone that the operator has stated.
    pub(super) timezone: Option<chrono_tz::Tz>,
    /// Currency that the operator has stated, for reports without a currency column.
    pub(super) currency: Option<Currency>,
    /// Order of day and month where the file prints both as digits.
    pub(super) date_order: Option<DateOrder>,
    /// The declaration of a generic format.
    pub(super) generic: Option<GenericFormat>,
    /// Whether the title of a generic format's time column says UTC.
    pub(super) title_says_utc: bool,
    /// What a first look at all rows of the report has shown.
    pub(super) survey: Arc<Survey>,
}

/// Why a record cannot be read.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) column: Option<String>,
    pub(super) raw: String,
    pub(super) reason: String,
}

/// One record of a report. Made per record, costs nothing.
pub(super) struct Row<'a> {
    pub(super) record: Record<'a>,
    text: Option<(&'a str, &'a str)>,
    /// Titles as printed.
    pub(super) titles: &'a [String],
    slots: &'a [Option<usize>],
    /// Cells that may hold the merchant's reference, best first.
    reference: &'a [ReferencePlace],
    pub(super) rules: &'a Rules,
    /// Whether a spreadsheet's guard was taken off a cell.
    guarded: Cell<bool>,
}

impl<'a> Row<'a> {
    /// A record of the right width, seen through the places of its columns. Look at [`Row::is_text`] first.
    pub(super) fn new(
        record: Record<'a>,
        titles: &'a [String],
        slots: &'a [Option<usize>],
        reference: &'a [ReferencePlace],
        rules: &'a Rules,
    ) -> Self {
        Self { record, text: record.as_text(), titles, slots, reference, rules, guarded: Cell::new(false) }
    }

    /// Whether the record is UTF-8; when not, its cells read as empty.
    pub(super) fn is_text(&self) -> bool {
        self.text.is_some()
    }

    /// The cell's text, trimmed; empty when the file has no such column.
    pub(super) fn text(&self, column: usize) -> &'a str {
        self.slots[column].map_or("", |at| self.cell(at))
    }

    /// Whether the file has such a column.
    pub(super) fn has(&self, column: usize) -> bool {
        self.slots[column].is_some()
    }

    fn cell(&self, at: usize) -> &'a str {
        let text = self.record.cell_in(self.text.unwrap_or_default(), at);
        // Nearly no cell is padded, and a look at both ends is cheaper than trimming.
        match text.as_bytes() {
            [b'!'..=b'~'] | [b'!'..=b'~', .., b'!'..=b'~'] => text,
            _ => text.trim(),
        }
    }

    /// A fault in this column.
    pub(super) fn fault(&self, column: usize, reason: impl Into<String>) -> Fault {
        self.fault_at(self.slots[column], reason)
    }

    fn fault_at(&self, at: Option<usize>, reason: impl Into<String>) -> Fault {
        Fault {
            column: at.map(|at| self.titles[at].clone()),
            raw: at.map_or_else(String::new, |at| self.cell(at).to_owned()),
            reason: reason.into(),
        }
    }

    /// An id or a reference: text, byte for byte. Blank is `None`.
    pub(super) fn id(&self, column: usize) -> Result<Option<Cow<'a, str>>, Fault> {
        self.slots[column].map_or(Ok(None), |at| self.id_at(at))
    }

    /// The merchant's reference, from the first of its columns that is not blank.
    pub(super) fn merchant_reference(&self) -> Result<Option<Cow<'a, str>>, Fault> {
        for place in self.reference {
            let reference = if place.keys.is_empty() { self.id_at(place.at)? } else { self.noted(place) };
            if reference.is_some() {
                return Ok(reference);
            }
        }
        Ok(None)
    }

    /// A key of the JSON object in a cell. A cell that is no object has none: shops write what they like there.
    fn noted(&self, place: &ReferencePlace) -> Option<Cow<'a, str>> {
        let text = self.cell(place.at);
        if !text.starts_with('{') {
            return None;
        }
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
        let text = place.keys.iter().find_map(|key| match object.get(key)? {
            serde_json::Value::String(text) => Some(text.trim().to_owned()),
            // A number with a fraction or an exponent could be printed in another way than it was written.
            serde_json::Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
            _ => None,
        });
        text.filter(|t| !t.is_empty()).map(Cow::Owned)
    }

    fn id_at(&self, at: usize) -> Result<Option<Cow<'a, str>>, Fault> {
        let text = self.unguarded(self.cell(at));
        if is_spreadsheet_number(text) {
            return Err(self.fault_at(Some(at), "spreadsheet number: the id was rounded, download the report again"));
        }
        Ok((!text.is_empty()).then_some(Cow::Borrowed(text)))
    }

    /// Takes off the guards by which spreadsheets keep a cell as text: `'123`, `="123"`.
    fn unguarded(&self, text: &'a str) -> &'a str {
        let inner = match text.as_bytes().first() {
            Some(b'\'') => &text[1..],
            Some(b'=') => match text.strip_prefix("=\"").and_then(|t| t.strip_suffix('"')) {
                Some(inner) => inner,
                None => return text,
            },
            _ => return text,
        };
        self.guarded.set(true);
        inner.trim()
    }

    /// The currency of the row, else the stated one.
    pub(super) fn currency(&self, column: usize) -> Result<Currency, Fault> {
        let text = self.text(column);
        match (Currency::parse(text), self.rules.currency) {
            (Some(currency), _) => Ok(currency),
            (None, Some(stated)) if text.is_empty() => Ok(stated),
            (None, _) if text.is_empty() => Err(self.fault(column, "blank currency")),
            (None, _) => Err(self.fault(column, "unknown currency: its decimals are not known")),
        }
    }

    /// An amount in major units as ISO minor units. Blank is `None`.
    pub(super) fn amount(&self, column: usize, currency: Currency) -> Result<Option<i64>, Fault> {
        self.amount_of(column, self.unguarded(self.text(column)), currency)
    }

    /// The same of a part of the column's text.
    pub(super) fn amount_of(&self, column: usize, text: &str, currency: Currency) -> Result<Option<i64>, Fault> {
        let number = self.rules.number;
        // French digits are grouped by a blank that does not break, in threes as other marks do.
        let grouped = number.grouping && number.mark == Some(DecimalMark::Comma) && text.contains(BLANKS);
        let text = if grouped { Cow::Owned(text.replace(BLANKS, ".")) } else { Cow::Borrowed(text) };
        match parse_minor(&text, currency.exponent(), number) {
            Ok(minor) => Ok(Some(minor)),
            Err(AmountError::Empty) => Ok(None),
            Err(error) => Err(self.fault(column, format!("{error} (currency {currency})"))),
        }
    }

    /// An amount that may be less than a minor unit: then its text is given, and no minor units.
    pub(super) fn fine_amount(
        &self,
        column: usize,
        currency: Currency,
    ) -> Result<(Option<i64>, Option<Cow<'a, str>>), Fault> {
        let text = self.text(column);
        match parse_minor(text, currency.exponent(), self.rules.number) {
            Err(AmountError::TooPrecise) if scaled(text).is_some() => Ok((None, Some(Cow::Borrowed(text)))),
            _ => self.needed_amount(column, currency).map(|minor| (Some(minor), None)),
        }
    }

    /// An amount that must be there.
    pub(super) fn needed_amount(&self, column: usize, currency: Currency) -> Result<i64, Fault> {
        self.amount(column, currency)?.ok_or_else(|| self.fault(column, "blank amount"))
    }

    /// A row of this report with what all formats fill alike.
    pub(super) fn entry(&self, kind: EntryKind, status: Status, currency: Currency, minor: Option<i64>) -> Entry<'a> {
        Entry::new(self.record.line, kind, status, currency, minor)
    }

    /// The time of a column, read by `read`; the operator's zone is used where the text has none.
    pub(super) fn time(&self, column: usize, read: fn(&'a str, Option<chrono_tz::Tz>) -> When<'a>) -> When<'a> {
        read(self.text(column), self.rules.timezone)
    }
}

/// Blanks that do not break.
const BLANKS: [char; 2] = ['\u{a0}', '\u{202f}'];

/// `9.91E+15`: a number that a spreadsheet has rounded. Not `42E10111213`, which is a real id.
fn is_spreadsheet_number(text: &str) -> bool {
    // Nearly no id has a plus: this runs for each id of each row.
    if !text.as_bytes().contains(&b'+') {
        return false;
    }
    let Some((mantissa, exponent)) = text.split_once("E+").or_else(|| text.split_once("e+")) else {
        return false;
    };
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once(['.', ',']).unwrap_or((mantissa, "0"));
    digits(whole) && digits(fraction) && digits(exponent)
}

/// A file of a report holds one batch, a year of them some hundreds.
const BATCHES_MAX: usize = 1000;

/// Where rows go, and what is kept of a whole scan.
pub(super) struct Emit<'o> {
    pub(super) file: usize,
    pub(super) on: &'o mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
    /// Which rows are asked for; `None` for all.
    asked: Option<&'o dyn Fn(&Peek<'_>) -> bool>,
    /// The receiver has had enough.
    pub(super) stopped: bool,
    /// Sums that should come to zero, per batch and currency, minor units.
    batches: BTreeMap<(String, Currency), i128>,
    /// Rows and sums of a report that is split over files, for its footers.
    pub(super) whole_report: Tally,
    /// Rows of which the same remark holds: how many, and the line of the first.
    remarks: BTreeMap<&'static str, (u64, u64)>,
    /// Remarks that only a whole scan can give.
    pub(super) late: Vec<String>,
}

impl<'o> Emit<'o> {
    /// Sends rows to `on`.
    pub(super) fn new(on: &'o mut dyn FnMut(Item<'_>) -> ControlFlow<()>) -> Self {
        let whole_report = Tally::default();
        Self {
            file: 0,
            on,
            asked: None,
            stopped: false,
            batches: BTreeMap::new(),
            whole_report,
            remarks: BTreeMap::new(),
            late: Vec::new(),
        }
    }

    /// The same, where only some rows are asked for.
    pub(super) fn only(
        on: &'o mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
        asked: &'o dyn Fn(&Peek<'_>) -> bool,
    ) -> Self {
        Self { asked: Some(asked), ..Self::new(on) }
    }

    /// Whether a row of which this much is known is asked for. A format may skip the work of reading the rest when
    /// it is not, and need not: the receiver looks again.
    pub(super) fn is_asked(&self, reference: Option<&str>, ids: [Option<&str>; 2]) -> bool {
        self.asked.is_none_or(|asked| asked(&Peek { reference, ids }))
    }

    /// Hands over an entry.
    pub(super) fn entry<'a>(&mut self, row: &Row<'a>, mut entry: Entry<'a>) {
        if row.guarded.get() {
            entry.notes.push(Cow::Borrowed("a spreadsheet's text guard was taken off"));
        }
        if entry.kind == EntryKind::Charge && entry.amount_minor == Some(0) && row.rules.format != Format::Generic {
            entry.review = true;
            entry.notes.push(Cow::Borrowed("a charge of zero is worth a look"));
        }
        self.send(Item::Entry { file: self.file, entry });
    }

    /// Tells of a record that is rightly no entry.
    pub(super) fn ignored(&mut self, line: u64, reason: impl Into<Cow<'static, str>>) {
        self.send(Item::Ignored(self.file, IgnoredLine { line, reason: reason.into() }));
    }

    /// Tells of a record that cannot be read.
    pub(super) fn refused(&mut self, line: u64, fault: Fault) {
        let row =
            RefusedRow { file: self.file, line, column: fault.column, raw: masked(&fault.raw), reason: fault.reason };
        self.send(Item::Refused(row));
    }

    /// Adds to the sum of a batch. Beyond a bound of batches new ones are left out: the sums are a remark only.
    pub(super) fn add_to_batch(&mut self, batch: &str, currency: Currency, minor: i64) {
        let key = (batch.to_owned(), currency);
        if self.batches.len() < BATCHES_MAX || self.batches.contains_key(&key) {
            *self.batches.entry(key).or_default() += i128::from(minor);
        }
    }

    /// Counts rows of which the same remark holds.
    pub(super) fn remark(&mut self, what: &'static str, line: u64) {
        self.remarks.entry(what).or_insert((0, line)).0 += 1;
    }

    /// What the whole scan has shown.
    pub(super) fn finish(mut self) -> Vec<String> {
        for ((batch, currency), sum) in &self.batches {
            if *sum != 0 {
                let sum = format_minor(*sum, currency.exponent());
                self.late.push(format!(
                    "batch {batch} does not add up to zero: {currency} {sum} is left; it is incomplete, or a part of one"
                ));
            }
        }
        for (what, (rows, line)) in &self.remarks {
            self.late.push(format!("{what}: {rows} row(s), the first on line {line}"));
        }
        self.late
    }

    fn send(&mut self, item: Item<'_>) {
        if !self.stopped {
            self.stopped = (self.on)(item).is_break();
        }
    }
}

/// The amount as money that leaves the merchant, whichever sign it has. Cannot overflow: the negative side is larger.
pub(super) fn outward(minor: i64) -> i64 {
    if minor > 0 { -minor } else { minor }
}

/// Marks an entry for a person.
pub(super) fn flag<'a>(entry: &mut Entry<'a>, why: impl Into<Cow<'a, str>>) {
    entry.review = true;
    entry.notes.push(why.into());
}

/// Looks a word up in a table, without regard to ASCII case.
pub(super) fn word<T: Copy>(table: &[(&str, T)], text: &str) -> Option<T> {
    table.iter().find(|(known, _)| known.eq_ignore_ascii_case(text)).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rounded_numbers_are_taken_for_spreadsheet_damage() {
        for damaged in ["9.91E+15", "2E+15", "9.00013E+11", "1,23E+22", "1.23e+22"] {
            assert!(is_spreadsheet_number(damaged), "{damaged}");
        }
        for id in ["1e234567", "42E10111213141516", "61E78910111213141", "a1E+5", "1E+", "E+5", "ord-1E+5x", "+15"] {
            assert!(!is_spreadsheet_number(id), "{id}");
        }
    }
}
