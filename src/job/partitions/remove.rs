//! Removing days, in the one order that loses nothing: move what is unfinished, look, note, detach, look again, drop.

use crate::config::PartitionTable;
use crate::domain::partition::{Child, Leftover, Period, Stands, TableFacts, TableName};
use crate::policy::partitions::{Fate, Obstacles, Road, fate, held, removals, road};
use crate::store::StoreError;
use crate::store::partitions::{
    LadderRoad, Unfinished, attach_again, close_row, detach_concurrently, detached, drop_detached, drop_pending,
    finalize, intent, remove_by_ladder, single_step,
};

use super::Run;
use super::outcome::{Deferral, TableDone};
use super::steps::{Did, ends_the_run};

/// Batches of keys that one run moves out of one day. 50 keys each.
const HOLD_BATCHES_MAX: u32 = 20_000;

/// Codes with which PostgreSQL 18 refuses to finish a detach after the columns or checks of the parent were changed.
const CANNOT_FINALIZE: [&str; 2] = ["42804", "XX000"];

impl Run<'_> {
    /// Finishes the detach that an earlier run, or somebody else, began. Until then no other day can be detached, and
    /// no migration can change the table, so it comes first, whatever the retention says by now.
    pub(super) async fn finalize(&mut self, table: &PartitionTable, done: &mut TableDone) -> Result<(), StoreError> {
        let Some(facts) = self.facts(table, done).await? else { return Ok(()) };
        let Some(child) = facts.pending() else { return Ok(()) };
        let Some(name) = child.name.clone() else {
            done.failed.push(format!("{}: its detach is pending, and its name cannot be written", child.shown));
            return Ok(());
        };
        if !table.detach {
            done.notes.push(format!("the detach of {name} is pending, and detach is switched off"));
            return Ok(());
        }
        let (did, message) = self.quiet_step(&finalize(&facts.name, &name), done).await?;
        match did {
            Did::Done if self.request.dry_run => {}
            Did::Done => done.finalized.push(name.to_string()),
            Did::Deferred => {}
            Did::Failed(code) => {
                let message = message.unwrap_or_default();
                let changed = code.as_deref().is_some_and(|code| CANNOT_FINALIZE.contains(&code));
                if !changed || !self.drop_instead(table, &facts, child, &name, &message, done).await? {
                    done.failed.push(message);
                }
            }
        }
        Ok(())
    }

    /// A pending child whose detach cannot be finished goes by DROP, if it was to go anyway.
    async fn drop_instead(
        &mut self,
        table: &PartitionTable,
        facts: &TableFacts,
        child: &Child,
        name: &TableName,
        message: &str,
        done: &mut TableDone,
    ) -> Result<bool, StoreError> {
        let leftovers = self.session.leftovers(facts).await?;
        let Some(leftover) = leftovers.into_iter().find(|leftover| leftover.oid == child.oid) else { return Ok(false) };
        let as_detached = Leftover { stands: Stands::Detached, ..leftover };
        let may_go = fate(&as_detached, table, self.remove_by, 0) == Fate::Drop && self.no_removal.is_none();
        if !may_go || self.unfinished(table, name).await? > 0 {
            return Ok(false);
        }
        tracing::warn!(table = %facts.name, child = %name, message, "the detach cannot be finished; the day is dropped");
        done.notes.push(format!("{name} was dropped, since its detach could not be finished: {message}"));
        if self.step(&drop_pending(facts, name, child.oid), done).await? == Did::Done {
            done.dropped.push(name.to_string());
        }
        Ok(true)
    }

    pub(super) async fn remove(&mut self, table: &PartitionTable, done: &mut TableDone) -> Result<(), StoreError> {
        if self.no_removal.is_some() {
            return Ok(());
        }
        let Some(facts) = self.facts(table, done).await? else { return Ok(()) };
        self.sweep(table, &facts, done).await?;
        if !table.detach {
            return Ok(());
        }
        let Some(facts) = self.facts(table, done).await? else { return Ok(()) };
        let removals = removals(&facts, table, self.remove_by, self.ctx.settings.removals_max);
        for (child, reason) in &removals.left_alone {
            done.notes.push(format!("{} is past its retention and stays: {reason}", child.shown));
        }
        if removals.capped > 0 {
            done.notes.push(format!("{} more days are past their retention: removals_max is reached", removals.capped));
        }
        if let (Some(child), false, false) = (facts.pending(), removals.go.is_empty(), self.request.dry_run) {
            done.deferred.push(Deferral {
                what: format!("remove {} days", removals.go.len()),
                reason: format!("the detach of {} is pending", child.shown),
                blockers: Vec::new(),
            });
            return Ok(());
        }
        for child in &removals.go {
            let (Some(name), Some(period)) = (&child.name, child.period) else { continue };
            let went = self.remove_one(table, &facts, child, (name, period), done).await?;
            // A detach that did not end may be pending now, and then every other one is refused.
            if went == Did::Deferred {
                break;
            }
        }
        Ok(())
    }

    /// What earlier runs began.
    async fn sweep(
        &mut self,
        table: &PartitionTable,
        facts: &TableFacts,
        done: &mut TableDone,
    ) -> Result<(), StoreError> {
        let grace_seconds = i64::try_from(self.ctx.settings.detached_grace.as_secs()).unwrap_or(i64::MAX);
        for mut leftover in self.session.leftovers(facts).await? {
            if self.request.dry_run && leftover.stands == Stands::Pending {
                // The plan has finished it by now.
                leftover.stands = Stands::Detached;
            }
            let child = &leftover.child;
            match fate(&leftover, table, self.remove_by, grace_seconds) {
                Fate::Close => self.note(facts, &leftover, "gone", done).await?,
                Fate::Abandon => self.note(facts, &leftover, "abandoned", done).await?,
                // Deferred above, and said there.
                Fate::Finalize => {}
                Fate::Keep => done.notes.push(format!("{child} is detached and kept")),
                Fate::LeaveAlone => done.notes.push(format!(
                    "{child} stands in the ledger and carries neither our comment nor its old bounds: it is left alone"
                )),
                Fate::Reattach => {
                    self.put_back(facts, &leftover, "by its retention it is too young to go", done).await?;
                }
                // What comes back is looked at once more below, like any day, and says there what keeps it.
                Fate::Drop => {
                    self.drop_if_finished(table, facts, &leftover, done).await?;
                }
            }
        }
        Ok(())
    }

    async fn note(
        &mut self,
        facts: &TableFacts,
        leftover: &Leftover,
        state: &'static str,
        done: &mut TableDone,
    ) -> Result<(), StoreError> {
        let step = single_step(
            format!("note that {} is {state}", leftover.child),
            close_row(&facts.name, leftover.oid, state),
        );
        self.step(&step, done).await.map(|_| ())
    }

    /// Drops a detached day, or puts it back when rows in it are needed, and says how many. Nobody can write into a
    /// detached day through its parent, so what is looked at here stays true.
    async fn drop_if_finished(
        &mut self,
        table: &PartitionTable,
        facts: &TableFacts,
        leftover: &Leftover,
        done: &mut TableDone,
    ) -> Result<u64, StoreError> {
        let rows = self.unfinished(table, &leftover.child).await?;
        if rows > 0 {
            self.put_back(facts, leftover, "rows in it are needed", done).await?;
        } else if self.step(&drop_detached(facts, leftover), done).await? == Did::Done && !self.request.dry_run {
            done.dropped.push(leftover.child.to_string());
        }
        Ok(rows)
    }

    async fn put_back(
        &mut self,
        facts: &TableFacts,
        leftover: &Leftover,
        reason: &str,
        done: &mut TableDone,
    ) -> Result<(), StoreError> {
        let step = attach_again(facts, &leftover.child, leftover.oid, leftover.period);
        if self.step(&step, done).await? == Did::Done && !self.request.dry_run {
            done.notes.push(format!("{} was put back: {reason}", leftover.child));
            done.reattached.push(leftover.child.to_string());
        }
        Ok(())
    }

    async fn remove_one(
        &mut self,
        table: &PartitionTable,
        facts: &TableFacts,
        child: &Child,
        (name, period): (&TableName, Period),
        done: &mut TableDone,
    ) -> Result<Did, StoreError> {
        let obstacles = match self.obstacles(table, facts, name, period, done).await {
            Ok(obstacles) => obstacles,
            Err(error) if ends_the_run(&error) => return Err(error),
            Err(error) => {
                done.failed.push(error.to_string());
                return Ok(Did::Failed(None));
            }
        };
        if let Some(reason) = held(&obstacles) {
            done.held.push(format!("{name}: {reason}"));
            return Ok(Did::Failed(None));
        }
        let did = self.step(&intent(facts, name, child.oid, period), done).await?;
        if did != Did::Done {
            return Ok(did);
        }
        let leftover =
            Leftover { id: 0, child: name.clone(), oid: child.oid, period, stands: Stands::Detached, age_seconds: 0 };
        match road(facts) {
            Road::Concurrent => self.remove_concurrently(table, facts, &leftover, done).await,
            Road::Ladder => self.remove_by_ladder(table, facts, child, name, false, done).await,
            Road::LadderWithDetach => self.remove_by_ladder(table, facts, child, name, true, done).await,
        }
    }

    /// Moves what can be moved, then counts what keeps the day.
    async fn obstacles(
        &mut self,
        table: &PartitionTable,
        facts: &TableFacts,
        name: &TableName,
        period: Period,
        done: &mut TableDone,
    ) -> Result<Obstacles, StoreError> {
        let mut obstacles = Obstacles::default();
        if let Some(unfinished) = Unfinished::of(table) {
            let sql = unfinished.hold_sql(name, period);
            if unfinished.movable && !self.request.dry_run {
                self.hold(&sql, done).await?;
            }
            obstacles.unfinished = self.session.unfinished(&unfinished, name).await?;
            if unfinished.movable && self.request.dry_run && obstacles.unfinished > 0 {
                let step = single_step(
                    format!("move unfinished keys of {name} to idem.held_keys, batch by batch"),
                    unfinished.hold_statement(name, period),
                );
                self.step(&step, done).await?;
                // What a live lease keeps cannot be told before it is tried.
                obstacles.unfinished = 0;
            }
        }
        for key in &facts.incoming {
            let rows = self.session.referencing(key, name).await?;
            if rows > 0 {
                obstacles.referenced_by.push((key.other.clone(), rows));
            }
        }
        Ok(obstacles)
    }

    async fn hold(&mut self, sql: &str, done: &mut TableDone) -> Result<(), StoreError> {
        let mut after = (String::new(), String::new());
        for _ in 0..HOLD_BATCHES_MAX {
            let batch = self.session.hold_batch(sql, &after).await?;
            done.held_rows += batch.held;
            match batch.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
        done.notes.push(format!("{HOLD_BATCHES_MAX} batches of unfinished keys were moved; the next run goes on"));
        Ok(())
    }

    async fn remove_concurrently(
        &mut self,
        table: &PartitionTable,
        facts: &TableFacts,
        leftover: &Leftover,
        done: &mut TableDone,
    ) -> Result<Did, StoreError> {
        let did = self.step(&detach_concurrently(&facts.name, &leftover.child), done).await?;
        if did != Did::Done {
            return Ok(did);
        }
        let noted =
            single_step(format!("note that {} is detached", leftover.child), detached(&facts.name, leftover.oid));
        self.step(&noted, done).await?;
        if !self.request.dry_run {
            done.detached.push(leftover.child.to_string());
        }
        if table.drop && self.ctx.settings.detached_grace.is_zero() {
            let rows = self.drop_if_finished(table, facts, leftover, done).await?;
            if rows > 0 {
                done.held.push(format!("{}: {rows} unfinished or unexpired rows came in between", leftover.child));
            }
        }
        Ok(Did::Done)
    }

    async fn remove_by_ladder(
        &mut self,
        table: &PartitionTable,
        facts: &TableFacts,
        child: &Child,
        name: &TableName,
        with_detach: bool,
        done: &mut TableDone,
    ) -> Result<Did, StoreError> {
        let drop = table.drop && self.ctx.settings.detached_grace.is_zero();
        let unfinished = Unfinished::of(table).map(|unfinished| unfinished.count_sql(name));
        let road = LadderRoad { detach: with_detach || !drop, drop };
        let did = self.step(&remove_by_ladder(facts, child, name, unfinished, road), done).await?;
        if did == Did::Done && !self.request.dry_run {
            if drop { done.dropped.push(name.to_string()) } else { done.detached.push(name.to_string()) }
        }
        Ok(did)
    }

    async fn unfinished(&mut self, table: &PartitionTable, child: &TableName) -> Result<u64, StoreError> {
        match Unfinished::of(table) {
            Some(unfinished) => self.session.unfinished(&unfinished, child).await,
            None => Ok(0),
        }
    }
}
