//! What can be typed. No behaviour: flags become checked values here, and `app` decides what they do.
//!
//! Commands that do not work yet are not declared.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::value::{self, WindowEdge};
use crate::config::{DateOrder, Reading};
use crate::domain::money::{Currency, DecimalMark};

/// The night shift of idempotency keys on PostgreSQL: batch jobs, each one pass and done.
///
/// Precedence: flag, then environment (DATABASE_URL, IDEM_*), then jobs.toml, then the default.
/// Results go to standard output, talk to standard error.
#[derive(Clone, Debug, Parser)]
#[command(name = "idem-jobs", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Configuration file; without it ./jobs.toml is read when it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Take this instant as now, for example 2026-05-01T06:00:00Z or 2026-05-01 (UTC)
    #[arg(long, global = true, value_name = "INSTANT", value_parser = value::instant)]
    pub as_of: Option<DateTime<Utc>>,

    /// Start a private PostgreSQL with its data in DIR and use it instead of the configured database
    #[arg(long, global = true, value_name = "DIR")]
    pub local_postgres: Option<PathBuf>,

    /// Say more on standard error; twice for debugging
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,

    /// Say less: only warnings; twice for errors only
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub quiet: u8,

    /// How log lines look; text on a terminal and JSON elsewhere when not given
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Never draw a progress bar
    #[arg(long, global = true)]
    pub no_progress: bool,

    /// When to colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

impl Global {
    /// How much is said: 0 as usual, above it more (`-v`), below it less (`-q`).
    pub fn verbosity(&self) -> i16 {
        i16::from(self.verbose) - i16::from(self.quiet)
    }

    /// Whether log lines are JSON; `None` leaves it to where they go.
    pub fn log_json(&self) -> Option<bool> {
        self.log_format.map(|format| format == LogFormat::Json)
    }

