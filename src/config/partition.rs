//! `[partitions]`: which tables are kept at their size, and how patiently.

use std::time::Duration;

use crate::domain::partition::TableName;

use super::check::Check;
use super::file;
use super::settings::{PartitionSettings, PartitionTable, TableKind};
use super::value::print_span;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Longest condition that says what is unfinished, in bytes.
const CONDITION_BYTES_MAX: usize = 4 * 1024;

/// Reads the section.
pub(super) fn partitions(check: &mut Check<'_>, file: &file::Partitions) -> PartitionSettings {
    let mut settings = PartitionSettings {
        tables: Vec::new(),
        wait_budget: check.span(
            "partitions.wait_budget",
            file.wait_budget.as_ref(),
            10 * MINUTE,
            &(SECOND..=12 * HOUR),
        ),
        // Shorter than PostgreSQL's deadlock_timeout (1 s), and autovacuum would never make way.
        lock_timeout: check.span(
            "partitions.lock_timeout",
            file.lock_timeout.as_ref(),
            30 * SECOND,
            &(2 * SECOND..=HOUR),
        ),
        removals_max: usize::try_from(check.count("partitions.removals_max", file.removals_max, 10, &(1..=1_000)))
            .expect("at most a thousand"),
        detached_grace: check.span(
            "partitions.detached_grace",
            file.detached_grace.as_ref(),
            Duration::ZERO,
            &(Duration::ZERO..=90 * DAY),
        ),
        pending_max: check.span("partitions.pending_max", file.pending_max.as_ref(), HOUR, &(MINUTE..=30 * DAY)),
        skew_max: check.span("partitions.skew_max", file.skew_max.as_ref(), 5 * MINUTE, &(SECOND..=DAY)),
        client_retry_window: check.span(
            "partitions.client_retry_window",
            file.client_retry_window.as_ref(),
            72 * HOUR,
            &(MINUTE..=365 * DAY),
        ),
        largest_ttl: check.span("partitions.largest_ttl", file.largest_ttl.as_ref(), 72 * HOUR, &(MINUTE..=365 * DAY)),
    };
    for (at, entry) in file.table.iter().enumerate() {
        let key = format!("partitions.table[{at}]");
        let table = table(check, &key, entry);
        if settings.tables.iter().any(|above| above.name == table.name) {
            check.problem(&key, "this table has an entry above");
        }
        settings.tables.push(table);
    }
    for ours in [PartitionTable::keys(), PartitionTable::inbox()] {
        if !settings.tables.iter().any(|table| table.name == ours.name) {
            settings.tables.push(ours);
        }
    }
    settings
}

fn table(check: &mut Check<'_>, key: &str, entry: &file::PartitionTable) -> PartitionTable {
    if entry.name.is_none() {
        check.problem(&format!("{key}.name"), "this key is needed");
    }
    let name = check.text(&format!("{key}.name"), entry.name.as_ref(), TableName::parse);
    let known = [PartitionTable::keys(), PartitionTable::inbox()];
    let ours = known.iter().find(|ours| Some(&ours.name) == name.as_ref());
    let base = ours.cloned().unwrap_or_else(|| PartitionTable {
        name: name.unwrap_or_else(|| PartitionTable::keys().name),
        column: String::new(),
        kind: TableKind::Plain,
        ..PartitionTable::keys()
    });
    if base.column.is_empty() && entry.column.is_none() {
        check.problem(&format!("{key}.column"), "this key is needed");
    }
    let whole_days = 0..=365 * 30;
    let table = PartitionTable {
        column: check.text(&format!("{key}.column"), entry.column.as_ref(), column).unwrap_or(base.column),
        kind: check.text(&format!("{key}.kind"), entry.kind.as_ref(), kind).unwrap_or(base.kind),
        premake_days: u32::try_from(check.count(
            &format!("{key}.premake"),
            entry.premake,
            u64::from(base.premake_days),
            &(1..=366),
        ))
        .expect("its range ends at 366"),
        retention: check.span(
            &format!("{key}.retention"),
            entry.retention.as_ref(),
            base.retention,
            &(HOUR..=DAY * *whole_days.end()),
        ),
        retention_floor: check.span(
            &format!("{key}.retention_floor"),
            entry.retention_floor.as_ref(),
            base.retention_floor,
            &(HOUR..=DAY * *whole_days.end()),
        ),
        create: entry.create.unwrap_or(true),
        detach: entry.detach.unwrap_or(true),
        drop: entry.drop.unwrap_or(true),
        analyze: entry.analyze.unwrap_or(true),
        unfinished: check.text(&format!("{key}.unfinished"), entry.unfinished.as_ref(), condition),
        name: base.name,
    };
    check.text(&format!("{key}.interval"), entry.interval.as_ref(), interval);
    if table.retention < table.retention_floor {
        let (retention, floor) = (print_span(table.retention), print_span(table.retention_floor));
        check.problem(
            &format!("{key}.retention"),
            format!("{retention} is under the floor of {floor} (retention_floor): nothing younger is ever removed"),
        );
    }
    if table.unfinished.is_some() && table.kind == TableKind::Keys {
        check.problem(&format!("{key}.unfinished"), "a table of kind keys knows itself what is unfinished");
    }
    table
}

fn kind(text: &str) -> Result<TableKind, String> {
    match text {
        "keys" => Ok(TableKind::Keys),
        "inbox" => Ok(TableKind::Inbox),
        "plain" => Ok(TableKind::Plain),
        _ => Err("expected keys, inbox or plain".to_owned()),
    }
}

fn interval(text: &str) -> Result<(), String> {
    if text == "day" { Ok(()) } else { Err("expected day: one partition a day of UTC".to_owned()) }
}

fn column(text: &str) -> Result<String, String> {
    TableName::of("x", text)
        .map(|name| name.name().to_owned())
        .ok_or_else(|| "expected the name of a column: 1 to 63 bytes, no quotes or control characters".to_owned())
}

/// A condition becomes part of `SELECT ... WHERE (condition)`: what could end the statement is refused.
fn condition(text: &str) -> Result<String, String> {
    let balanced = text.chars().try_fold(0_i32, |depth, letter| match letter {
        '(' => Some(depth + 1),
        ')' if depth > 0 => Some(depth - 1),
        ')' => None,
        _ => Some(depth),
    });
    let sound = !text.trim().is_empty() && text.len() <= CONDITION_BYTES_MAX && balanced == Some(0);
    if sound && ![";", "--", "/*", "\0"].iter().any(|part| text.contains(part)) {
        Ok(text.trim().to_owned())
    } else {
        Err("expected a condition over the columns of one row, such as \"state = 'open'\", without `;` or comments"
            .to_owned())
    }
}
