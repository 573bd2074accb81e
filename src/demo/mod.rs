//! A working night on one machine: a simulated shop's day through the real jobs, with a private PostgreSQL.
//!
//! Nothing of the user's is touched. What is found is compared with what was planted; a difference is a failure.

mod shop;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use chrono::{DateTime, Utc};
use indicatif::ProgressBar;
use tokio::task::spawn_blocking;

use crate::cli::Demo;
use crate::config::{MailSettings, Reading, Secret, Settings};
use crate::domain::mismatch::Kind;
use crate::domain::run::Reconciliation;
use crate::job::reconcile::{self, Ctx, Database, ReconcileError, Request};
use crate::local_postgres::{self, LocalPostgres};
use crate::store::Store;

/// Where the demo leaves its files when no folder is given.
const FOLDER: &str = "idem-jobs-demo";

/// Runs the demo to its end.
pub async fn run(
    arguments: &Demo,
    environment: local_postgres::Environment,
    progress: ProgressBar,
) -> anyhow::Result<()> {
    let folder = arguments.dir.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let lock =
        fs::File::create(folder.join(".lock")).with_context(|| format!("cannot write in {}", folder.display()))?;
    if lock.try_lock().is_err() {
        bail!("another demo works in {}; give this one a folder of its own with --dir", folder.display());
    }
    let begun = Instant::now();

    say("Starting a private PostgreSQL (nothing of yours is touched)")?;
    let server = spawn_blocking(move || LocalPostgres::start_temporary(&environment)).await??;
    let url = Secret::new(server.create_database("demo").await?);
    let store = Store::connect(&url).await?;
    store.migrate(false).await?;

    say(&format!("Simulating {} charges of one day, and the provider's report about it", arguments.charges))?;
    let day = shop::simulate(arguments.seed, usize::try_from(arguments.charges)?);
    store.record_charges(shop::PROVIDER, "", &day.charges).await?;
    let report = folder.join("stripe-payments.csv");
    fs::write(&report, &day.report).with_context(|| format!("cannot write {}", report.display()))?;
    let cut = folder.join("stripe-payments-cut.csv");
    fs::write(&cut, cut_off(&day.report)).with_context(|| format!("cannot write {}", cut.display()))?;

    let night = Night { store: &store, url: &url, folder: &folder, progress };
    say("Reconciling a copy of the report that was cut off on its way: it must be refused")?;
    let refusal = night.refuse(&cut).await?;
    say(&format!("  refused: {refusal}"))?;

    say("Reconciling the whole report")?;
    let done = night.reconcile(&report).await.context("the demo's own report was not reconciled")?;
    let again = night.reconcile(&report).await?;
    if !again.already || again.found.run.id != done.found.run.id {
        bail!("the same report was compared twice");
    }
    say("Reconciling it once more: already reconciled, nothing written")?;

    let mut planted = day.planted;
    planted.insert(Kind::FileRejected, 1);
    let mut found = found_by_kind(&done.found);
    found.insert(Kind::FileRejected, 1);
    let differ = side_by_side(&planted, &found)?;
    let files = done.folder.context("a run that is no dry run has a folder")?;
    say(&format!(
        "\n{} rows of the report, {} charges, {} breaks, in {:.1} s with everything.",
        done.found.control.provider_rows,
        done.found.control.local_rows,
        done.found.breaks(),
        begun.elapsed().as_secs_f64()
    ))?;
    say(&format!("Open the report:  {}", fs::canonicalize(files.join("report.html"))?.display()))?;
    say(&format!("Look at the file: idem-jobs inspect --report {}", report.display()))?;

    store.close().await;
    spawn_blocking(move || server.stop()).await??;
    if differ {
        bail!("what was found differs from what was planted");
    }
    Ok(())
}

/// What the night's runs share.
struct Night<'a> {
    store: &'a Store,
    url: &'a Secret,
    folder: &'a Path,
    progress: ProgressBar,
}

impl Night<'_> {
    async fn reconcile(&self, report: &Path) -> Result<reconcile::Done, ReconcileError> {
        let mut settings = Settings::default().reconcile;
        settings.reports_dir = self.folder.join("reports");
        let mail = MailSettings { from: "idem-jobs@shop.example".into(), to: vec!["finance@shop.example".into()] };
        let ctx = Ctx {
            settings: &settings,
            mail: &mail,
            database: Some(Database { store: self.store, url: self.url }),
            now: shop::AS_OF.parse::<DateTime<Utc>>().expect("a constant"),
            progress: self.progress.clone(),
        };
        let reading = Reading { reference_column: Some("merchant_reference (metadata)".into()), ..Reading::default() };
        let request = Request { files: vec![report.to_owned()], reading, ..Request::default() };
        reconcile::run(&ctx, &request).await
    }

    /// The sentence with which a damaged report is refused; anything but a refusal is a failure.
    async fn refuse(&self, report: &Path) -> anyhow::Result<String> {
        match self.reconcile(report).await {
            Ok(_) => bail!("a report that was cut off was accepted"),
            Err(ReconcileError::Report(error)) if !error.is_usage() => Ok(error.to_string()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Three quarters of the report, ending within the first cells of a line. (A cut in the very last cell cannot be told
/// from a file without a last line end; then the missing charges give it away.)
fn cut_off(report: &str) -> &str {
    let line_end = report[..report.len() * 3 / 4].rfind('\n').expect("a report has lines");
    &report[..line_end + 30]
}

fn found_by_kind(found: &Reconciliation) -> BTreeMap<Kind, u64> {
    let mut counts: BTreeMap<Kind, u64> =
        found.counts.iter().filter(|(_, count)| count.total > 0).map(|(kind, count)| (*kind, count.total)).collect();
    // Counted rows are in the control block and need no mismatch of their own.
    let counted = [
        (Kind::NonChargeRow, found.non_charge.iter().map(|sum| sum.rows).sum()),
        (Kind::DuplicateReportRow, found.control.provider_duplicate_rows),
    ];
    counts.extend(counted.into_iter().filter(|(_, rows)| *rows > 0));
    counts
}

/// Prints both columns; says whether they differ.
fn side_by_side(planted: &BTreeMap<Kind, u64>, found: &BTreeMap<Kind, u64>) -> io::Result<bool> {
    let mut differ = false;
    say(&format!("\n  {:<28} {:>8} {:>8}", "", "planted", "found"))?;
    for kind in Kind::ALL {
        let (planted, found) =
            (planted.get(&kind).copied().unwrap_or_default(), found.get(&kind).copied().unwrap_or_default());
        if planted == 0 && found == 0 {
            continue;
        }
        let mark = if planted == found { "" } else { "  <-- differs" };
        differ |= planted != found;
        say(&format!("  {:<28} {planted:>8} {found:>8}{mark}", kind.as_str()))?;
    }
    Ok(differ)
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
