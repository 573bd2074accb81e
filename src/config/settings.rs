//! Checked values, one struct per job. Construction may fail, use may not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::domain::charge::MatchKey;
use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::money::{Currency, DecimalMark, MinorUnits};
use crate::domain::partition::TableName;

pub use super::value::DateOrder;
use super::value::Secret;

/// Everything that a run may need, already checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connection string of the database (`postgres://` or `postgresql://`); `None` when none is configured.
    pub database_url: Option<Secret>,
    /// `reconcile` and `inspect`.
    pub reconcile: ReconcileSettings,
    /// Who gets the mismatch mail.
    pub mail: MailSettings,
    /// `partitions`, and its part of `check`, `plan` and `status`.
    pub partitions: PartitionSettings,
}

impl Settings {
    /// Names the effective configuration: the same settings give the same 64 hex digits. Of a secret it counts
    /// only whether it is there, so that the value can be written to `job_runs` and shown.
    pub fn fingerprint(&self) -> String {
        // Debug prints every field of every section in a fixed order and redacts secrets; a new setting is part
        // of it without anybody having to remember.
        Sha256::digest(format!("{self:?}")).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    }
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
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl ReconcileSettings {
    /// Where the local charges of this provider and account are. `None` when sources are configured and none is
    /// for them: then nothing is read, since the charges of another provider would all be breaks.
    pub fn local_for(&self, provider: &str, account: &str) -> Option<&LocalSource> {
        self.local.iter().find(|source| source.serves(provider, account))
    }

    /// The entry of this provider for exactly this account (empty for all).
    pub fn provider(&self, name: &str, account: &str) -> Option<&ProviderSettings> {
        self.providers.iter().find(|entry| entry.name == name && entry.account == account)
    }

    /// How a report is read: the flags, then the provider's entry for this account, then its entry for all accounts.
    pub fn reading_for(&self, provider: &str, account: &str, flags: &Reading) -> Reading {
        let entry = |account: &str| self.provider(provider, account).map(|entry| &entry.reading);
        let mut reading = flags.clone();
        for fallback in [entry(account), entry("")].into_iter().flatten() {
            reading = reading.or(fallback);
        }
        reading
    }

    /// How long after the charge its settled row may come: the account's own value, the provider's, or the general one.
    pub fn settlement_lag_for(&self, provider: &str, account: &str) -> Duration {
        let own = |account: &str| self.provider(provider, account).and_then(|entry| entry.settlement_lag);
        own(account).or_else(|| own("")).unwrap_or(self.settlement_lag)
    }
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
    /// Order of day and month, for files whose dates read in both orders.
    pub date_order: Option<DateOrder>,
}

impl Reading {
    /// These options, and those of `fallback` where nothing is stated.
    #[must_use]
    pub fn or(self, fallback: &Self) -> Self {
        Self {
            reference_column: self.reference_column.or_else(|| fallback.reference_column.clone()),
            decimal_mark: self.decimal_mark.or(fallback.decimal_mark),
            delimiter: self.delimiter.or(fallback.delimiter),
            encoding: self.encoding.or_else(|| fallback.encoding.clone()),
            timezone: self.timezone.or(fallback.timezone),
            currency: self.currency.or(fallback.currency),
            date_order: self.date_order.or(fallback.date_order),
        }
    }
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
    /// Words of the status column, lower case, beside those that the format knows by itself.
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

impl GenericStatus {
    /// The status words that are understood without configuration, lower case.
    pub const WORDS: &[(&str, Self)] = &[
        ("authorised", Self::Is(Status::Authorized)),
        ("authorized", Self::Is(Status::Authorized)),
        ("canceled", Self::Is(Status::Canceled)),
        ("cancelled", Self::Is(Status::Canceled)),
        ("captured", Self::Is(Status::Succeeded)),
        ("complete", Self::Is(Status::Succeeded)),
        ("completed", Self::Is(Status::Succeeded)),
        ("declined", Self::Is(Status::Failed)),
        ("expired", Self::Is(Status::Failed)),
        ("failed", Self::Is(Status::Failed)),
        // The word of a key whose work is not finished: nobody knows yet whether money moved.
        ("in_progress", Self::Is(Status::Pending)),
        ("open", Self::Is(Status::Pending)),
        ("paid", Self::Is(Status::Succeeded)),
        ("pending", Self::Is(Status::Pending)),
        ("processing", Self::Is(Status::Pending)),
        ("refunded", Self::Refunded),
        ("refused", Self::Is(Status::Failed)),
        ("settled", Self::Is(Status::Succeeded)),
        ("succeeded", Self::Is(Status::Succeeded)),
        ("void", Self::Is(Status::Canceled)),
        ("voided", Self::Is(Status::Canceled)),
    ];

