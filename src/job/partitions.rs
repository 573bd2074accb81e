//! `partitions`: keeps tables that are partitioned by day at their size, for ever.
//!
//! Days are made before anything else and whatever becomes of the rest; a day goes only when nothing in it is needed.
//! Each table is on its own, and so is each phase: what is broken in one of ten stops none of the nine.

mod create;
mod outcome;
mod remove;
mod steps;

use chrono::{DateTime, Utc};

use crate::config::{PartitionSettings, PartitionTable, Secret};
use crate::domain::partition::TableFacts;
use crate::policy::partitions::{holes, window};
use crate::store::partitions::{PartitionSession, analyze};
use crate::store::{Store, StoreError};

pub use outcome::{Deferral, Done, Planned, TableDone, Word};

/// Statistics of a table that did not change are made again after this long.
const ANALYZE_EVERY_HOURS: i64 = 24;

/// What one call asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Show what would be sent, send nothing.
    pub dry_run: bool,
    /// Which phases.
    pub phases: Phases,
}

/// Which phases run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// Both.
    All,
    /// Days are made, none is removed.
    CreateOnly,
    /// Days are removed, none is made.
    DropOnly,
}

/// What a run depends on besides the request.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The database.
    pub store: &'a Store,
    /// For the lock's own connection.
    pub url: &'a Secret,
    /// The job's section.
    pub settings: &'a PartitionSettings,
    /// `--as-of`. It moves which days are made; a removal it can only make more careful.
    pub as_of: Option<DateTime<Utc>>,
    /// This machine's clock, only to be compared with the database's.
    pub machine_now: DateTime<Utc>,
}

/// A run in the middle of its work.
struct Run<'a> {
    ctx: &'a Ctx<'a>,
    request: Request,
    session: PartitionSession,
    /// Days are made from here on: the database's clock, or `--as-of`.
    create_from: DateTime<Utc>,
    /// Days go by this instant: the database's clock or `--as-of`, whichever is earlier.
    remove_by: DateTime<Utc>,
    /// Why nothing is removed at all.
    no_removal: Option<String>,
}

/// One pass. The error is for what ends the whole run: a lost connection, a ledger that cannot be read.
pub async fn run(ctx: &Ctx<'_>, request: Request) -> Result<Done, StoreError> {
    let session = if request.dry_run {
        ctx.store.look_at_partitions(ctx.settings).await?
    } else {
        match ctx.store.begin_partitions(ctx.url, ctx.settings).await? {
            Some(session) => session,
            None => return Ok(Done::busy()),
        }
    };
    let mut run = Run::begin(ctx, request, session).await?;
    let mut tables: Vec<(&PartitionTable, TableDone)> =
        ctx.settings.tables.iter().map(|table| (table, TableDone::new(&table.name))).collect();
    if !request.dry_run {
        run.session.write_settings(ctx.settings).await?;
    }
    for (table, done) in &mut tables {
        run.finalize(table, done).await?;
    }
    if request.phases != Phases::DropOnly {
        for (table, done) in &mut tables {
            run.create(table, done).await?;
        }
    }
    if request.phases != Phases::CreateOnly {
        for (table, done) in &mut tables {
            run.remove(table, done).await?;
        }
    }
    for (table, done) in &mut tables {
        run.analyze(table, done).await?;
        run.cover(table, done).await?;
    }
    let no_removal = run.no_removal.take().filter(|_| request.phases != Phases::CreateOnly);
    run.session.end().await?;
    let tables = tables.into_iter().map(|(_, done)| done.weighed()).collect();
    Ok(Done::of(tables, request.dry_run, no_removal))
}

impl<'a> Run<'a> {
    async fn begin(ctx: &'a Ctx<'a>, request: Request, mut session: PartitionSession) -> Result<Self, StoreError> {
        let now = session.now().await?;
        let skew = (now - ctx.machine_now).abs();
        let skewed = skew.to_std().is_ok_and(|skew| skew > ctx.settings.skew_max);
        let no_removal = skewed.then(|| {
            let seconds = skew.num_seconds();
            format!(
                "the database's clock and this machine's are {seconds} s apart: nothing is removed until they agree"
            )
        });
        let as_of = ctx.as_of.unwrap_or(now);
        Ok(Self { ctx, request, session, create_from: as_of, remove_by: as_of.min(now), no_removal })
    }

    /// The facts about a table; `None` when it cannot be maintained, which is said once.
    async fn facts(&mut self, table: &PartitionTable, done: &mut TableDone) -> Result<Option<TableFacts>, StoreError> {
        if done.refused.is_some() {
            return Ok(None);
        }
        match self.session.facts(table).await {
            Ok(Ok(facts)) => Ok(Some(facts)),
            Ok(Err(problem)) => {
                done.refused = Some(problem.to_string());
                Ok(None)
            }
            Err(error) if steps::ends_the_run(&error) => Err(error),
            Err(error) => {
                done.failed.push(error.to_string());
                Ok(None)
            }
        }
    }

    /// Statistics of the whole table. They help the planner; that they could not be made is no failure.
    async fn analyze(&mut self, table: &PartitionTable, done: &mut TableDone) -> Result<(), StoreError> {
        if !table.analyze {
            return Ok(());
        }
        let Some(facts) = self.facts(table, done).await? else { return Ok(()) };
        let old = facts.analyzed_at.is_none_or(|at| (self.remove_by - at).num_hours() >= ANALYZE_EVERY_HOURS);
        if !old && !done.changed() {
            return Ok(());
        }
        let step = analyze(&table.name, self.session.server_version());
        if self.request.dry_run {
            done.planned.push(Planned::of(&step));
            return Ok(());
        }
        match self.session.run(&step).await {
            Ok(()) => done.analyzed = true,
            Err(error) => done.notes.push(format!("no statistics: {error}")),
        }
        Ok(())
    }

    /// Looks whether rows of the whole window have somewhere to go.
    async fn cover(&mut self, table: &PartitionTable, done: &mut TableDone) -> Result<(), StoreError> {
        let Some(facts) = self.facts(table, done).await? else { return Ok(()) };
        let mut open = facts.open();
        if self.request.dry_run {
            open.extend(&done.to_be_made);
        }
        let window = window(self.create_from, table.premake_days);
        let uncovered = holes(window, &open);
        done.covered_until = uncovered.first().map_or(Some(window.to), |first| Some(first.from));
        done.has_default = facts.default_child().is_some();
        done.uncovered = uncovered.iter().map(ToString::to_string).collect();
        Ok(())
    }
}
