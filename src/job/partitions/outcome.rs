//! What a run came to, for people and as JSON.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::domain::partition::{Period, TableName};
use crate::store::partitions::{Blocker, Step};

/// The outcome in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// Everything was as it should be.
    #[default]
    NothingToDo,
    /// What was to be done is done.
    Ok,
    /// Another run held the lock.
    Busy,
    /// Others kept what was needed; the next run goes on.
    Deferred,
    /// Part of it failed.
    Partial,
    /// This table, or every table, cannot be maintained as configured.
    Config,
    /// Rows that are needed keep a day, or the clocks do not agree.
    Held,
    /// Rows of a part of the coming days have nowhere to go.
    CoverageBreach,
}

impl Word {
    /// As it stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingToDo => "nothing-to-do",
            Self::Ok => "ok",
            Self::Busy => "busy",
            Self::Deferred => "deferred",
            Self::Partial => "partial",
            Self::Config => "config",
            Self::Held => "held",
            Self::CoverageBreach => "coverage-breach",
        }
    }
}

/// Something that waits for the next run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deferral {
    /// What was to be done.
    pub what: String,
    /// Which bound was reached.
    pub reason: String,
    /// Who was waited for.
    pub blockers: Vec<Blocker>,
}

/// A step of a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// What is done.
    pub what: String,
    /// How long it waits.
    pub waits: &'static str,
    /// Whether the statements are one transaction.
    pub transaction: bool,
    /// The statements.
    pub statements: Vec<PlannedStatement>,
}

/// A statement of a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedStatement {
    /// As it would be sent.
    pub sql: String,
    /// The locks that it takes.
    pub lock: &'static str,
}

impl Planned {
    pub(super) fn of(step: &Step) -> Self {
        let statements = step.statements.iter();
        Self {
            what: step.what.clone(),
            waits: step.patience.words(),
            transaction: step.transaction,
            statements: statements.map(|s| PlannedStatement { sql: s.sql.clone(), lock: s.lock }).collect(),
        }
    }
}

/// What became of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableDone {
    /// `schema.table`.
    pub table: String,
    /// In one word.
    pub outcome: Word,
    /// Why nothing was sent to it.
    pub refused: Option<String>,
    /// Steps of a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<Planned>,
    /// Days that were made.
    pub created: Vec<String>,
    /// Children whose detach was finished.
    pub finalized: Vec<String>,
    /// Children that were detached.
    pub detached: Vec<String>,
    /// Children that are gone.
    pub dropped: Vec<String>,
    /// Children that were put back.
    pub reattached: Vec<String>,
    /// Keys that were moved to `idem.held_keys`.
    pub held_rows: u64,
    /// Days that stay although they are past their retention, with the reason.
    pub held: Vec<String>,
    /// What waits for the next run.
    pub deferred: Vec<Deferral>,
    /// What failed.
    pub failed: Vec<String>,
    /// What an operator may want to know.
    pub notes: Vec<String>,
    /// Whether statistics were made.
    pub analyzed: bool,
    /// Stretches of the coming days without a partition.
    pub uncovered: Vec<String>,
    /// Until when rows have somewhere to go without a gap.
    pub covered_until: Option<DateTime<Utc>>,
    /// Whether a default partition takes what has no day.
    pub has_default: bool,
    /// Days that a dry run would make.
    #[serde(skip)]
    pub(super) to_be_made: Vec<Period>,
}

impl TableDone {
    pub(super) fn new(name: &TableName) -> Self {
        Self { table: name.to_string(), ..Self::default() }
    }

    /// Whether partitions came or went.
    pub(super) fn changed(&self) -> bool {
        let lists = [&self.created, &self.finalized, &self.detached, &self.dropped, &self.reattached];
        lists.iter().any(|list| !list.is_empty()) || !self.planned.is_empty()
    }

    /// With its word.
    pub(super) fn weighed(mut self) -> Self {
        self.outcome = if self.refused.is_some() {
            Word::Config
        } else if !self.uncovered.is_empty() && !self.has_default {
            Word::CoverageBreach
        } else if !self.held.is_empty() {
            Word::Held
        } else if !self.failed.is_empty() || !self.uncovered.is_empty() {
            Word::Partial
        } else if !self.deferred.is_empty() {
            Word::Deferred
        } else if self.changed() || self.held_rows > 0 || self.analyzed {
            Word::Ok
        } else {
            Word::NothingToDo
        };
        self
    }
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// `idem-jobs/partitions/1`.
    pub schema: &'static str,
    /// In one word.
    pub outcome: Word,
    /// Whether nothing was sent.
    pub dry_run: bool,
    /// Why nothing was removed from any table.
    pub no_removal: Option<String>,
    /// Table by table.
    pub tables: Vec<TableDone>,
}

impl Done {
    const SCHEMA: &'static str = "idem-jobs/partitions/1";

    pub(super) fn busy() -> Self {
        Self { schema: Self::SCHEMA, outcome: Word::Busy, dry_run: false, no_removal: None, tables: Vec::new() }
    }

    pub(super) fn of(tables: Vec<TableDone>, dry_run: bool, no_removal: Option<String>) -> Self {
        let all_refused = tables.iter().all(|table| table.outcome == Word::Config);
        // One table that cannot be maintained is a part that failed; no table at all is a configuration that fails.
        let words = tables.iter().map(|table| match table.outcome {
            Word::Config if !all_refused => Word::Partial,
            word => word,
        });
        let held = no_removal.as_ref().map(|_| Word::Held);
        let outcome = words.chain(held).max().unwrap_or_default();
        Self { schema: Self::SCHEMA, outcome, dry_run, no_removal, tables }
    }

    /// Counts for the journal.
    pub fn journal(&self) -> serde_json::Value {
        let sum = |of: fn(&TableDone) -> usize| self.tables.iter().map(of).sum::<usize>();
        serde_json::json!({
            "outcome": self.outcome,
            "tables": self.tables.len(),
            "created": sum(|t| t.created.len()),
            "finalized": sum(|t| t.finalized.len()),
            "detached": sum(|t| t.detached.len()),
            "dropped": sum(|t| t.dropped.len()),
            "reattached": sum(|t| t.reattached.len()),
            "held_days": sum(|t| t.held.len()),
            "held_rows": self.tables.iter().map(|t| t.held_rows).sum::<u64>(),
            "deferred": sum(|t| t.deferred.len()),
            "failed": sum(|t| t.failed.len()) + sum(|t| usize::from(t.refused.is_some())),
        })
    }
}
