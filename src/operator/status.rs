//! `status`, the part about tables: the days that are there, and how late replays come against the retention.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::config::value::print_span;
use crate::config::{PartitionSettings, PartitionTable, TableKind};
use crate::store::Store;
use crate::store::partitions::{DaySize, ReplayAge};

use super::plan::{grouped, size};

/// A table with its days.
#[derive(Clone, Debug, Serialize)]
struct Table {
    name: String,
    problem: Option<String>,
    retention_seconds: u64,
    days: Vec<Day>,
}

#[derive(Clone, Debug, Serialize)]
struct Day {
    child: String,
    period: String,
    rows_estimated: u64,
    bytes: u64,
    pending: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Replays {
    keys: i64,
    latest_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    retention_seconds: u64,
}

/// Prints the status.
pub async fn run(store: &Store, settings: &PartitionSettings, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    store.require_ready().await?;
    let mut session = store.look_at_partitions(settings).await?;
    let mut tables = Vec::new();
    for table in &settings.tables {
        tables.push(match session.facts(table).await? {
            Ok(facts) => of(table, session.sizes(&facts).await?),
            Err(problem) => Table { problem: Some(problem.to_string()), ..of(table, Vec::new()) },
        });
    }
    let ReplayAge { keys, latest_seconds, p99_seconds } = session.replay_age().await?;
    let retention = settings.tables.iter().find(|table| table.kind == TableKind::Keys).map(|table| table.retention);
    let retention_seconds = retention.unwrap_or_default().as_secs();
    let replays = Replays { keys, latest_seconds, p99_seconds, retention_seconds };
    let last_success = session.last_success().await?;
    session.end().await?;
    if json {
        let object = serde_json::json!({
            "schema": "idem-jobs/status/1", "tables": tables, "replays": replays, "partitions_last_success": last_success,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
        return Ok(());
    }
    for table in &tables {
        print(table, out)?;
    }
    print_replays(&replays, out)?;
    match last_success {
        Some(at) => writeln!(out, "partitions last ended well at {}", at.format("%Y-%m-%dT%H:%M:%SZ"))?,
        None => writeln!(out, "partitions never ended well")?,
    }
    Ok(())
}

fn of(table: &PartitionTable, sizes: Vec<DaySize>) -> Table {
    let day = |DaySize { child, bytes }: DaySize| Day {
        child: child.shown,
        period: child.period.map_or_else(|| "default".to_owned(), |period| period.to_string()),
        rows_estimated: child.rows,
        bytes,
        pending: child.pending,
    };
    Table {
        name: table.name.to_string(),
        problem: None,
        retention_seconds: table.retention.as_secs(),
        days: sizes.into_iter().map(day).collect(),
    }
}

fn print(table: &Table, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{} (kept {})", table.name, print_span(Duration::from_secs(table.retention_seconds)))?;
    if let Some(problem) = &table.problem {
        return writeln!(out, "  {problem}");
    }
    for day in &table.days {
        let pending = if day.pending { "  detach pending" } else { "" };
        let rows = grouped(day.rows_estimated);
        writeln!(out, "  {:<24} {rows:>14} rows {:>12}{pending}", day.period, size(day.bytes))?;
    }
    Ok(())
}

fn print_replays(replays: &Replays, out: &mut impl Write) -> io::Result<()> {
    let retention = print_span(Duration::from_secs(replays.retention_seconds));
    match (replays.latest_seconds, replays.p99_seconds) {
        (Some(latest), Some(p99)) => writeln!(
            out,
            "replays of {} keys; the latest replay came {} after creation, 99 % within {}; retention is {retention}",
            replays.keys,
            about(latest),
            about(p99)
        ),
        _ => writeln!(out, "no replay so far; retention is {retention}"),
    }
}

/// A length of time for people: seconds, minutes or hours.
fn about(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7_200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3_600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_said_in_their_unit() {
        for (seconds, said) in [(0.4, "0 s"), (119.0, "119 s"), (600.0, "10 min"), (10_800.0, "3.0 h")] {
            assert_eq!(about(seconds), said);
        }
    }
}