    /// Whether to colour; `None` leaves it to where it goes.
    pub fn colored(&self) -> Option<bool> {
        match self.color {
            Color::Auto => None,
            Color::Always => Some(true),
            Color::Never => Some(false),
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal that has not asked for none.
    Auto,
    /// Even into a file.
    Always,
    /// Not at all.
    Never,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show a working night: a simulated shop, its provider's report with planted breaks, and what is found
    Demo(Demo),
    /// Create or upgrade the schema `idem`
    Migrate(Migrate),
    /// Compare a provider's report with the local charges and record what does not agree
    Reconcile(Reconcile),
    /// Show what is read from a report, without a database
    Inspect(Inspect),
    /// Make the coming days of partitioned tables and remove those that are past their retention
    Partitions(Partitions),
    /// Work out how large the partitioned tables get
    Plan(Plan),
    /// Show the days of the partitioned tables, and how late replays come
    Status(Status),
    /// Test the configuration, and the database unless --offline
    Check(Check),
    /// Print a completion script for a shell
    Completions(Completions),
}

/// `idem-jobs demo`
#[derive(Clone, Debug, Args)]
pub struct Demo {
    /// Seed of everything that is random: the same seed, the same day
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// How many charges the shop makes
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub charges: u32,

    /// Folder for the provider's file and the reports; ./idem-jobs-demo when not given
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `idem-jobs migrate`
#[derive(Clone, Copy, Debug, Args)]
pub struct Migrate {
    /// Only list what would be applied
    #[arg(long)]
    pub dry_run: bool,
}

/// `idem-jobs reconcile`
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Reconcile {
    /// The provider's report: a CSV file, also gzipped or zipped, or - for standard input; several are parts of one
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub report: Vec<PathBuf>,

    /// The provider, when the file alone does not tell or only one provider's formats may be meant
    #[arg(long, value_name = "NAME", value_parser = value::provider_name)]
    pub provider: Option<String>,

    /// The provider's merchant account, when there are several
    #[arg(long, value_name = "ACCOUNT", value_parser = value::account)]
    pub account: Option<String>,

    /// Take the local charges from this CSV file instead of the database
    #[arg(long, value_name = "FILE")]
    pub local: Option<PathBuf>,

    /// Start of the window: an instant, or a day in the report's zone; the report's own period when not given
    #[arg(long, value_name = "INSTANT|DAY", value_parser = value::window_edge, requires = "to")]
    pub from: Option<WindowEdge>,

    /// End of the window, not included
    #[arg(long, value_name = "INSTANT|DAY", value_parser = value::window_edge, requires = "from")]
    pub to: Option<WindowEdge>,

    /// Compare again although this report has been reconciled
    #[arg(long)]
    pub rerun: bool,

    /// Accept a report that lacks an implausible share of the local charges
    #[arg(long)]
    pub accept_missing: bool,

    /// Compare and print, write nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Exit 7 when there are breaks
    #[arg(long)]
    pub exit_code: bool,

    /// What is printed on standard output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: ReconcileOutput,

    /// How the report is read.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// What `reconcile` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReconcileOutput {
    /// For people.
    Text,
    /// One object of the schema idem-jobs/reconcile/1.
    Json,
}

/// `idem-jobs inspect`
#[derive(Clone, Debug, Args)]
pub struct Inspect {
    /// The provider's report: a CSV file, also gzipped or zipped, or - for standard input; several are parts of one
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub report: Vec<PathBuf>,

    /// The provider, when the file alone does not tell or only one provider's formats may be meant
    #[arg(long, value_name = "NAME", value_parser = value::provider_name)]
    pub provider: Option<String>,

    /// What is printed on standard output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub output: InspectOutput,

    /// How the report is read.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// What `inspect` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InspectOutput {
    /// For people.
    Table,
    /// One object of the schema idem-jobs/inspect/1.
    Json,
    /// One line an entry, safe to open in a spreadsheet.
    Csv,
}

/// What the operator states about a report because the file does not say it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Reading options")]
pub struct ReadingArgs {
    /// Title of the column that holds the merchant's reference
    #[arg(long, value_name = "TITLE", value_parser = value::title)]
    pub reference_column: Option<String>,

    /// The decimal mark, point or comma; the other one then groups thousands
    #[arg(long, value_name = "MARK", value_parser = value::decimal_mark)]
    pub decimal_separator: Option<DecimalMark>,

    /// The delimiter: one character, or tab, comma, semicolon, pipe
    #[arg(long, value_name = "CHAR", value_parser = value::delimiter)]
    pub delimiter: Option<u8>,

    /// The encoding of a file that is neither UTF-8 nor UTF-16 with a byte order mark, such as windows-1252
    #[arg(long, value_name = "NAME", value_parser = value::encoding)]
    pub encoding: Option<String>,

    /// The zone of times that are printed without one, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", value_parser = value::timezone)]
    pub timezone: Option<Tz>,

    /// The currency of a report without a currency column
    #[arg(long, value_name = "CODE", value_parser = value::currency)]
    pub currency: Option<Currency>,

    /// The order of day and month in dates of digits, when the file reads in both: day-first or month-first
    #[arg(long, value_name = "ORDER", value_parser = value::date_order)]
    pub date_order: Option<DateOrder>,
}

impl ReadingArgs {
    /// The options as the readers of reports take them.
    pub fn reading(&self) -> Reading {
        Reading {
            reference_column: self.reference_column.clone(),
            decimal_mark: self.decimal_separator,
            delimiter: self.delimiter,
            encoding: self.encoding.clone(),
            timezone: self.timezone,
            currency: self.currency,
            date_order: self.date_order,
        }
    }
}

/// `idem-jobs partitions`
#[derive(Clone, Copy, Debug, Args)]
pub struct Partitions {
    /// Print the statements that a run would send, and the lock that each takes; send none
    #[arg(long)]
    pub dry_run: bool,

    /// Make days, remove none
    #[arg(long, conflicts_with = "drop_only")]
    pub create_only: bool,

    /// Remove days, make none
    #[arg(long)]
    pub drop_only: bool,

    /// What is printed on standard output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: TextOrJson,
}

/// What commands without tables to look at print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    /// For people.
    Text,
    /// One versioned object.
    Json,
}

/// `idem-jobs plan`
#[derive(Clone, Copy, Debug, Args)]
pub struct Plan {
    /// New rows a second, on the average of a day; measured from the table when not given
    #[arg(long, value_name = "ROWS", value_parser = rate)]
    pub rate: Option<f64>,

    /// How long a row is kept; that of jobs.toml when not given
    #[arg(long, value_name = "SPAN", value_parser = value::span)]
    pub retention: Option<Duration>,

    /// Size of a row with its share of the indexes; measured from the table when not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1_073_741_824))]
    pub row_bytes: Option<u64>,

    /// What is printed on standard output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: TextOrJson,
}

/// Reads a rate.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1e9).contains(rate));
    rate.ok_or_else(|| "expected rows a second, such as 2000 or 0.5".to_owned())
}

/// `idem-jobs status`
#[derive(Clone, Copy, Debug, Args)]
pub struct Status {
    /// What is printed on standard output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: TextOrJson,
}

/// `idem-jobs check`
#[derive(Clone, Copy, Debug, Args)]
pub struct Check {
    /// Do not connect to anything
    #[arg(long)]
    pub offline: bool,
}

/// `idem-jobs completions`
#[derive(Clone, Copy, Debug, Args)]
pub struct Completions {
    /// For which shell
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn reading_options_become_checked_values() {
        let line = "idem-jobs inspect --report a.csv b.csv --decimal-separator comma --delimiter tab \
                    --encoding cp1252 --timezone Europe/Berlin --currency eur --reference-column order_id";
        let Command::Inspect(inspect) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else {
            panic!("inspect was asked for")
        };
        assert_eq!(inspect.report.len(), 2, "several files are parts of one report");
        let reading = inspect.reading.reading();
        assert_eq!(reading.decimal_mark, Some(DecimalMark::Comma));
        assert_eq!(reading.delimiter, Some(b'\t'));
        assert_eq!(reading.encoding.as_deref(), Some("windows-1252"));
        assert_eq!(reading.timezone, Some(Tz::Europe__Berlin));
        assert_eq!(reading.currency, Currency::parse("EUR"));
        assert_eq!(reading.reference_column.as_deref(), Some("order_id"));
    }