    /// [`Self::WORDS`] as the map that a local source holds.
    pub fn words() -> BTreeMap<String, Self> {
        Self::WORDS.iter().map(|(word, status)| ((*word).to_owned(), *status)).collect()
    }
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
    /// Words of the status column, lower case: [`GenericStatus::WORDS`] and what the operator has added or changed.
    pub statuses: BTreeMap<String, GenericStatus>,
}

impl LocalSource {
    /// What is compared when nothing is configured: the table `idem.charges`, all providers.
    pub fn idem_charges() -> Self {
        Self {
            provider: None,
            account: None,
            from: LocalFrom::Table(LocalTable::idem_charges()),
            match_key: MatchKey::default(),
            minor_units: MinorUnits::default(),
            statuses: GenericStatus::words(),
        }
    }

    /// Whether the charges of this provider and account are here.
    pub fn serves(&self, provider: &str, account: &str) -> bool {
        self.provider.as_deref().is_none_or(|own| own == provider)
            && self.account.as_deref().is_none_or(|own| own == account)
    }
}

/// Table or query of the local charges.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one a provider, not one a row")]
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

impl LocalTable {
    /// The table that the migrations create.
    pub fn idem_charges() -> Self {
        Self {
            schema: "idem".to_owned(),
            table: "charges".to_owned(),
            charge_id: "charge_id".to_owned(),
            idempotency_key: Some("idempotency_key".to_owned()),
            merchant_reference: Some("merchant_reference".to_owned()),
            provider_id: Some("provider_id".to_owned()),
            amount_minor: "amount_minor".to_owned(),
            refunded_minor: Some("refunded_minor".to_owned()),
            currency: "currency".to_owned(),
            status: "status".to_owned(),
            created_at: "created_at".to_owned(),
            provider_column: Some("provider".to_owned()),
            account_column: Some("merchant_account".to_owned()),
        }
    }
}

/// The section of `partitions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSettings {
    /// The managed tables; the two of ours are always among them.
    pub tables: Vec<PartitionTable>,
    /// How long one run waits for other sessions in all, where nobody queues behind it.
    pub wait_budget: Duration,
    /// How long one statement waits for a lock, where nobody queues behind it.
    pub lock_timeout: Duration,
    /// Days that one run removes from one table at most.
    pub removals_max: usize,
    /// How long a detached day is kept before it is dropped.
    pub detached_grace: Duration,
    /// How old a pending detach may be before `check` calls for a human.
    pub pending_max: Duration,
    /// How far this machine's clock and the database's may be apart before nothing is removed.
    pub skew_max: Duration,
    /// The longest that a client goes on trying again with the same key.
    pub client_retry_window: Duration,
    /// The longest that a finished key is promised to be kept.
    pub largest_ttl: Duration,
}

/// A managed table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct PartitionTable {
    /// Its name.
    pub name: TableName,
    /// The column that it is partitioned by: date or timestamp with time zone.
    pub column: String,
    /// What its rows are.
    pub kind: TableKind,
    /// Days that are made ahead of today.
    pub premake_days: u32,
    /// How long a row is kept, from the end of its day.
    pub retention: Duration,
    /// What the retention can never go below.
    pub retention_floor: Duration,
    /// Whether days are made.
    pub create: bool,
    /// Whether days are detached.
    pub detach: bool,
    /// Whether detached days are dropped.
    pub drop: bool,
    /// Whether statistics are made.
    pub analyze: bool,
    /// Which rows of a plain table keep their day: a condition in SQL. `None`: no row does.
    pub unfinished: Option<String>,
}

/// What the rows of a managed table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Idempotency keys: what is unfinished is moved to `idem.held_keys` before a day goes.
    Keys,
    /// Messages that were seen.
    Inbox,
    /// A table of the operator's own.
    Plain,
}

impl PartitionTable {
    /// `idem.idempotency_keys` as it is kept without configuration.
    pub fn keys() -> Self {
        Self {
            name: TableName::parse("idem.idempotency_keys").expect("a constant name"),
            column: "day".to_owned(),
            kind: TableKind::Keys,
            premake_days: 5,
            retention: Duration::from_hours(72),
            retention_floor: Duration::from_hours(24),
            create: true,
            detach: true,
            drop: true,
            analyze: true,
            unfinished: None,
        }
    }

    /// `idem.processed_messages` as it is kept without configuration.
    pub fn inbox() -> Self {
        Self {
            name: TableName::parse("idem.processed_messages").expect("a constant name"),
            kind: TableKind::Inbox,
            ..Self::keys()
        }
    }
}
