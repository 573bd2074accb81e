//! How a step is done, or shown, and what its failure means for the run.

use crate::store::StoreError;
use crate::store::partitions::{Step, StepError};

use super::Run;
use super::outcome::{Deferral, Planned, TableDone};

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// Done, or on a dry run shown.
    Done,
    /// Others kept what it needs.
    Deferred,
    /// Refused by the server with this code, or by a check of ours without one.
    Failed(Option<String>),
}

/// Whether no other step can follow.
pub(super) fn ends_the_run(error: &StoreError) -> bool {
    matches!(error, StoreError::Lost { .. } | StoreError::ReadOnly | StoreError::NotPrimary | StoreError::Pooler { .. })
}

impl Run<'_> {
    /// Does a step for a table, or on a dry run notes it. What goes wrong is written into `done`.
    pub(super) async fn step(&mut self, step: &Step, done: &mut TableDone) -> Result<Did, StoreError> {
        let (did, message) = self.quiet_step(step, done).await?;
        if let Some(message) = message {
            done.failed.push(message);
        }
        Ok(did)
    }

    /// The same for a step whose failure is not the last word: its message comes back.
    pub(super) async fn quiet_step(
        &mut self,
        step: &Step,
        done: &mut TableDone,
    ) -> Result<(Did, Option<String>), StoreError> {
        if self.request.dry_run {
            done.planned.push(Planned::of(step));
            return Ok((Did::Done, None));
        }
        match self.session.run(step).await {
            Ok(()) => Ok((Did::Done, None)),
            Err(StepError::Deferred { what, reason, blockers }) => {
                let table = &done.table;
                tracing::warn!(table, what, reason, blockers = ?blockers, "deferred to the next run");
                done.deferred.push(Deferral { what, reason, blockers });
                Ok((Did::Deferred, None))
            }
            Err(StepError::Store(error)) if ends_the_run(&error) => Err(error),
            Err(error) => {
                let code = match &error {
                    StepError::Store(error) => error.sqlstate().map(str::to_owned),
                    _ => None,
                };
                Ok((Did::Failed(code), Some(error.to_string())))
            }
        }
    }
}
