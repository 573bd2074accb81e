//! The table of `inspect`: what was recognised, the rows, what was refused, the totals. For people only.

use std::io::{self, Write};

use crate::domain::entry::{Entry, RefusedRow};
use crate::domain::money::format_minor;
use crate::formats::{Item, Report};

use super::inspect::{InspectError, Sums, Total, amount, each, name, notes, time};

/// Rows that the table shows.
const TABLE_ROWS_MAX: usize = 200;

const TABLE_TITLES: [&str; 9] =
    ["line", "kind", "status", "amount", "currency", "reference", "provider id", "time", "look"];

/// Prints a report for people.
pub(super) fn table(report: &Report, sums: &Sums, out: &mut dyn Write) -> Result<(), InspectError> {
    writeln!(out, "{} report of {}", report.format().name(), report.provider())?;
    for file in report.files() {
        writeln!(out, "  file  {} ({} bytes, sha256 {}...)", plain(&file.name), file.bytes, &file.sha256[..16])?;
    }
    for note in notes(report) {
        writeln!(out, "  note  {}", plain(note))?;
    }
    let several = report.files().len() > 1;
    let mut rows: Vec<[String; 9]> = Vec::new();
    each(report, &mut |item| {
        if let Item::Entry { file, entry } = item
            && rows.len() < TABLE_ROWS_MAX
        {
            rows.push(cells(file, several, &entry.masked()));
        }
        Ok(())
    })?;
    if !rows.is_empty() {
        writeln!(out)?;
        aligned(out, &TABLE_TITLES, &rows)?;
    }
    let shown = rows.len() as u64;
    if sums.entries > shown {
        writeln!(out, "... {} more; --output csv prints all", grouped(sums.entries - shown))?;
    }
    refused_lines(report, sums, several, out)?;
    writeln!(out)?;
    let totals: Vec<[String; 4]> = sums.totals().iter().map(total_cells).collect();
    if !totals.is_empty() {
        aligned(out, &["total", "kind", "rows", "sum"], &totals)?;
    }
    writeln!(
        out,
        "{} entries ({} payments, {} of them succeeded; {} to look at), {} records ignored, {} refused",
        grouped(sums.entries),
        grouped(sums.payment_rows),
        grouped(sums.payment_rows_succeeded),
        grouped(sums.review),
        grouped(sums.ignored),
        grouped(sums.refused),
    )?;
    Ok(())
}

fn cells(file: usize, several: bool, entry: &Entry<'_>) -> [String; 9] {
    [
        place(file, several, entry.line),
        name(entry.kind),
        name(entry.status),
        amount(entry),
        entry.currency.to_string(),
        plain(entry.reference.as_deref().unwrap_or("-")),
        plain(entry.provider_id.as_deref().unwrap_or("-")),
        plain(&time(entry)),
        if entry.review { plain(&entry.notes.join("; ")) } else { String::new() },
    ]
}

fn total_cells(total: &Total) -> [String; 4] {
    let sum = format_minor(total.sum_minor, total.currency.exponent());
    [total.currency.to_string(), name(total.kind), grouped(total.rows), sum]
}

fn refused_lines(report: &Report, sums: &Sums, several: bool, out: &mut dyn Write) -> Result<(), InspectError> {
    if sums.refused == 0 {
        return Ok(());
    }
    writeln!(out, "\nrefused rows")?;
    let mut shown = 0;
    each(report, &mut |item| {
        if let Item::Refused(row) = item
            && shown < TABLE_ROWS_MAX
        {
            shown += 1;
            writeln!(out, "  {}", refused_line(several, &row))?;
        }
        Ok(())
    })?;
    if sums.refused > shown as u64 {
        writeln!(out, "  ... {} more; --output json prints all", grouped(sums.refused - shown as u64))?;
    }
    Ok(())
}

fn refused_line(several: bool, row: &RefusedRow) -> String {
    let column = row.column.as_ref().map_or_else(String::new, |c| format!(", column {}", plain(c)));
    format!("line {}{column}: {:?}: {}", place(row.file, several, row.line), row.raw, row.reason)
}

/// Line, with the file's number (from 1) where there are several.
fn place(file: usize, several: bool, line: u64) -> String {
    if several { format!("{}:{line}", file + 1) } else { line.to_string() }
}

/// Foreign text on a terminal: control characters (line breaks, escape sequences) are written out.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    plain
}

/// `4800` as `4,800`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Columns padded to their widest cell; amounts, sums and counts to the right.
fn aligned<const N: usize>(out: &mut dyn Write, titles: &[&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([titles[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(widths[at] - cell.chars().count());
            let right = matches!(titles[at], "line" | "amount" | "rows" | "sum");
            let (before, after) = if right { (pad.as_str(), "") } else { ("", pad.as_str()) };
            text.extend([before, cell, after, "  "]);
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(*titles)?;
    rows.iter().try_for_each(|row| line(std::array::from_fn(|at| row[at].as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_control_characters_written_out() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
    }
}
