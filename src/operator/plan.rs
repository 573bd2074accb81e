//! `plan`: how large the managed tables get, from a given rate or the measured one.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::config::value::print_span;
use crate::config::{PartitionSettings, PartitionTable};
use crate::policy::budget::{Load, budget};
use crate::store::partitions::DaySize;
use crate::store::{Store, StoreError};

/// What is assumed of a row when nothing is given and nothing can be measured, in bytes.
const ROW_BYTES_ASSUMED: u64 = 1_024;
const DAY_SECONDS: f64 = 86_400.0;

/// What the operator states.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// `--rate`
    pub rate: Option<f64>,
    /// `--retention`
    pub retention: Option<Duration>,
    /// `--row-bytes`
    pub row_bytes: Option<u64>,
}

/// One table's budget.
#[derive(Clone, Debug, Serialize)]
struct Line {
    table: String,
    rows_per_second: f64,
    rate_from: &'static str,
    row_bytes: u64,
    row_bytes_from: &'static str,
    retention_seconds: u64,
    rows_per_day: u64,
    bytes_per_day: u64,
    days_max: u64,
    rows_max: u64,
    bytes_max: u64,
}

/// Prints the budgets. Without a database only a stated rate can be worked out.
pub async fn run(
    store: Option<&Store>,
    settings: &PartitionSettings,
    stated: Stated,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for table in &settings.tables {
        let measured = match store {
            Some(store) if stated.rate.is_none() || stated.row_bytes.is_none() => {
                measure(store, settings, table).await?
            }
            _ => None,
        };
        lines.push(line(table, stated, measured));
    }
    if json {
        let object = serde_json::json!({"schema": "idem-jobs/plan/1", "tables": lines});
        writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    } else {
        for line in &lines {
            print(line, out)?;
        }
    }
    Ok(())
}

/// The fullest day as the server estimates it: its rate, and its bytes a row.
async fn measure(
    store: &Store,
    settings: &PartitionSettings,
    table: &PartitionTable,
) -> Result<Option<Load>, StoreError> {
    let mut session = store.look_at_partitions(settings).await?;
    let sizes = match session.facts(table).await? {
        Ok(facts) => session.sizes(&facts).await?,
        Err(_) => Vec::new(),
    };
    session.end().await?;
    let fullest = sizes.into_iter().filter(|day| day.child.rows > 0).max_by_key(|day| day.child.rows);
    Ok(fullest.map(|DaySize { child, bytes }| Load {
        rows_per_second: child.rows as f64 / DAY_SECONDS,
        row_bytes: (bytes / child.rows).max(1),
    }))
}

fn line(table: &PartitionTable, stated: Stated, measured: Option<Load>) -> Line {
    let (rows_per_second, rate_from) = match (stated.rate, measured) {
        (Some(rate), _) => (rate, "given"),
        (None, Some(load)) => (load.rows_per_second, "measured, fullest day"),
        (None, None) => (0.0, "nothing to measure: give --rate"),
    };
    let (row_bytes, row_bytes_from) = match (stated.row_bytes, measured) {
        (Some(bytes), _) => (bytes, "given"),
        (None, Some(load)) => (load.row_bytes, "measured"),
        (None, None) => (ROW_BYTES_ASSUMED, "assumed"),
    };
    let retention = stated.retention.unwrap_or(table.retention);
    let budget = budget(Load { rows_per_second, row_bytes }, retention);
    Line {
        table: table.name.to_string(),
        rows_per_second,
        rate_from,
        row_bytes,
        row_bytes_from,
        retention_seconds: retention.as_secs(),
        rows_per_day: budget.rows_per_day,
        bytes_per_day: budget.bytes_per_day,
        days_max: budget.days_max,
        rows_max: budget.rows_max,
        bytes_max: budget.bytes_max,
    }
}

fn print(line: &Line, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", line.table)?;
    writeln!(out, "  rate        {:.3} rows a second ({})", line.rows_per_second, line.rate_from)?;
    writeln!(out, "  row         {} bytes with indexes ({})", line.row_bytes, line.row_bytes_from)?;
    writeln!(out, "  retention   {}", print_span(Duration::from_secs(line.retention_seconds)))?;
    writeln!(out, "  a day       {} rows, {}", grouped(line.rows_per_day), size(line.bytes_per_day))?;
    writeln!(out, "  at most     {} rows, {} in {} days", grouped(line.rows_max), size(line.bytes_max), line.days_max)
}

/// `4800` as `4,800`.
pub(super) fn grouped(number: u64) -> String {
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

/// Bytes with the unit that leaves one to three digits before the point.
pub(super) fn size(bytes: u64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut shown = bytes as f64;
    let mut unit = 0;
    while shown >= 1_000.0 && unit + 1 < units.len() {
        shown /= 1_000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{shown:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, shown) in [(0, "0 bytes"), (999, "999 bytes"), (1_000, "1.0 kB"), (530_841_600_000, "530.8 GB")] {
            assert_eq!(size(bytes), shown);
        }
    }
}
