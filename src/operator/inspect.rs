//! `inspect`: what is read from a report, as a table for people, as JSON or CSV for programs. No database.
//!
//! The report is read more than once instead of being kept: first for the totals and for whether it is complete, then
//! for each list that is printed. So memory does not grow with the report, and nothing is printed of a refused one.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;

use crate::domain::entry::{Entry, EntryKind, IgnoredLine, Status};
use crate::domain::money::{Currency, format_minor};
use crate::formats::{Item, OpenOptions, Report, ReportError};

use super::inspect_table::table;

/// Version of the JSON object.
pub const SCHEMA: &str = "idem-jobs/inspect/1";

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Aligned columns for people.
    Table,
    /// One JSON object.
    Json,
    /// One line an entry, safe to open in a spreadsheet.
    Csv,
}

/// Why nothing, or not all, was printed.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The report cannot be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Reads a report and prints what it says. `true` when rows were refused.
pub fn inspect(
    paths: &[PathBuf],
    options: &OpenOptions,
    output: Output,
    out: &mut dyn Write,
) -> Result<bool, InspectError> {
    let report = Report::open(paths, options)?;
    let sums = Sums::of(&report)?;
    match output {
        Output::Table => table(&report, &sums, out)?,
        Output::Json => json(&report, &sums, out)?,
        Output::Csv => csv(&report, out)?,
    }
    out.flush()?;
    Ok(sums.refused > 0)
}

/// What one scan counts.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) payment_rows: u64,
    pub(super) payment_rows_succeeded: u64,
    pub(super) entries: u64,
    pub(super) ignored: u64,
    pub(super) refused: u64,
    pub(super) review: u64,
    counts: BTreeMap<EntryKind, u64>,
    totals: BTreeMap<(Currency, EntryKind), (u64, i128)>,
}

/// One line of the totals.
#[derive(Serialize)]
pub(super) struct Total {
    pub(super) currency: Currency,
    pub(super) kind: EntryKind,
    pub(super) rows: u64,
    pub(super) sum_minor: i128,
}

impl Sums {
    fn of(report: &Report) -> Result<Self, ReportError> {
        let mut sums = Self::default();
        report.read(&mut |item| {
            match item {
                Item::Entry { entry, .. } => sums.add(&entry),
                Item::Ignored(..) => sums.ignored += 1,
                Item::Refused(_) => sums.refused += 1,
            }
            ControlFlow::Continue(())
        })?;
        Ok(sums)
    }

    fn add(&mut self, entry: &Entry<'_>) {
        self.entries += 1;
        self.review += u64::from(entry.review);
        if entry.kind == EntryKind::Charge {
            self.payment_rows += 1;
            self.payment_rows_succeeded += u64::from(entry.status == Status::Succeeded);
        }
        *self.counts.entry(entry.kind).or_default() += 1;
        let (rows, sum) = self.totals.entry((entry.currency, entry.kind)).or_default();
        *rows += 1;
        *sum += i128::from(entry.amount_minor.unwrap_or(0));
    }

    pub(super) fn totals(&self) -> Vec<Total> {
        let totals = self.totals.iter();
        totals.map(|(&(currency, kind), &(rows, sum_minor))| Total { currency, kind, rows, sum_minor }).collect()
    }
}

/// Hands over each item until `on` fails.
pub(super) fn each(report: &Report, on: &mut dyn FnMut(Item<'_>) -> io::Result<()>) -> Result<(), InspectError> {
    let mut failed = None;
    report.read(&mut |item| match on(item) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), |error| Err(InspectError::Write(error)))
}

