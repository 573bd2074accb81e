//! The composition root: the call, the settings, the clock and the database become one command's run.
//!
//! The only place where errors of all rooms meet; `exit.rs` gives each its code.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use clap::{CommandFactory, Parser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Cli, Command, Global, Inspect, InspectOutput, Partitions, Reconcile, ReconcileOutput, TextOrJson};
use crate::clock::Clock;
use crate::config::{self, Environment, ReconcileSettings, Secret, Settings};
use crate::exit::{Exit, exit_of};
use crate::formats::OpenOptions;
use crate::job::Journal;
use crate::job::partitions::{self, Phases, Word};
use crate::job::reconcile::{self, Ctx, Database, Done, Request};
use crate::local_postgres::{self, LocalPostgres};
use crate::operator::check::Verdict;
use crate::operator::inspect::{InspectError, Output, inspect};
use crate::report;
use crate::store::Store;
use crate::telemetry::{self, LogWishes};
use crate::{demo, operator};

/// Database of ours on a private server.
const PRIVATE_DATABASE: &str = "idem";

/// Runs one call to its end.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(message) => {
            // Help and version are answers, everything else is a wrong call.
            let exit = if message.use_stderr() { Exit::Usage } else { Exit::Done };
            return if message.print().is_ok() { exit } else { Exit::Unexpected };
        }
    };
    // One TLS provider for everything in the process. An error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let environment = Environment::of_process();
    let wishes =
        LogWishes { json: cli.global.log_json(), color: cli.global.colored(), verbosity: cli.global.verbosity() };
    if let Err(error) = telemetry::init(wishes, &environment) {
        return complain(&error.into());
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.into()),
    };
    let exit = runtime.block_on(until_stopped(dispatch(cli, &environment)));
    // A reading thread may still be in the middle of a file; nothing of it is needed any more.
    runtime.shutdown_background();
    match exit {
        Ok(exit) => exit,
        Err(error) => complain(&error),
    }
}

/// The command, or the first signal that ends it. Dropping the command ends its transaction and its server.
async fn until_stopped(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        result = command => result,
        _ = interrupt.recv() => Ok(stopped("SIGINT", Exit::Interrupted)),
        _ = terminate.recv() => Ok(stopped("SIGTERM", Exit::Terminated)),
    }
}

fn stopped(signal: &str, exit: Exit) -> Exit {
    tracing::warn!(exit = exit.code(), "stopped by {signal}; what was committed is whole, the rest was not written");
    exit
}

/// Says once what went wrong and gives it its code.
fn complain(error: &anyhow::Error) -> Exit {
    let exit = exit_of(error);
    tracing::error!(exit = exit.code(), "{}", sentence(error));
    exit
}

/// The error and its causes in one sentence. Most errors of ours quote their cause already: it is not said twice.
fn sentence(error: &anyhow::Error) -> String {
    let mut sentence = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !sentence.contains(&cause) {
            sentence.push_str(": ");
            sentence.push_str(&cause);
        }
    }
    sentence
}

async fn dispatch(cli: Cli, environment: &Environment) -> anyhow::Result<Exit> {
    let global = cli.global;
    match cli.command {
        Command::Completions(completions) => {
            let mut script = Vec::new();
            clap_complete::generate(completions.shell, &mut Cli::command(), "idem-jobs", &mut script);
            print(&String::from_utf8(script)?)?;
            Ok(Exit::Done)
        }
        Command::Demo(arguments) => {
            demo::run(&arguments, surroundings(environment), progress(&global)).await?;
            Ok(Exit::Done)
        }
        Command::Inspect(arguments) => {
            let settings = config::load(global.config.as_deref(), environment)?;
            run_inspect(&arguments, &settings.reconcile)
        }
        Command::Check(arguments) => {
            let settings = config::load(global.config.as_deref(), environment)?;
            let session = if arguments.offline {
                None
            } else {
                Some(Session::open(&global, settings.clone(), environment).await?)
            };
            run_check(session.as_ref(), &settings, arguments.offline).await
        }
        Command::Partitions(arguments) => {
            let settings = config::load(global.config.as_deref(), environment)?;
            let session = Session::open(&global, settings, environment).await?;
            run_partitions(&session, &global, arguments).await
        }
        Command::Plan(arguments) => {
            let settings = config::load(global.config.as_deref(), environment)?;
            let session = Session::open(&global, settings, environment).await?;
            let stated = operator::plan::Stated {
                rate: arguments.rate,
                retention: arguments.retention,
                row_bytes: arguments.row_bytes,
            };
            let json = arguments.output == TextOrJson::Json;
            let (store, partitions) = (session.store.as_ref(), &session.settings.partitions);
            operator::plan::run(store, partitions, stated, json, &mut io::stdout()).await?;
            Ok(Exit::Done)
        }
        Command::Status(arguments) => {
            let settings = config::load(global.config.as_deref(), environment)?;
            let session = Session::open(&global, settings, environment).await?;
            let json = arguments.output == TextOrJson::Json;
            operator::status::run(session.store()?, &session.settings.partitions, json, &mut io::stdout()).await?;
            Ok(Exit::Done)
        }
        Command::Migrate(arguments) => {
            let settings = config::load(global.config.as_deref(), environment)?;
            let session = Session::open_as_is(&global, settings, environment).await?;
            operator::migrate::run(session.store()?, arguments.dry_run, &mut io::stdout()).await?;
            Ok(Exit::Done)
        }
        Command::Reconcile(arguments) => {
            let settings = config::load(global.config.as_deref(), environment)?;
            let session = Session::open(&global, settings, environment).await?;
            run_reconcile(&session, &global, &arguments).await
        }
    }
}

