//! `reconcile`: compares a provider's report with the local charges and records what does not agree.
//!
//! The body below reads like the runbook. Nothing is written before the verdict is complete; then run, breaks,
//! events and mail go in one transaction, and the files are rendered from what was committed.

mod apply;
mod files;
mod identity;
mod local;
mod streams;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, Utc};
use indicatif::ProgressBar;
use tokio::task::{JoinError, spawn_blocking};
use uuid::Uuid;

use crate::config::{MailSettings, Reading, ReconcileSettings, Secret, WindowEdge};
use crate::domain::run::{Reconciliation, RunHead, SCHEMA};
use crate::formats::{OpenOptions, Report, ReportError};
use crate::matching::settle::check_keys;
use crate::matching::{
    Guard, Implausible, Inputs, KeyHasher, Recall, Rules, Window, WindowError, classify, group, settle,
};
use crate::policy::severity::SeverityPolicy;
use crate::store::{Lock, LockKey, Store, StoreError};

pub use files::FilesError;
use local::{LocalSide, recall};
use streams::{Keying, Streamed, difference, survey};

/// Bytes of a row, about, to guess how many rows a file has before it is read.
const ROW_BYTES: u64 = 96;

/// What one call asks for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The report's files, parts of one report.
    pub files: Vec<PathBuf>,
    /// `--provider`.
    pub provider: Option<String>,
    /// The provider's merchant account; empty when there is only one.
    pub account: String,
    /// Local charges from a file instead of the database.
    pub local: Option<PathBuf>,
    /// Start of the window, when the operator states it.
    pub from: Option<WindowEdge>,
    /// End of the window, exclusive.
    pub to: Option<WindowEdge>,
    /// Reading options of the call.
    pub reading: Reading,
    /// Compare again what was compared before.
    pub rerun: bool,
    /// Go on although many charges are missing.
    pub accept_missing: bool,
    /// Write nothing.
    pub dry_run: bool,
}

/// The database that a run is recorded in.
#[derive(Debug)]
pub struct Database<'a> {
    /// Where to write, and to read charges from.
    pub store: &'a Store,
    /// For the lock's own connection.
    pub url: &'a Secret,
}

/// What a run depends on besides the request.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The job's section.
    pub settings: &'a ReconcileSettings,
    /// Sender and receivers of the mail.
    pub mail: &'a MailSettings,
    /// `None`: stateless, with `--local`.
    pub database: Option<Database<'a>>,
    /// The instant that counts as now.
    pub now: DateTime<Utc>,
    /// Advances by rows of the report.
    pub progress: ProgressBar,
}

/// What became of a run.
#[derive(Debug)]
pub struct Done {
    /// What was found, as committed where there is a database.
    pub found: Reconciliation,
    /// Whether exactly this had been reconciled before, so that nothing was written to the database.
    pub already: bool,
    /// Where the files are; `None` on a dry run.
    pub folder: Option<PathBuf>,
    /// Why files are missing although the run is saved.
    pub files_failed: Option<FilesError>,
}

impl Done {
    /// Counts for the journal.
    pub fn outcome(&self) -> serde_json::Value {
        serde_json::json!({
            "run": self.found.run.id,
            "already": self.already,
            "provider_rows": self.found.control.provider_rows,
            "local_rows": self.found.control.local_rows,
            "breaks": self.found.breaks(),
            "files_written": self.files_failed.is_none(),
        })
    }
}

