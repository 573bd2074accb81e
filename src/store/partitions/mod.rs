//! Partition maintenance: facts out of the catalog, statements with the lock that each takes, one session to run them.
//!
//! Never here: which days to make or remove (`policy`), and in which order a run does it (`job`).

mod bounds;
mod ddl;
mod facts;
mod ledger;
mod rows;
mod session;

pub use ddl::{
    LadderRoad, analyze, attach_again, detach_concurrently, drop_detached, drop_pending, finalize, make_day,
    remove_by_ladder,
};
pub use ledger::{close_row, detached, intent};
pub use rows::{DaySize, Held, ReplayAge, Unfinished};
pub use session::{Blocker, PartitionSession, StepError};

/// One statement, and who could notice it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// As it is sent.
    pub sql: String,
    /// The locks that it takes, in words.
    pub lock: &'static str,
    /// For a query that must give one number: that number, and what it means when it is another.
    pub expects: Option<(i64, &'static str)>,
}

impl Statement {
    fn new(sql: impl Into<String>, lock: &'static str) -> Self {
        Self { sql: sql.into(), lock, expects: None }
    }
}

/// How long a step waits for locks, by whether anybody would queue behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Nobody queues behind: longer than PostgreSQL's deadlock_timeout, so that autovacuum makes way.
    Long,
    /// Nothing is held while it waits, and giving up leaves a half-done detach: the rest of the run's budget.
    Budget,
    /// As [`Self::Long`] for all its waits together: old snapshots, one after the other.
    Finish,
    /// Writers queue behind: 0.2 s a try, several tries.
    Ladder,
}

impl Patience {
    /// In words, for a plan.
    pub fn words(self) -> &'static str {
        match self {
            Self::Long => "waits up to lock_timeout, nobody queues behind",
            Self::Finish => "waits up to lock_timeout in all, nobody queues behind",
            Self::Budget => "waits up to the rest of wait_budget, nobody queues behind",
            Self::Ladder => "tries of 0.2 s, since writers queue behind",
        }
    }
}

/// Statements that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done, in words.
    pub what: String,
    /// How patiently.
    pub patience: Patience,
    /// In one transaction, or each alone.
    pub transaction: bool,
    /// What is sent.
    pub statements: Vec<Statement>,
}

/// A step of one statement that nobody waits for.
pub fn single_step(what: String, statement: Statement) -> Step {
    Step { what, patience: Patience::Long, transaction: false, statements: vec![statement] }
}

/// A value as a literal. With `standard_conforming_strings` on, as our sessions set it, only the quote is special.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
