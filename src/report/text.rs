//! `report.txt`, and what `reconcile` prints: plain columns that survive a terminal, a ticket and a mail.
//!
//! Each block is a function of the view and ends with a line feed; a block with nothing to say is empty.

use std::fmt::Write;

use chrono::{DateTime, Utc};

use super::row::{Row, SideLine};
use super::verdict::TodoLine;
use super::view::View;
use crate::domain::run::Reconciliation;

/// Appends formatted text to a `String`.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { write!($out, $($text)*).expect("writing to a String cannot fail") };
}

/// How the text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle<'a> {
    /// The instant to which ages count.
    pub now: DateTime<Utc>,
    /// Whether the verdict and severities carry ANSI colours.
    pub color: bool,
    /// Folder that holds the run's files; `None` when they are not written or stand beside the text.
    pub folder: Option<&'a str>,
}

/// Longest foreign text on one line, in characters.
const WIDTH_MAX: usize = 60;
/// Unreadable rows that are quoted.
const REFUSED_MAX: usize = 5;

/// The whole report as text, ending with a line feed.
pub fn text(found: &Reconciliation, style: TextStyle<'_>) -> String {
    let view = View::new(found, style.now);
    let mut blocks = vec![
        verdict(&view, style.color),
        todo(&view),
        control(&view),
        money(&view),
        kinds(&view, style.color),
        ageing(&view),
        top(&view, style.color),
        refused(&view),
        remarks(&view),
        next(&view, style.folder),
        foot(&view),
    ];
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

/// One paragraph: how it went, for whom, which day.
pub(super) fn verdict(view: &View, color: bool) -> String {
    let word = match view.level {
        "ok" => "OK",
        "broken" => "DOES NOT ADD UP",
        "critical" => "CRITICAL",
        "high" => "HIGH",
        _ => "MEDIUM",
    };
    let risk = if view.at_risk.is_empty() { String::new() } else { format!("At risk: {}.\n", view.at_risk) };
    format!("{}  {}  {}\n{}\n{risk}", painted(word, view.level, color), view.who, view.day, view.verdict)
}

pub(super) fn todo(view: &View) -> String {
    let mut out = String::from("To do today\n");
    for TodoLine { what, action, at_risk } in &view.todo {
        let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
        let risk = if at_risk.is_empty() { String::new() } else { format!("\n      at risk {at_risk}") };
        put!(out, "  - {what}{action}{risk}\n");
    }
    out
}

pub(super) fn control(view: &View) -> String {
    let mut rows = vec![cells(["", "provider", "ours"])];
    for line in &view.control {
        let shown = |n: &Option<String>| n.clone().unwrap_or_else(|| "-".to_owned());
        rows.push(vec![line.label.to_owned(), shown(&line.provider), shown(&line.local)]);
    }
    rows.push(cells(["Rows read", &view.provider_rows, &view.local_rows]));
    let verdict = if view.adds_up { "The buckets add up to the rows read" } else { "THE BUCKETS DO NOT ADD UP" };
    let ignored = match view.ignored.as_str() {
        "0" => String::new(),
        "1" => "; 1 more line of the report is rightly no row".to_owned(),
        lines => format!("; {lines} more lines of the report are rightly no rows (totals, lifecycle)"),
    };
    format!("Control\n{}  {verdict}{ignored}.\n", table(&rows, 1))
}

pub(super) fn money(view: &View) -> String {
    if view.money.is_empty() {
        return String::new();
    }
    let mut rows = vec![cells(["", "ours", "provider", "difference", "explained", "unexplained", "at risk"])];
    for m in &view.money {
        rows.push(cells([&m.currency, &m.local, &m.provider, &m.difference, &m.explained, &m.unexplained, &m.at_risk]));
    }
    let verdict = if view.money_explained {
        "Every difference is explained by breaks and waiting rows"
    } else {
        "A DIFFERENCE IS NOT EXPLAINED"
    };
    format!("Money that moved, per currency\n{}  {verdict}.\n", table(&rows, 1))
}

pub(super) fn kinds(view: &View, color: bool) -> String {
    if view.kinds.is_empty() {
        return String::new();
    }
    let mut rows = vec![cells(["", "", "total", "new", "open", "changed", "reopened", "at risk"])];
    for k in &view.kinds {
        // Remarks are counted, not reviewed: they are neither new nor open.
        let review = |n: &String| if k.is_break { n.clone() } else { "-".to_owned() };
        let mut row = cells([k.severity, k.kind, &k.total]);
        row.extend([&k.new, &k.still_open, &k.changed, &k.reopened].map(review));
        row.push(k.at_risk.clone());
        rows.push(row);
    }
    let mut out = String::from("Findings by kind\n");
    let severities = std::iter::once("").chain(view.kinds.iter().map(|k| k.severity));
    for (line, severity) in table(&rows, 2).lines().zip(severities) {
        // The columns are aligned before they are painted: escapes have no width.
        let (margin, rest) = line.split_at(2);
        let (word, rest) = rest.split_at(severity.len());
        put!(out, "{margin}{}{rest}\n", painted(word, severity, color && !word.is_empty()));
    }
    out
}

pub(super) fn ageing(view: &View) -> String {
    if view.ageing.iter().all(|line| line.share == 0) {
        return String::new();
    }
    let mut rows = vec![cells(["", "breaks"])];
    rows[0].extend(view.ageing_currencies.iter().map(|c| format!("at risk {c}")));
    for line in &view.ageing {
        let mut row = cells([line.label, &line.count]);
        row.extend(line.amounts.iter().cloned());
        rows.push(row);
    }
    format!("Breaks by age of the charge\n{}", table(&rows, 1))
}

/// The worst breaks, two lines each.
pub(super) fn top(view: &View, color: bool) -> String {
    if view.top.is_empty() {
        return String::new();
    }
    let mut out = if view.breaks == view.top.len().to_string() {
        String::from("The breaks, worst first\n")
    } else {
        format!("The worst {} of {} breaks\n", view.top.len(), view.breaks)
    };
    for row in &view.top {
        let mut parts = vec![short(&row.reference), sides(row)];
        if !row.at_risk.is_empty() {
            parts.push(format!("at risk {} {}", row.currency, row.at_risk));
        }
        parts.push(row.age.clone());
        parts.push(row.seen.replace('_', " "));
        parts.retain(|part| !part.is_empty());
        let severity = painted(row.severity, row.severity, color);
        put!(out, "  {}  {severity}  {}  {}\n", row.id, row.kind, parts.join("  "));
        put!(out, "    {}\n", row.suggestion);
    }
    out
}

/// The first unreadable rows.
pub(super) fn refused(view: &View) -> String {
    if view.refused.is_empty() {
        return String::new();
    }
    let mut out = format!("Unreadable rows: {}\n", view.refused_total);
    for row in view.refused.iter().take(REFUSED_MAX) {
        let column = if row.column.is_empty() { String::new() } else { format!(" [{}]", short(&row.column)) };
        put!(out, "  {}{column} \"{}\": {}\n", row.place, short(&row.raw), row.reason);
    }
    if view.refused.len() > REFUSED_MAX {
        out.push_str("  ... the others stand in report.json\n");
    }
    out
}

pub(super) fn remarks(view: &View) -> String {
    let mut out = String::new();
    for line in &view.not_compared {
        put!(out, "  not compared: {line}\n");
    }
    for line in &view.non_charge {
        put!(out, "  {} x {}: {}\n", line.rows, line.kind, line.sum);
    }
    for note in &view.notes {
        put!(out, "  {note}\n");
    }
    if out.is_empty() { out } else { format!("Remarks\n{out}") }
}

/// Where to go on.
fn next(view: &View, folder: Option<&str>) -> String {
    let mut out = String::new();
    if let Some(folder) = folder {
        let folder = super::clean::visible(folder).into_owned();
        put!(out, "  open {folder}/report.html        all findings, sortable\n");
        put!(out, "       {folder}/mismatches.csv     the same for a spreadsheet\n");
        put!(out, "       {folder}/report.json        the same for programs\n");
    }
    if let (false, Some(file)) = (view.refused.is_empty(), view.files.first()) {
        let quoted = file.name.replace('\'', "'\\''");
        put!(out, "  idem-jobs inspect --report '{quoted}'   how each row was read\n");
    }
    if out.is_empty() { out } else { format!("Next\n{out}") }
}

/// What was read, by which rules.
pub(super) fn foot(view: &View) -> String {
    let mut out = String::from("This run\n");
    for file in &view.files {
        put!(out, "  file     {}  {} bytes  sha256 {}\n", file.name, file.bytes, file.sha256);
    }
    put!(out, "  window   {}\n", view.window);
    put!(out, "  run      {}  started {}, took {}\n", view.run_id, view.started_at, view.duration);
    put!(out, "  policy   format {}, grace {} h, idem-jobs {}\n", view.format, view.grace_hours, view.version);
    out
}

/// Both sides in a few words: `USD 50.00 -> USD 5,000.00`.
pub(super) fn sides(row: &Row) -> String {
    let amount = |side: &SideLine| match (side.present, side.amount.is_empty()) {
        (false, _) => "nothing".to_owned(),
        (true, true) => "no one amount".to_owned(),
        (true, false) => side.amount.clone(),
    };
    if !row.local.present && !row.provider.present {
        return String::new();
    }
    let (local, provider) = (amount(&row.local), amount(&row.provider));
    if local != provider {
        return format!("{local} -> {provider}");
    }
    match (row.local.status.as_str(), row.provider.status.as_str()) {
        (ours, theirs) if ours != theirs => format!("{local}, {ours} -> {theirs}"),
        _ => local,
    }
}

/// A foreign text cut to a line.
fn short(text: &str) -> String {
    match text.char_indices().nth(WIDTH_MAX) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text.to_owned(),
    }
}