/// An item with the file that it is in, when that is not the first.
#[derive(Serialize)]
struct Placed<T> {
    #[serde(skip_serializing_if = "is_first")]
    file: usize,
    #[serde(flatten)]
    item: T,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_first(file: &usize) -> bool {
    *file == 0
}

fn json(report: &Report, sums: &Sums, out: &mut dyn Write) -> Result<(), InspectError> {
    let head = serde_json::json!({
        "schema": SCHEMA,
        "provider": report.provider(),
        "report": report.format().name(),
        "dated_by": report.dated_by(),
        "reference_column": report.reference_columns().first(),
        "payment_rows": sums.payment_rows,
        "payment_rows_succeeded": sums.payment_rows_succeeded,
        "counts": sums.counts,
        "totals": sums.totals(),
        "files": report.files(),
        "notes": notes(report),
    });
    let head = serde_json::to_string_pretty(&head).map_err(io::Error::from)?;
    let head = head.trim_end_matches('}').trim_end();
    write!(out, "{head},\n  \"rows\": [")?;
    list(report, out, &|item| match item {
        Item::Entry { file, entry } => serde_json::to_string(&Placed { file, item: entry.masked() }).map(Some),
        _ => Ok(None),
    })?;
    write!(out, "],\n  \"ignored_lines\": [")?;
    list(report, out, &|item| match item {
        Item::Ignored(file, line) => serde_json::to_string(&Placed::<IgnoredLine> { file, item: line }).map(Some),
        _ => Ok(None),
    })?;
    write!(out, "],\n  \"refused\": [")?;
    list(report, out, &|item| match item {
        Item::Refused(row) => serde_json::to_string(&row).map(Some),
        _ => Ok(None),
    })?;
    writeln!(out, "]\n}}")?;
    Ok(())
}

/// Writes the chosen items as the elements of a JSON array, one a line.
fn list(
    report: &Report,
    out: &mut dyn Write,
    choose: &dyn Fn(Item<'_>) -> serde_json::Result<Option<String>>,
) -> Result<(), InspectError> {
    let mut some = false;
    each(report, &mut |item| {
        if let Some(text) = choose(item)? {
            write!(out, "{}\n    {text}", if some { "," } else { "" })?;
            some = true;
        }
        Ok(())
    })?;
    if some {
        write!(out, "\n  ")?;
    }
    Ok(())
}

pub(super) fn notes(report: &Report) -> Vec<&String> {
    report.notes().iter().chain(report.late_notes()).collect()
}

/// The word that JSON has for a kind or a status.
pub(super) fn name<T: Serialize>(word: T) -> String {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("kinds and statuses serialize as words, not {other:?}"),
    }
}

pub(super) fn amount(entry: &Entry<'_>) -> String {
    match (entry.amount_minor, &entry.amount_decimal) {
        (Some(minor), _) => format_minor(i128::from(minor), entry.exponent),
        (None, Some(decimal)) => decimal.to_string(),
        (None, None) => "?".to_owned(),
    }
}

pub(super) fn time(entry: &Entry<'_>) -> String {
    match (entry.time_utc, entry.time_raw.as_ref().or(entry.date.as_ref())) {
        (Some(instant), _) => instant.format("%Y-%m-%d %H:%M:%SZ").to_string(),
        (None, Some(raw)) => raw.to_string(),
        (None, None) => String::new(),
    }
}

const CSV_TITLES: [&str; 17] = [
    "file",
    "line",
    "kind",
    "status",
    "amount_minor",
    "currency",
    "exponent",
    "reference",
    "provider_id",
    "parent_id",
    "entry_id",
    "time_utc",
    "time_raw",
    "status_raw",
    "type_raw",
    "review",
    "notes",
];

fn csv(report: &Report, out: &mut dyn Write) -> Result<(), InspectError> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(CSV_TITLES).map_err(io::Error::from)?;
    each(report, &mut |item| {
        let Item::Entry { file, entry } = item else {
            return Ok(());
        };
        let entry = entry.masked();
        let text = |text: &Option<std::borrow::Cow<'_, str>>| safe(text.as_deref().unwrap_or_default());
        let raw_time = if entry.time_raw.is_some() { text(&entry.time_raw) } else { text(&entry.date) };
        let record: [String; 17] = [
            (file + 1).to_string(),
            entry.line.to_string(),
            name(entry.kind),
            name(entry.status),
            entry.amount_minor.map_or_else(String::new, |m| m.to_string()),
            entry.currency.to_string(),
            entry.exponent.to_string(),
            text(&entry.reference),
            text(&entry.provider_id),
            text(&entry.parent_id),
            text(&entry.entry_id),
            entry.time_utc.map_or_else(String::new, |t| t.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)),
            raw_time,
            text(&entry.status_raw),
            text(&entry.type_raw),
            entry.review.to_string(),
            safe(&entry.notes.join("; ")),
        ];
        writer.write_record(&record).map_err(io::Error::from)
    })?;
    writer.flush()?;
    Ok(())
}

/// A cell that no spreadsheet takes for a formula; plain numbers stay what they are. (OWASP, CSV injection)
fn safe(text: &str) -> String {
    let risky = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if risky && !plain_number { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_get_a_guard_and_numbers_do_not() {
        for (text, expected) in [
            ("=HYPERLINK(\"http://x\")", "'=HYPERLINK(\"http://x\")"),
            ("@cmd", "'@cmd"),
            ("-1+cmd", "'-1+cmd"),
            ("+", "'+"),
            ("\tx", "'\tx"),
            ("-12.50", "-12.50"),
            ("ord-1", "ord-1"),
        ] {
            assert_eq!(safe(text), expected);
        }
    }
}