fn run_inspect(arguments: &Inspect, settings: &ReconcileSettings) -> anyhow::Result<Exit> {
    let flags = arguments.reading.reading();
    let options = OpenOptions {
        provider: arguments.provider.as_deref(),
        reading_for: &|provider| settings.reading_for(provider, "", &flags),
        generic: &settings.generic,
    };
    let output = match arguments.output {
        InspectOutput::Table => Output::Table,
        InspectOutput::Json => Output::Json,
        InspectOutput::Csv => Output::Csv,
    };
    match inspect(&arguments.report, &options, output, &mut io::stdout().lock()) {
        // Refused rows are shown; they are what inspect is for.
        Ok(_) => Ok(Exit::Done),
        Err(InspectError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(InspectError::Report(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

/// Settings and, where one is configured, the database.
struct Session {
    settings: Settings,
    store: Option<Store>,
    /// Lives as long as the session; its drop stops the server.
    server: Option<LocalPostgres>,
}

impl Session {
    /// Connects; the schema of a private server is brought up to date.
    async fn open(global: &Global, settings: Settings, environment: &Environment) -> anyhow::Result<Self> {
        let session = Self::open_as_is(global, settings, environment).await?;
        if let (Some(store), true) = (&session.store, session.server.is_some()) {
            store.migrate(false).await?;
        }
        Ok(session)
    }

    /// Connects, and changes nothing.
    async fn open_as_is(global: &Global, mut settings: Settings, environment: &Environment) -> anyhow::Result<Self> {
        let mut server = None;
        if let Some(folder) = global.local_postgres.clone() {
            let around = surroundings(environment);
            let started = tokio::task::spawn_blocking(move || LocalPostgres::start(&folder, &around)).await??;
            settings.database_url = Some(Secret::new(started.create_database(PRIVATE_DATABASE).await?));
            server = Some(started);
        }
        let store = match &settings.database_url {
            Some(url) => Some(Store::connect(url).await?),
            None => None,
        };
        Ok(Self { settings, store, server })
    }

    fn store(&self) -> anyhow::Result<&Store> {
        self.store.as_ref().ok_or_else(|| operator::NoDatabase.into())
    }
}

async fn run_reconcile(session: &Session, global: &Global, arguments: &Reconcile) -> anyhow::Result<Exit> {
    let clock = global.as_of.map_or(Clock::System, Clock::Fixed);
    let database = match (&session.store, &session.settings.database_url) {
        (Some(store), Some(url)) => {
            store.require_ready().await?;
            Some(Database { store, url })
        }
        _ => None,
    };
    let journal = match &database {
        Some(database) if !arguments.dry_run => {
            let config_hash = session.settings.fingerprint();
            Some(Journal::begin(database.store, "reconcile", &config_hash, Clock::System.now()).await?)
        }
        _ => None,
    };
    let ctx = Ctx {
        settings: &session.settings.reconcile,
        mail: &session.settings.mail,
        database,
        now: clock.now(),
        progress: progress(global),
    };
    let request = Request {
        files: arguments.report.clone(),
        provider: arguments.provider.clone(),
        account: arguments.account.clone().unwrap_or_default(),
        local: arguments.local.clone(),
        from: arguments.from,
        to: arguments.to,
        reading: arguments.reading.reading(),
        rerun: arguments.rerun,
        accept_missing: arguments.accept_missing,
        dry_run: arguments.dry_run,
    };
    let result = reconcile::run(&ctx, &request).await;
    ctx.progress.finish_and_clear();
    let (outcome, result) = match result {
        Ok(done) => (done.outcome(), tell(&done, &ctx, global, arguments)),
        Err(error) => (serde_json::json!({"error": error.to_string()}), Err(error.into())),
    };
    if let Some(journal) = journal {
        let exit = result.as_ref().map_or_else(exit_of, |exit| *exit);
        journal.end(Clock::System.now(), &outcome, exit.code()).await?;
    }
    result
}

async fn run_check(session: Option<&Session>, settings: &Settings, offline: bool) -> anyhow::Result<Exit> {
    let store = session.and_then(|session| session.store.as_ref());
    let now = Clock::System.now();
    Ok(match operator::check::run(store, settings, offline, now, &mut io::stdout()).await? {
        Verdict::Sound | Verdict::Warning => Exit::Done,
        Verdict::Config => Exit::Config,
        Verdict::NeedsHuman => Exit::NeedsHuman,
    })
}

async fn run_partitions(session: &Session, global: &Global, arguments: Partitions) -> anyhow::Result<Exit> {
    let store = session.store()?;
    let url = session.settings.database_url.as_ref().ok_or(operator::NoDatabase)?;
    store.require_ready().await?;
    let ctx = partitions::Ctx {
        store,
        url,
        settings: &session.settings.partitions,
        as_of: global.as_of,
        machine_now: Clock::System.now(),
    };
    let phases = match (arguments.create_only, arguments.drop_only) {
        (true, _) => Phases::CreateOnly,
        (_, true) => Phases::DropOnly,
        _ => Phases::All,
    };
    let request = partitions::Request { dry_run: arguments.dry_run, phases };
    let journal = if arguments.dry_run {
        None
    } else {
        let config_hash = session.settings.fingerprint();
        Some(Journal::begin(store, "partitions", &config_hash, Clock::System.now()).await?)
    };
    let result = partitions::run(&ctx, request).await;
    let (outcome, result) = match result {
        Ok(done) => (done.journal(), tell_partitions(&done, arguments.output)),
        Err(error) => (serde_json::json!({"error": error.to_string()}), Err(error.into())),
    };
    if let Some(journal) = journal {
        let exit = result.as_ref().map_or_else(exit_of, |exit| *exit);
        journal.end(Clock::System.now(), &outcome, exit.code()).await?;
    }
    result
}

/// Prints what became of the tables and weighs it. A scheduler must not try again what only waits for somebody else.
fn tell_partitions(done: &partitions::Done, output: TextOrJson) -> anyhow::Result<Exit> {
    match output {
        TextOrJson::Json => print(&format!("{}\n", serde_json::to_string_pretty(done)?))?,
        TextOrJson::Text => {
            let mut text = Vec::new();
            operator::partitions::print(done, &mut text)?;
            print(&String::from_utf8(text)?)?;
        }
    }
    tracing::info!(outcome = done.outcome.name(), counts = %done.journal(), "partitions ended");
    if done.dry_run {
        return Ok(Exit::Done);
    }
    Ok(match done.outcome {
        Word::NothingToDo | Word::Ok | Word::Busy | Word::Deferred => Exit::Done,
        Word::Partial => Exit::Partial,
        Word::Config => Exit::Config,
        Word::Held | Word::CoverageBreach => Exit::NeedsHuman,
    })
}

/// Prints the result and weighs it.
fn tell(done: &Done, ctx: &Ctx<'_>, global: &Global, arguments: &Reconcile) -> anyhow::Result<Exit> {
    let text = match arguments.output {
        ReconcileOutput::Json => report::json(&done.found),
        ReconcileOutput::Text => {
            let color = global.colored().unwrap_or_else(|| io::stdout().is_terminal());
            let folder = done.folder.as_ref().and_then(|folder| folder.to_str());
            report::text(&done.found, report::TextStyle { now: ctx.now, color, folder })
        }
    };
    if done.already && arguments.output == ReconcileOutput::Text {
        print("Already reconciled: nothing was compared again, no run was written. This is what it found:\n\n")?;
    }
    print(&text)?;
    let run_id = &done.found.run.id;
    if done.already {
        tracing::info!(run_id, "already reconciled: nothing was written to the database");
    }
    if let Some(error) = &done.files_failed {
        let saved = if ctx.database.is_some() { "the run is saved and its files are not" } else { "no file was kept" };
        tracing::error!(run_id, "{saved}: {error}; the same call writes them");
        return Ok(Exit::DeliveryFailed);
    }
    Ok(if arguments.exit_code && done.found.breaks() > 0 { Exit::Findings } else { Exit::Done })
}

/// What the private server needs of the environment.
fn surroundings(environment: &Environment) -> local_postgres::Environment {
    local_postgres::Environment {
        postgres_bin: environment.postgres_bin().map(Into::into),
        search_path: environment.path().map(Into::into),
        temp_dir: std::env::temp_dir(),
    }
}

/// Writes a result. A reader that has gone away (`| head`) is no error.
fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Rows, rows a second and the time that is left, on a terminal only.
fn progress(global: &Global) -> ProgressBar {
    if global.no_progress || global.quiet > 0 || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{human_pos} of {human_len} rows  {per_sec}  {eta} left  {wide_bar}")
        .expect("a constant template");
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    bar.set_style(style);
    bar
}
