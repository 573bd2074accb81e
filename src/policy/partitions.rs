//! Which days a table needs, which may go, and by which road. Facts, settings and now come in, decisions go out.
//!
//! Never here: how a day is made or removed (`store` words it, `job` does it).

use chrono::{DateTime, Days, TimeDelta, Utc};

use crate::config::PartitionTable;
use crate::domain::partition::{Child, Leftover, Period, Stands, TableFacts, TableName};

/// From the beginning of today to the end of the last day that is to be there.
pub fn window(now: DateTime<Utc>, premake_days: u32) -> Period {
    let today = Period::day(now.date_naive());
    Period { from: today.from, to: today.to + TimeDelta::days(i64::from(premake_days)) }
}

/// What is left of `window` when all that is taken is taken away, in order.
pub fn holes(window: Period, taken: &[Period]) -> Vec<Period> {
    let mut taken: Vec<Period> = taken.iter().copied().filter(|period| period.overlaps(window)).collect();
    taken.sort_unstable();
    let mut holes = Vec::new();
    let mut at = window.from;
    for period in taken {
        if at < period.from {
            holes.push(Period { from: at, to: period.from });
        }
        at = at.max(period.to);
    }
    if at < window.to {
        holes.push(Period { from: at, to: window.to });
    }
    holes
}

/// A day, or what is free of it, that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// From when to when.
    pub period: Period,
    /// The child's name; `None` when PostgreSQL would cut it off.
    pub name: Option<TableName>,
}

/// Every stretch of the window that no child holds, cut at midnights: a hole in the middle too, today first.
///
/// A day that an irregular neighbour holds in part is filled around it.
pub fn creations(facts: &TableFacts, now: DateTime<Utc>, premake_days: u32) -> Vec<Creation> {
    let named = |name: &TableName| facts.children.iter().any(|child| child.name.as_ref() == Some(name));
    let taken = facts.taken();
    let whole = window(now, premake_days);
    let today = whole.from.date_naive();
    let days = (0..=u64::from(premake_days)).filter_map(|n| today.checked_add_days(Days::new(n)));
    let mut creations = Vec::new();
    for day in days {
        let mut plain_name_free = true;
        for period in holes(Period::day(day), &taken) {
            let plain = facts.name.child(period, true).filter(|name| plain_name_free && !named(name));
            plain_name_free &= plain.is_none();
            let name = plain.or_else(|| facts.name.child(period, false));
            creations.push(Creation { period, name });
        }
    }
    creations
}

/// The newest instant up to which children may go. Whatever the retention says, the floor holds.
pub fn horizon(table: &PartitionTable, now: DateTime<Utc>) -> DateTime<Utc> {
    let keep = table.retention.max(table.retention_floor);
    TimeDelta::from_std(keep).ok().and_then(|keep| now.checked_sub_signed(keep)).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

/// What is past its retention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// May go, oldest first.
    pub go: Vec<Child>,
    /// Would go too, but for the cap of a run.
    pub capped: usize,
    /// Past its retention and not ours to remove, with the reason.
    pub left_alone: Vec<(Child, &'static str)>,
}

/// The children that are past their retention. `now` is the database's clock, or earlier.
pub fn removals(facts: &TableFacts, table: &PartitionTable, now: DateTime<Utc>, removals_max: usize) -> Removals {
    let horizon = horizon(table, now);
    let mut removals = Removals::default();
    for child in &facts.children {
        let Some(period) = child.period.filter(|period| period.to <= horizon) else { continue };
        if child.pending {
            // Its detach is finished first, and then it is a leftover.
            continue;
        }
        match not_ours(facts, child, period) {
            Some(reason) => removals.left_alone.push((child.clone(), reason)),
            None => removals.go.push(child.clone()),
        }
    }
    removals.go.sort_by_key(|child| child.period);
    removals.capped = removals.go.len().saturating_sub(removals_max);
    removals.go.truncate(removals_max);
    removals
}

/// Why we do not remove this child: we remove what we made, or what is in every respect as if we had made it.
fn not_ours(facts: &TableFacts, child: &Child, period: Period) -> Option<&'static str> {
    if child.name.is_none() {
        return Some("its name cannot be written into a statement");
    }
    if !child.ordinary {
        return Some("it is partitioned further, or foreign");
    }
    let as_if_ours = period.as_day().is_some() && facts.name.child(period, true) == child.name;
    (!child.commented && !as_if_ours).then_some("it has neither our comment nor the name and bounds of a day of ours")
}

/// The road by which a child leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    /// DETACH CONCURRENTLY, then DROP: nobody queues behind it.
    Concurrent,
    /// One transaction that wants an exclusive lock on the parent: short tries, many of them.
    ///
    /// With an outgoing foreign key an attached child is dropped without any lock on the table that it points to;
    /// beside a default partition PostgreSQL refuses the concurrent detach.
    Ladder,
    /// The same with a DETACH in front: a table that others point to cannot be dropped while attached.
    LadderWithDetach,
}

/// Chooses the road.
pub fn road(facts: &TableFacts) -> Road {
    if !facts.incoming.is_empty() {
        Road::LadderWithDetach
    } else if !facts.outgoing.is_empty() || facts.default_child().is_some() {
        Road::Ladder
    } else {
        Road::Concurrent
    }
}

/// What becomes of a removal that an earlier run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing is left of it: close the ledger's row.
    Close,
    /// It was never begun: close the row; the child is a candidate like any other.
    Abandon,
    /// Its detach is pending: that comes first.
    Finalize,
    /// Drop the table.
    Drop,
    /// Put it back: by today's retention it is too young to go.
    Reattach,
    /// Keep it for now: drop is switched off, or its days of grace are not over.
    Keep,
    /// A table that we cannot prove to be ours: leave it, and say so.
    LeaveAlone,
}

/// Decides about a leftover. `grace_seconds` is how long a detached table is kept.
pub fn fate(leftover: &Leftover, table: &PartitionTable, now: DateTime<Utc>, grace_seconds: i64) -> Fate {
    match leftover.stands {
        Stands::Gone => Fate::Close,
        Stands::Attached => Fate::Abandon,
        Stands::Pending => Fate::Finalize,
        Stands::Unproven => Fate::LeaveAlone,
        Stands::Detached if leftover.period.to > horizon(table, now) => Fate::Reattach,
        Stands::Detached if !table.drop || leftover.age_seconds < grace_seconds => Fate::Keep,
        Stands::Detached => Fate::Drop,
    }
}

/// What stands against the removal of one day, found just before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// Rows that are unfinished or not expired, after all that can be moved was moved.
    pub unfinished: u64,
    /// Tables whose rows point to this day, and how many do.
    pub referenced_by: Vec<(String, u64)>,
}

/// Why a day stays, in words; `None` lets it go.
pub fn held(obstacles: &Obstacles) -> Option<String> {
    if let Some((table, rows)) = obstacles.referenced_by.first() {
        return Some(format!("referenced by {table} ({rows} rows)"));
    }
    (obstacles.unfinished > 0).then(|| format!("{} unfinished or unexpired rows", obstacles.unfinished))
}

#[cfg(test)]
#[path = "partitions_laws.rs"]
mod tests;
