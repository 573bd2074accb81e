//! The exit codes and the only mapping from errors to them. `docs/OPERATING.md` explains each.

use std::process::ExitCode;

use crate::config::ConfigError;
use crate::formats::ReportError;
use crate::job::reconcile::ReconcileError;
use crate::local_postgres::LocalPostgresError;
use crate::operator::NoDatabase;
use crate::store::StoreError;
use crate::telemetry::TelemetryError;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; also with findings, nothing to do, deferred or contended.
    Done,
    /// A defect or something nobody foresaw.
    Unexpected,
    /// The call was wrong.
    Usage,
    /// The configuration was wrong.
    Config,
    /// The database cannot be used: unreachable, schema unknown, not primary, a pooler between.
    Database,
    /// Finished with failures.
    Partial,
    /// The provider's report was refused or is implausible; nothing was compared.
    ReportRefused,
    /// Findings, with `--exit-code` only.
    Findings,
    /// `reconcile` could not get its lock in time.
    Busy,
    /// The work is saved, its delivery failed.
    DeliveryFailed,
    /// A human has to decide.
    NeedsHuman,
    /// Stopped by SIGINT; work so far is committed.
    Interrupted,
    /// Stopped by SIGTERM; work so far is committed.
    Terminated,
}

impl Exit {
    /// The number that the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unexpected => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::Database => 4,
            Self::Partial => 5,
            Self::ReportRefused => 6,
            Self::Findings => 7,
            Self::Busy => 8,
            Self::DeliveryFailed => 9,
            Self::NeedsHuman => 10,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The code of an error, by what it is and not by what it says.
pub fn exit_of(error: &anyhow::Error) -> Exit {
    if let Some(error) = error.downcast_ref::<ReconcileError>() {
        return of_reconcile(error);
    }
    if let Some(error) = error.downcast_ref::<ReportError>() {
        return of_report(error);
    }
    if error.is::<ConfigError>() || error.is::<NoDatabase>() || error.is::<TelemetryError>() {
        return Exit::Config;
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return of_store(error);
    }
    if error.is::<LocalPostgresError>() {
        return Exit::Database;
    }
    Exit::Unexpected
}

fn of_report(error: &ReportError) -> Exit {
    if error.is_usage() { Exit::Usage } else { Exit::ReportRefused }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        // What jobs.toml says about the local side is wrong, not the database.
        StoreError::LocalSource { .. } => Exit::Config,
        _ => Exit::Database,
    }
}

fn of_reconcile(error: &ReconcileError) -> Exit {
    match error {
        ReconcileError::Report(error) => of_report(error),
        ReconcileError::Implausible(_) | ReconcileError::NothingReadable { .. } | ReconcileError::NoRows => {
            Exit::ReportRefused
        }
        ReconcileError::Window(_) | ReconcileError::Local(_) => Exit::Usage,
        ReconcileError::Store(error) => of_store(error),
        ReconcileError::NoLocalSide
        | ReconcileError::NoLocalSource { .. }
        | ReconcileError::RepeatedCharge { .. }
        | ReconcileError::NoReportsFolder(_) => Exit::Config,
        ReconcileError::Busy { .. } => Exit::Busy,
        ReconcileError::DoesNotAddUp { .. } | ReconcileError::Thread(_) => Exit::Unexpected,
    }
}