    #[test]
    fn a_wrong_call_is_a_usage_error_that_says_what_was_expected() {
        let table = [
            ("idem-jobs reconcile", "--report"),
            ("idem-jobs reconcile --report a --from 2026-05-01", "--to"),
            ("idem-jobs reconcile --report a --from yesterday --to 2026-05-02", "expected a date such as"),
            ("idem-jobs inspect --report a --currency ABC", "expected a currency of ISO 4217"),
            ("idem-jobs inspect --report a --timezone Berlin", "expected a zone of the IANA database"),
            ("idem-jobs inspect --report a --delimiter ab", "expected one punctuation character"),
            ("idem-jobs inspect --report a --provider ../x", "expected a provider's name"),
            ("idem-jobs demo --charges 0", "100..=10000000"),
            ("idem-jobs check -v -q", "cannot be used with"),
            ("idem-jobs reap", "unrecognized subcommand"),
        ];
        for (line, expected) in table {
            let error = Cli::try_parse_from(line.split_whitespace()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn global_flags_stand_before_or_behind_the_command() {
        for line in ["idem-jobs --config x.toml -vv check", "idem-jobs check --config x.toml -vv"] {
            let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
            assert_eq!(cli.global.config, Some(PathBuf::from("x.toml")), "{line}");
            assert_eq!(cli.global.verbose, 2, "{line}");
        }
    }
}