fn painted(text: &str, level: &str, color: bool) -> String {
    let code = match level {
        _ if !color => return text.to_owned(),
        "critical" | "broken" => "1;31",
        "high" => "1;33",
        "medium" => "36",
        "ok" => "1;32",
        _ => "2",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn cells<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

/// Columns two blanks apart, the first `left` ones flush left, the others flush right.
fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            line.push_str("  ");
            if column < left {
                put!(line, "{cell:<width$}");
            } else {
                put!(line, "{cell:>width$}");
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::sample::{bad_day, clean_day, hostile_day, now};
    use super::*;
    use crate::domain::mismatch::Standing;

    fn plain() -> TextStyle<'static> {
        TextStyle { now: now(), color: false, folder: Some("reports/out/stripe/2026-05-01/0196a1b2") }
    }

    #[test]
    fn a_bad_day_in_full() {
        insta::assert_snapshot!(text(&bad_day(26), plain()));
    }

    #[test]
    fn a_clean_day_in_full() {
        insta::assert_snapshot!(text(&clean_day(), plain()));
    }

    #[test]
    fn colour_changes_nothing_but_escapes() {
        let day = bad_day(26);
        let mut coloured = text(&day, TextStyle { color: true, ..plain() });
        assert!(coloured.contains("\x1b[1;31mCRITICAL\x1b[0m"));
        for code in ["1;31", "1;33", "1;32", "36", "2", "0"] {
            coloured = coloured.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(coloured, text(&day, plain()));
    }

    #[test]
    fn hostile_values_cannot_steer_a_terminal() {
        let mut day = hostile_day();
        day.notes.push("\x1b[2J\x1b]0;owned\x07".to_owned());
        let text = text(&day, plain());
        assert!(text.chars().all(|c| c == '\n' || !super::super::clean::is_hidden(c)));
        assert!(!text.contains("4111111111111111"));
        assert!(text.lines().all(|line| line.chars().count() < 700));
    }

    #[test]
    fn sums_that_do_not_add_up_are_said_before_all_else() {
        let mut day = bad_day(26);
        day.control.local_matched -= 1;
        let report = text(&day, plain());
        assert!(report.starts_with("DOES NOT ADD UP  stripe/acct_1  2026-05-01\nThe sums do not add up"), "{report}");
        assert!(report.contains("THE BUCKETS DO NOT ADD UP"));

        let mut day = clean_day();
        day.money[0].unexplained_minor = 1;
        assert!(text(&day, plain()).starts_with("DOES NOT ADD UP"));
    }

    #[test]
    fn nothing_matched_is_not_called_agreement() {
        let mut day = clean_day();
        day.control = crate::domain::run::Control::default();
        assert!(text(&day, plain()).contains("Nothing was matched and nothing differs"));
    }

    #[test]
    fn known_breaks_are_no_news() {
        let mut day = bad_day(26);
        day.mismatches.iter_mut().for_each(|m| m.seen = Standing::StillOpen);
        day.counts.values_mut().for_each(|count| count.new = 0);
        assert!(text(&day, plain()).contains("Nothing new. 24 known breaks need a decision."));
    }
}
