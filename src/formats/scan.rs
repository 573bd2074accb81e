//! One pass over one file that is a plain table: each record becomes entries, an ignored line or a refused row.

use std::ops::ControlFlow;

use super::error::ReportError;
use super::records::{Record, Records};
use super::repair;
use super::report::Part;
use super::row::{Emit, Fault, Row, Rules};
use super::titles::Layout;

/// Reads one file of a report.
pub(super) fn scan(layout: &Layout, part: &Part, emit: &mut Emit<'_>) -> Result<(), ReportError> {
    let plan = &part.plan;
    let mut records = Records::new(&part.source.name, part.text(), plan.delimiter);
    let (mut seen, mut next_line) = (0, 1);
    while let Some(record) = records.next()? {
        seen += 1;
        if seen <= plan.head_records && plan.head_records > 1 {
            emit_preamble(next_line..record.line, emit);
            let is_titles = seen == plan.head_records;
            emit.ignored(record.line, if is_titles { "the title line" } else { "before the title line" });
            next_line = record.next_line;
        } else if seen > plan.head_records {
            if !record.ended && record.len() < plan.named_width && !record.is_blank() {
                return Err(cut(part, &record));
            }
            read_record(layout, part, &part.rules, record, emit);
        }
        if emit.stopped {
            return Ok(());
        }
    }
    Ok(())
}

/// Blank lines among what stands before the rows: they are lines of the report too.
pub(super) fn emit_preamble(blank: std::ops::Range<u64>, emit: &mut Emit<'_>) {
    for line in blank {
        emit.ignored(line, "blank line");
    }
}