/// Why a run has no result. `exit.rs` gives each its code.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ReconcileError {
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Our own file of charges: a wrong call, never a refused report.
    #[error(transparent)]
    Local(ReportError),
    #[error("the report is not believed: {0}")]
    Implausible(#[from] Implausible),
    #[error(transparent)]
    Window(#[from] WindowError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("none of the {rows} rows of the report can be read; the first: line {line}: {reason}")]
    NothingReadable { rows: u64, line: u64, reason: String },
    #[error(
        "the report has titles and no rows; if the provider really had nothing, say so with --accept-missing \
         (and state --from and --to)"
    )]
    NoRows,
    #[error("no local charges to compare with: give --local FILE, or configure a database (DATABASE_URL)")]
    NoLocalSide,
    #[error(
        "no [[reconcile.local]] serves provider {provider:?}, account {account:?}: add one to jobs.toml or give --local FILE"
    )]
    NoLocalSource { provider: String, account: String },
    #[error(
        "another reconciliation of provider {provider:?}, account {account:?} is running; waited {waited_seconds} s"
    )]
    Busy { provider: String, account: String, waited_seconds: u64 },
    #[error("reports cannot be written, nothing was compared: {0}")]
    NoReportsFolder(#[source] FilesError),
    #[error(
        "charge {charge_id:?} comes more than once from the local side: each charge needs its own charge_id \
        (does the query join another table?)"
    )]
    RepeatedCharge { charge_id: String },
    #[error("the sums do not add up, nothing was written: {control}")]
    DoesNotAddUp { control: String },
    #[error("a reading thread ended unexpectedly: {0}")]
    Thread(#[from] JoinError),
}

/// A thread's result, a panic being an error like another.
fn joined<T>(result: Result<T, JoinError>) -> Result<T, ReconcileError> {
    Ok(result?)
}

/// One pass: read, decide, apply.
pub async fn run(ctx: &Ctx<'_>, request: &Request) -> Result<Done, ReconcileError> {
    if ctx.database.is_none() && request.local.is_none() {
        return Err(ReconcileError::NoLocalSide);
    }
    if !request.dry_run {
        files::probe(&ctx.settings.reports_dir).map_err(ReconcileError::NoReportsFolder)?;
    }
    let clock = Instant::now();
    let mut head = None;
    match compare(ctx, request, clock, &mut head).await {
        Err(error) if apply::is_refusal(&error) && !request.dry_run => {
            apply::record_refusal(ctx, request, head, &error).await?;
            Err(error)
        }
        other => other,
    }
}

/// `known` is left with what is known of the report when it turns out to be refused.
async fn compare(
    ctx: &Ctx<'_>,
    request: &Request,
    clock: Instant,
    known: &mut Option<RunHead>,
) -> Result<Done, ReconcileError> {
    let report = open(ctx, request).await?;
    let head = known.insert(head(ctx, request, &report)?);

    if let Some(done) = already_reconciled(ctx, request, head).await? {
        return Ok(done);
    }
    let lock = lock(ctx, request, head).await?;
    // Whoever held the lock may have reconciled just this.
    if lock.is_some()
        && let Some(done) = already_reconciled(ctx, request, head).await?
    {
        release(lock).await?;
        return Ok(done);
    }

    let found = read_and_decide(ctx, request, &report, head, clock).await?;
    let done = if request.dry_run {
        Done { found, already: false, folder: None, files_failed: None }
    } else {
        apply::commit(ctx, request, found).await?
    };
    release(lock).await?;
    Ok(done)
}

/// Recognises the report. What jobs.toml states about its provider lies under the flags.
async fn open(ctx: &Ctx<'_>, request: &Request) -> Result<Arc<Report>, ReconcileError> {
    let (settings, request) = (ctx.settings.clone(), request.clone());
    let opened = spawn_blocking(move || {
        let reading_for = |provider: &str| settings.reading_for(provider, &request.account, &request.reading);
        Report::open(
            &request.files,
            &OpenOptions {
                provider: request.provider.as_deref(),
                reading_for: &reading_for,
                generic: &settings.generic,
            },
        )
    });
    Ok(Arc::new(joined(opened.await)??))
}

