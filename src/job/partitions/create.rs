//! Making days: for each table every stretch of the coming days that no child holds.

use crate::config::PartitionTable;
use crate::domain::partition::TableFacts;
use crate::policy::partitions::{Creation, creations};
use crate::store::StoreError;
use crate::store::partitions::make_day;

use super::Run;
use super::outcome::TableDone;
use super::steps::Did;

/// Rows of a default partition that move into their day with it. More would stop writers of the default for long.
const DEFAULT_ROWS_MAX: u64 = 10_000;

/// Codes that say that somebody else has made just this meanwhile: duplicate table, object or row, overlap, already a
/// partition. A look at the catalog tells what is true. (IF NOT EXISTS would not prevent them.)
const LOST_A_RACE: [&str; 5] = ["42P07", "42710", "23505", "42P17", "42809"];

impl Run<'_> {
    pub(super) async fn create(&mut self, table: &PartitionTable, done: &mut TableDone) -> Result<(), StoreError> {
        if !table.create {
            return Ok(());
        }
        let Some(mut facts) = self.facts(table, done).await? else { return Ok(()) };
        for creation in creations(&facts, self.create_from, table.premake_days) {
            let created = self.create_one(&facts, &creation, done).await?;
            // The next day copies its storage options, and a lost race shows in the catalog.
            if created && !self.request.dry_run {
                let Some(fresh) = self.facts(table, done).await? else { return Ok(()) };
                facts = fresh;
            }
        }
        Ok(())
    }

    /// Makes one stretch. Says whether the catalog is worth another look.
    async fn create_one(
        &mut self,
        facts: &TableFacts,
        creation: &Creation,
        done: &mut TableDone,
    ) -> Result<bool, StoreError> {
        let period = creation.period;
        if facts.taken().iter().any(|taken| taken.overlaps(period)) {
            return Ok(false);
        }
        let Some(name) = &creation.name else {
            done.failed.push(format!("{period}: its name would be longer than PostgreSQL keeps"));
            return Ok(false);
        };
        let early = match self.session.in_default(facts, period, DEFAULT_ROWS_MAX).await {
            Ok(early) => early,
            Err(error) if super::steps::ends_the_run(&error) => return Err(error),
            Err(error) => {
                done.failed.push(error.to_string());
                return Ok(false);
            }
        };
        if early > DEFAULT_ROWS_MAX {
            done.failed.push(format!(
                "{period} is not made: the default partition holds more than {DEFAULT_ROWS_MAX} of its rows; move them by hand"
            ));
            return Ok(false);
        }
        let (did, message) = self.quiet_step(&make_day(facts, name, period, early), done).await?;
        match (did, message) {
            (Did::Done, _) if self.request.dry_run => done.to_be_made.push(period),
            (Did::Done, _) => {
                done.created.push(name.to_string());
                if early > 0 {
                    done.notes.push(format!("{early} rows moved from the default partition to {name}"));
                }
            }
            (Did::Deferred, _) => {}
            (Did::Failed(code), message) => {
                let raced = code.as_deref().is_some_and(|code| LOST_A_RACE.contains(&code));
                let message = message.unwrap_or_default();
                if raced && self.is_taken(facts, creation).await? {
                    done.notes.push(format!("{period} was made by somebody else meanwhile"));
                } else {
                    done.failed.push(message);
                }
            }
        }
        Ok(true)
    }

    async fn is_taken(&mut self, facts: &TableFacts, creation: &Creation) -> Result<bool, StoreError> {
        let table = self.ctx.settings.tables.iter().find(|table| table.name == facts.name);
        let Some(table) = table else { return Ok(false) };
        let now = self.session.facts(table).await?;
        Ok(now.is_ok_and(|facts| facts.taken().iter().any(|taken| taken.overlaps(creation.period))))
    }
}
