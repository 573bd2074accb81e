//! What `partitions` prints: a run's outcome table by table, or a plan with the SQL and the lock of each statement.

use std::io::{self, Write};

use crate::job::partitions::{Done, Planned, TableDone, Word};

/// Prints a run for people.
pub fn print(done: &Done, out: &mut impl Write) -> io::Result<()> {
    if done.outcome == Word::Busy {
        return writeln!(out, "busy: another run holds the lock; nothing was done");
    }
    for table in &done.tables {
        print_table(table, done.dry_run, out)?;
    }
    if let Some(reason) = &done.no_removal {
        writeln!(out, "no removal: {reason}")?;
    }
    let dry = if done.dry_run { " (dry run: nothing was sent)" } else { "" };
    writeln!(out, "{}{dry}", done.outcome.name())
}

fn print_table(table: &TableDone, dry_run: bool, out: &mut impl Write) -> io::Result<()> {
    let word = if dry_run { "plan" } else { table.outcome.name() };
    writeln!(out, "{}: {word}", table.table)?;
    if let Some(reason) = &table.refused {
        writeln!(out, "  refused     {reason}; nothing was sent")?;
    }
    for step in &table.planned {
        print_step(step, out)?;
    }
    let lists = [
        ("made", &table.created),
        ("finalized", &table.finalized),
        ("detached", &table.detached),
        ("dropped", &table.dropped),
        ("put back", &table.reattached),
        ("held", &table.held),
        ("failed", &table.failed),
        ("note", &table.notes),
        ("uncovered", &table.uncovered),
    ];
    for (title, lines) in lists {
        for line in lines {
            writeln!(out, "  {title:<11} {line}")?;
        }
    }
    if table.held_rows > 0 {
        writeln!(out, "  moved       {} unfinished keys to idem.held_keys", table.held_rows)?;
    }
    for deferral in &table.deferred {
        writeln!(out, "  deferred    {}: {}", deferral.what, deferral.reason)?;
        for blocker in &deferral.blockers {
            writeln!(out, "              blocked by {blocker}")?;
        }
    }
    if let Some(until) = table.covered_until {
        writeln!(out, "  covered     until {}", until.format("%Y-%m-%dT%H:%M:%SZ"))?;
    }
    Ok(())
}

fn print_step(step: &Planned, out: &mut impl Write) -> io::Result<()> {
    let together = if step.transaction { "one transaction, " } else { "" };
    writeln!(out, "  -- {} ({together}{})", step.what, step.waits)?;
    if step.transaction {
        writeln!(out, "  BEGIN;")?;
    }
    for statement in &step.statements {
        writeln!(out, "  {};  -- lock: {}", statement.sql, statement.lock)?;
    }
    if step.transaction {
        writeln!(out, "  COMMIT;")?;
    }
    Ok(())
}