fn head(ctx: &Ctx<'_>, request: &Request, report: &Report) -> Result<RunHead, ReconcileError> {
    let reading = ctx.settings.reading_for(report.provider(), &request.account, &request.reading);
    let local = match &request.local {
        // Where runs are recorded, charges of another file are another comparison.
        Some(path) if ctx.database.is_some() => identity::of_local(path)?,
        _ => String::new(),
    };
    Ok(RunHead {
        id: Uuid::now_v7().to_string(),
        provider: report.provider().to_owned(),
        account: request.account.clone(),
        format: report.format().name().to_owned(),
        files: report.files().to_vec(),
        identity: identity::of_report(report, request, &reading, &local),
        window_from: None,
        window_to: None,
        started_at: ctx.now,
        duration_ms: 0,
        grace_hours: u32::try_from(ctx.settings.grace.as_secs() / 3600).unwrap_or(u32::MAX),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        not_compared: vec!["refunds, disputes, fees and payouts (counted and summed by kind)".to_owned()],
    })
}

/// The run of this identity, with its missing files written again; `None` when it has to be compared.
async fn already_reconciled(ctx: &Ctx<'_>, request: &Request, head: &RunHead) -> Result<Option<Done>, ReconcileError> {
    let Some(database) = ctx.database.as_ref().filter(|_| !request.rerun) else { return Ok(None) };
    match database.store.find_by_identity(&head.identity).await? {
        Some(stored) if request.dry_run => {
            Ok(Some(Done { found: stored.reconciliation, already: true, folder: None, files_failed: None }))
        }
        Some(stored) => Ok(Some(apply::with_files(ctx, stored.reconciliation, true))),
        None => Ok(None),
    }
}

async fn lock(ctx: &Ctx<'_>, request: &Request, head: &RunHead) -> Result<Option<Lock>, ReconcileError> {
    let Some(database) = ctx.database.as_ref().filter(|_| !request.dry_run) else { return Ok(None) };
    let wait = ctx.settings.lock_wait;
    let lock = Lock::acquire(database.url, LockKey::reconcile(&head.provider, &head.account), wait).await?;
    lock.map(Some).ok_or_else(|| ReconcileError::Busy {
        provider: head.provider.clone(),
        account: head.account.clone(),
        waited_seconds: wait.as_secs(),
    })
}

async fn release(lock: Option<Lock>) -> Result<(), ReconcileError> {
    match lock {
        Some(lock) => Ok(lock.release().await?),
        None => Ok(()),
    }
}

