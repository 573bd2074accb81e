//! Checked values, one struct per job. Construction may fail, use may not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::charge::MatchKey;
use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::{Currency, DecimalMark, MinorUnits};

use super::value::Secret;

/// Everything that a run may need, already checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Connection string of the database; `None` when none is configured.
    pub database_url: Option<Secret>,
    /// `reconcile` and `inspect`.
    pub reconcile: ReconcileSettings,
    /// Who gets the mismatch mail.
    pub mail: MailSettings,
}

/// Addresses of the mismatch mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailSettings {
    /// Sender.
    pub from: String,
    /// Receivers; empty when no mail is wanted.
    pub to: Vec<String>,
}

/// The section of `reconcile` and `inspect`.
#[derive(Clone, Debug)]
pub struct ReconcileSettings {
    /// How long a row of one side only is pending and not a break, from its time.
    pub grace: Duration,
    /// How long after the charge its settled row may come.
    pub settlement_lag: Duration,
    /// How far around the window local charges are read when rows are dated by `created`.
    pub slack: Duration,
    /// How long to wait for another run of the same provider and account.
    pub lock_wait: Duration,
    /// Share of local charges, in percent, that may be missing before a report is implausible.
    pub missing_percent_max: u8,
    /// Number of local charges that may be missing whatever their share.
    pub missing_floor: u64,
    /// Share of rows without a match key, in percent, above which the run is refused.
    pub empty_key_percent_max: u8,
    /// Folder under which runs write their reports.
    pub reports_dir: PathBuf,
    /// Budget of one statement on the local side.
    pub statement_timeout: Duration,
    /// Value at risk, in major units, from which severity is raised to medium, high and critical.
    pub severity_at_risk: [u64; 3],
    /// Where local charges are, first match wins.
    pub local: Vec<LocalSource>,
    /// How reports are read, per provider and account.
    pub providers: Vec<ProviderSettings>,
    /// CSV formats that the operator has declared by titles.
    pub generic: Vec<GenericFormat>,
}

/// Reading options of one provider (and merchant account).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Provider's name as in `--provider`.
    pub name: String,
    /// Merchant account; empty for all.
    pub account: String,
    /// How its reports are read.
    pub reading: Reading,
    /// Other settlement lag than the general one.
    pub settlement_lag: Option<Duration>,
}

/// What the operator states about a report because the file does not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Title of the column that holds the merchant's reference.
    pub reference_column: Option<String>,
    /// The decimal mark; the other mark is then grouping.
    pub decimal_mark: Option<DecimalMark>,
    /// Delimiter byte.
    pub delimiter: Option<u8>,
    /// Encoding label, for files that are not UTF-8 (or UTF-16 with a BOM).
    pub encoding: Option<String>,
    /// Zone of local times.
    pub timezone: Option<chrono_tz::Tz>,
    /// Currency, for reports without a currency column.
    pub currency: Option<Currency>,
}

/// A CSV format declared by its titles in `jobs.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenericFormat {
    /// Provider's name.
    pub provider: String,
    /// Titles of the columns.
    pub columns: GenericColumns,
    /// Whose minor units the amount counts; `None` for decimal major units.
    pub minor_units: Option<MinorUnits>,
    /// Words of the type column.
    pub kinds: BTreeMap<String, EntryKind>,
    /// Words of the status column, lower case.
    pub statuses: BTreeMap<String, GenericStatus>,
    /// What rows are dated by.
    pub dated_by: DatedBy,
    /// Pattern of the time column (chrono's strftime); `None` for ISO 8601.
    pub time_format: Option<String>,
    /// Defaults of the reading options.
    pub reading: Reading,
}

/// Titles of a generic format; `None` where the file has no such column.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the entry's fields")]
pub struct GenericColumns {
    pub provider_id: String,
    pub reference: Option<String>,
    pub amount: String,
    pub currency: Option<String>,
    pub status: Option<String>,
    pub time: Option<String>,
    pub fee: Option<String>,
    pub kind: Option<String>,
    pub parent: Option<String>,
}

/// What a status word of a generic report, or of the local side, means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenericStatus {
    /// As one of our statuses.
    Is(Status),
    /// Succeeded, and refunded in full afterwards.
    Refunded,
}

/// Where the local charges of a provider are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalSource {
    /// Provider's name; `None` for every provider (rows are then selected by `provider_column`).
    pub provider: Option<String>,
    /// Merchant account; `None` for every account.
    pub account: Option<String>,
    /// Table or query.
    pub from: LocalFrom,
    /// Which local column is compared with the report's reference.
    pub match_key: MatchKey,
    /// Whose minor units the amounts count.
    pub minor_units: MinorUnits,
    /// Words of the status column, lower case.
    pub statuses: BTreeMap<String, GenericStatus>,
}

/// Table or query of the local charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalFrom {
    /// A table with one row a charge.
    Table(LocalTable),
    /// A SELECT with the columns of `idem.charges` that are needed, and the place-holders
    /// `$from`, `$to`, `$provider`, `$account`.
    Query(String),
}

/// A table of local charges and the names of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the columns of idem.charges")]
pub struct LocalTable {
    pub schema: String,
    pub table: String,
    pub charge_id: String,
    pub idempotency_key: Option<String>,
    pub merchant_reference: Option<String>,
    pub provider_id: Option<String>,
    pub amount_minor: String,
    pub refunded_minor: Option<String>,
    pub currency: String,
    pub status: String,
    pub created_at: String,
    pub provider_column: Option<String>,
    pub account_column: Option<String>,
}