/// Hands over each sound row of one file. What is wrong with the others is for the reading to say.
pub(super) fn survey(
    layout: &Layout,
    part: &Part,
    look: &mut dyn FnMut(&Row<'_>) -> Result<(), Fault>,
) -> Result<(), ReportError> {
    let mut records = Records::new(&part.source.name, part.text(), part.plan.delimiter);
    let mut seen = 0;
    while let Some(record) = records.next()? {
        seen += 1;
        if seen > part.plan.head_records {
            // A fault of a row is told when the row is read.
            let _ = with_row(layout, part, &part.rules, record, &mut *look);
        }
    }
    Ok(())
}

pub(super) fn cut(part: &Part, record: &Record<'_>) -> ReportError {
    let reason = format!("its last record has {} of {} cells and no line end", record.len(), part.plan.titles.len());
    ReportError::Cut { name: part.source.name.clone(), line: record.line, reason }
}

/// Reads one record behind the titles.
pub(super) fn read_record(layout: &Layout, part: &Part, rules: &Rules, record: Record<'_>, emit: &mut Emit<'_>) {
    let line = record.line;
    match with_row(layout, part, rules, record, &mut |row| (layout.read_row)(row, emit)) {
        Ok(None) => {}
        Ok(Some(reason)) => emit.ignored(line, reason),
        Err(fault) => emit.refused(line, fault),
    }
}

/// Hands over the row that a record is; or gives the reason why it is rightly none.
pub(super) fn with_row(
    layout: &Layout,
    part: &Part,
    rules: &Rules,
    record: Record<'_>,
    on: &mut dyn FnMut(&Row<'_>) -> Result<(), Fault>,
) -> Result<Option<&'static str>, Fault> {
    let plan = &part.plan;
    if record.is_blank() {
        return Ok(Some("blank row"));
    }
    let fault = if let Some(why) = record.damage {
        whole(&record, why)
    } else if record.len() != plan.titles.len() && record.len() != plan.named_width {
        let reason = format!("the record has {} cells, the title line has {}", record.len(), plan.titles.len());
        whole(&record, &reason)
    } else if is_title_line(&record, &plan.titles) {
        return Ok(Some("the title line again: joined files"));
    } else {
        let row = Row::new(record, &plan.titles, &plan.places.slots, &plan.reference, rules);
        if !row.is_text() {
            return Err(bad_text(&record, record.bad_text().unwrap_or_default(), &plan.titles));
        }
        return same_in_twins(&row, &plan.places.twins).and_then(|()| on(&row)).map(|()| None);
    };
    let json: Vec<usize> = layout.extra.json_columns.iter().filter_map(|&column| plan.places.slots[column]).collect();
    if json.is_empty() {
        return Err(fault);
    }
    match repair::without_json(&record, plan.delimiter, &json) {
        Some(repaired) => with_repaired((part, rules), &record, &repaired, on).unwrap_or(Err(fault)),
        None => Err(fault),
    }
}

/// Hands over the row of a repaired record; `None` when it is still no sound one.
fn with_repaired(
    (part, rules): (&Part, &Rules),
    damaged: &Record<'_>,
    repaired: &[u8],
    on: &mut dyn FnMut(&Row<'_>) -> Result<(), Fault>,
) -> Option<Result<Option<&'static str>, Fault>> {
    let plan = &part.plan;
    let mut records = Records::of_one(&part.source.name, repaired, plan.delimiter);
    let mut record = records.next().ok().flatten()?;
    let right_width = record.len() == plan.titles.len() || record.len() == plan.named_width;
    if record.damage.is_some() || !right_width || record.bad_text().is_some() {
        return None;
    }
    record.line = damaged.line;
    let row = Row::new(record, &plan.titles, &plan.places.slots, &plan.reference, rules);
    Some(same_in_twins(&row, &plan.places.twins).and_then(|()| on(&row)).map(|()| None))
}

/// A fault of the record as a whole.
pub(super) fn whole(record: &Record<'_>, reason: &str) -> Fault {
    let raw = record.raw().trim_ascii_end();
    // A damaged record may be large, a message needs its beginning only.
    let raw = String::from_utf8_lossy(&raw[..raw.len().min(2000)]).into_owned();
    Fault { column: None, raw, reason: reason.to_owned() }
}

/// The fault of a cell that is not UTF-8; its bytes are shown escaped.
pub(super) fn bad_text(record: &Record<'_>, at: usize, titles: &[String]) -> Fault {
    let cell = record.cell(at);
    Fault {
        column: titles.get(at).cloned(),
        raw: cell[..cell.len().min(2000)].escape_ascii().to_string(),
        reason: "the text is not UTF-8: state --encoding (windows-1252 for older files)".to_owned(),
    }
}

pub(super) fn is_title_line(record: &Record<'_>, titles: &[String]) -> bool {
    record.len() <= titles.len() && (0..record.len()).all(|at| record.cell(at).trim_ascii() == titles[at].as_bytes())
}

/// A needed title that stands twice is harmless only while both cells say the same.
pub(super) fn same_in_twins(row: &Row<'_>, twins: &[(usize, usize)]) -> Result<(), Fault> {
    let differing = twins.iter().find(|(a, b)| row.record.cell(*a).trim_ascii() != row.record.cell(*b).trim_ascii());
    differing.map_or(Ok(()), |&(a, b)| {
        Err(Fault {
            column: Some(row.titles[a].clone()),
            raw: format!(
                "{} / {}",
                String::from_utf8_lossy(row.record.cell(a)),
                String::from_utf8_lossy(row.record.cell(b))
            ),
            reason: "the title stands twice and its cells differ".to_owned(),
        })
    })
}

/// Hands over the trimmed text of one column until `on` breaks; records that cannot be read are left to the scan.
pub(super) fn cells(
    part: &Part,
    column: usize,
    on: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<(), ReportError> {
    let plan = &part.plan;
    let Some(at) = plan.places.slots[column] else {
        return Ok(());
    };
    let mut records = Records::new(&part.source.name, part.text(), plan.delimiter);
    let mut seen = 0;
    while let Some(record) = records.next()? {
        seen += 1;
        if seen <= plan.head_records || at >= record.len() {
            continue;
        }
        let text = std::str::from_utf8(record.cell(at)).unwrap_or_default();
        if on(text.trim()).is_break() {
            break;
        }
    }
    Ok(())
}