async fn read_and_decide(
    ctx: &Ctx<'_>,
    request: &Request,
    report: &Arc<Report>,
    head: &mut RunHead,
    clock: Instant,
) -> Result<Reconciliation, ReconcileError> {
    let settings = ctx.settings;
    let match_key =
        settings.local_for(&head.provider, &head.account).map(|source| source.match_key).unwrap_or_default();
    let hasher = KeyHasher::new(Uuid::new_v4().into_bytes());

    // Read.
    let keying = Keying { hasher, match_key };
    let (mut local, window, rows_expected) = sides(ctx, request, report, head, keying).await?;
    ctx.progress.set_length(rows_expected);
    let streamed = difference(report, &mut local, keying, rows_expected, &ctx.progress).await?;
    ctx.progress.finish_and_clear();
    streamed.report.require_rows(report.proves_empty() || request.accept_missing)?;
    let window = match window {
        Some(window) => window,
        None => window_of(ctx, request, head, streamed.report.tally.times())?,
    };
    (head.window_from, head.window_to) = (Some(window.from), Some(window.to));

    // Decide.
    let guard = Guard {
        missing_percent_max: settings.missing_percent_max,
        missing_floor: settings.missing_floor,
        accept_missing: request.accept_missing,
        empty_key_percent_max: settings.empty_key_percent_max,
    };
    let Streamed { report: theirs, local: ours, leftover, keyless } = streamed;
    check_keys(&theirs.tally, &ours, &guard)?;
    let recalled = if leftover.is_empty() && keyless == 0 {
        local::Recalled::default()
    } else {
        let wanted = Recall::new(&hasher, match_key, leftover, theirs.tally.loose > 0);
        recall(report, &mut local, match_key, wanted).await?
    };
    let rules = Rules {
        provider: head.provider.clone(),
        account: head.account.clone(),
        window,
        read: local.read(),
        covered_to: window.to,
        dated_by: report.dated_by(),
        grace: settings.grace,
        settlement_lag: settings.settlement_lag_for(&head.provider, &head.account),
        match_key,
        files: head.files.iter().map(|file| file.name.clone()).collect(),
    };
    local.close().await?;
    let verdicts =
        group(recalled.provider, recalled.local, match_key).into_iter().map(|g| classify(&g, &rules, ctx.now));
    let inputs = Inputs {
        provider: &theirs.tally,
        local: &ours,
        verdicts,
        refused: &theirs.refused,
        refused_total: theirs.refused_total,
        ignored_total: theirs.ignored_total,
    };
    let policy = SeverityPolicy {
        at_risk: settings.severity_at_risk,
        refused_rows: theirs.refused_total,
        provider_rows: theirs.tally.rows + theirs.refused_total,
    };
    let settled = settle(inputs, &rules, &guard, |kind, at_risk, currency| policy.weigh(kind, at_risk, currency))?;
    let mut counts = settled.counts;
    for (kind, count) in &mut counts {
        // Until the database says which are known.
        count.new = settled.mismatches.iter().filter(|mismatch| mismatch.kind == *kind).count() as u64;
    }
    if !settled.adds_up {
        return Err(ReconcileError::DoesNotAddUp { control: format!("{:?} {:?}", settled.control, settled.money) });
    }
    let mut notes: Vec<String> = report.notes().iter().chain(report.late_notes()).cloned().collect();
    notes.extend(settled.notes);
    if request.dry_run && ctx.database.is_some() {
        notes.push("a dry run does not look at earlier runs: every finding counts as new".into());
    }
    if theirs.tally.times().is_some_and(|(first, last)| last < window.from || first >= window.to) {
        notes.push(
            "no row of the report lies in the window: is it the right report, and the right --from and --to?".into(),
        );
    }
    head.duration_ms = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Reconciliation {
        schema: SCHEMA.to_owned(),
        run: head.clone(),
        control: settled.control,
        money: settled.money,
        non_charge: settled.non_charge,
        counts,
        mismatches: settled.mismatches,
        refused: theirs.refused,
        notes,
    })
}

/// Opens the local side. A database must know the window before it is asked, so the report is read once for its
/// times unless the call states them; a file is read whole, and the window is known at the end.
async fn sides(
    ctx: &Ctx<'_>,
    request: &Request,
    report: &Arc<Report>,
    head: &RunHead,
    keying: Keying,
) -> Result<(LocalSide, Option<Window>, u64), ReconcileError> {
    let rows_guessed = head.files.iter().map(|file| file.bytes).sum::<u64>() / ROW_BYTES + 1;
    if let Some(path) = &request.local {
        return Ok((local::file(ctx, head, path).await?, None, rows_guessed));
    }
    let (window, rows_expected) = if request.from.is_some() && request.to.is_some() {
        (window_of(ctx, request, head, None)?, rows_guessed)
    } else {
        let survey = survey(report, keying).await?;
        survey.require_rows(report.proves_empty() || request.accept_missing)?;
        (window_of(ctx, request, head, survey.tally.times())?, survey.tally.rows.max(1))
    };
    let lag = ctx.settings.settlement_lag_for(&head.provider, &head.account);
    let read = window.read_range(report.dated_by(), ctx.settings.slack, lag);
    Ok((local::database(ctx, head, read).await?, Some(window), rows_expected))
}

/// The window that the call states, else that of the rows.
fn window_of(
    ctx: &Ctx<'_>,
    request: &Request,
    head: &RunHead,
    times: Option<(DateTime<Utc>, DateTime<Utc>)>,
) -> Result<Window, ReconcileError> {
    let reading = ctx.settings.reading_for(&head.provider, &head.account, &request.reading);
    let zone = reading.timezone.unwrap_or(chrono_tz::Tz::UTC);
    let edge = |edge: Option<WindowEdge>| edge.map(|edge| edge.instant(zone));
    Ok(Window::resolve(edge(request.from), edge(request.to), times, zone)?)
}
