//! A break between our charges and the provider's: its kind, severity, state, evidence.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::money::Currency;

/// What is wrong. The taxonomy's documentation is `docs/RECONCILIATION.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each kind is defined once, in docs/RECONCILIATION.md")]
pub enum Kind {
    MissingLocally,
    StatusProviderSucceeded,
    DuplicateAtProvider,
    AmountOver,
    MissingAtProvider,
    AmountUnder,
    CurrencyMismatch,
    StatusProviderFailed,
    KeyConflict,
    DuplicateLocally,
    TimingPending,
    UnparseableRow,
    UnknownRowType,
    FileRejected,
    DuplicateReportRow,
    NonChargeRow,
}

impl Kind {
    /// Every kind, worst first.
    pub const ALL: [Self; 16] = [
        Self::FileRejected,
        Self::MissingLocally,
        Self::StatusProviderSucceeded,
        Self::DuplicateAtProvider,
        Self::AmountOver,
        Self::MissingAtProvider,
        Self::AmountUnder,
        Self::CurrencyMismatch,
        Self::StatusProviderFailed,
        Self::KeyConflict,
        Self::DuplicateLocally,
        Self::UnparseableRow,
        Self::UnknownRowType,
        Self::TimingPending,
        Self::DuplicateReportRow,
        Self::NonChargeRow,
    ];

    /// The name that files, database and people see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingLocally => "missing_locally",
            Self::StatusProviderSucceeded => "status_provider_succeeded",
            Self::DuplicateAtProvider => "duplicate_at_provider",
            Self::AmountOver => "amount_over",
            Self::MissingAtProvider => "missing_at_provider",
            Self::AmountUnder => "amount_under",
            Self::CurrencyMismatch => "currency_mismatch",
            Self::StatusProviderFailed => "status_provider_failed",
            Self::KeyConflict => "key_conflict",
            Self::DuplicateLocally => "duplicate_locally",
            Self::TimingPending => "timing_pending",
            Self::UnparseableRow => "unparseable_row",
            Self::UnknownRowType => "unknown_row_type",
            Self::FileRejected => "file_rejected",
            Self::DuplicateReportRow => "duplicate_report_row",
            Self::NonChargeRow => "non_charge_row",
        }
    }

    /// Reads the name back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Severity before value and age are looked at: customer money first, own money next, bookkeeping last.
    pub fn base_severity(self) -> Severity {
        match self {
            Self::MissingLocally
            | Self::StatusProviderSucceeded
            | Self::DuplicateAtProvider
            | Self::AmountOver
            | Self::FileRejected => Severity::Critical,
            Self::MissingAtProvider
            | Self::AmountUnder
            | Self::CurrencyMismatch
            | Self::StatusProviderFailed
            | Self::KeyConflict
            | Self::DuplicateLocally => Severity::High,
            Self::UnparseableRow | Self::UnknownRowType => Severity::Medium,
            Self::TimingPending | Self::DuplicateReportRow | Self::NonChargeRow => Severity::Info,
        }
    }

    /// Whether a person has to do something about it (the others are counted, not alerted).
    pub fn is_break(self) -> bool {
        self.base_severity() != Severity::Info
    }
}

/// How bad, worst first in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Severity {
    Critical,
    High,
    Medium,
    Info,
}

impl Severity {
    /// The name that files, database and people see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Info => "info",
        }
    }
}

/// Where a mismatch stands in review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum State {
    /// One side only, within the grace: carried, not a break.
    Pending,
    Open,
    Assigned,
    /// Open but silent until a date.
    Explained,
    PendingApproval,
    Resolved,
    /// Closed by later evidence.
    AutoResolved,
    Ignored,
}

impl State {
    /// The name that files, database and people see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Open => "open",
            Self::Assigned => "assigned",
            Self::Explained => "explained",
            Self::PendingApproval => "pending_approval",
            Self::Resolved => "resolved",
            Self::AutoResolved => "auto_resolved",
            Self::Ignored => "ignored",
        }
    }

    /// Reads the name back.
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Pending,
            Self::Open,
            Self::Assigned,
            Self::Explained,
            Self::PendingApproval,
            Self::Resolved,
            Self::AutoResolved,
            Self::Ignored,
        ]
        .into_iter()
        .find(|state| state.as_str() == text)
    }
}

/// How a mismatch of one run stands against the runs before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Never seen before.
    New,
    /// Seen before, and as it was.
    StillOpen,
    /// Seen before, with other amounts, currencies or statuses.
    Changed,
    /// Seen before and as it was, but worse now.
    Raised,
    /// Had been closed, and is back.
    Reopened,
}

impl Standing {
    /// The name that files, database and people see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::StillOpen => "still_open",
            Self::Changed => "changed",
            Self::Raised => "raised",
            Self::Reopened => "reopened",
        }
    }

    /// Reads the name back.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::New, Self::StillOpen, Self::Changed, Self::Raised, Self::Reopened]
            .into_iter()
            .find(|standing| standing.as_str() == text)
    }
}

/// One side's view of a payment at the moment of comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideView {
    /// Local charge ids, or provider ids.
    pub ids: Vec<String>,
    /// Net amount in minor units; `None` when the rows do not add up to one amount.
    pub amount_minor: Option<i64>,
    /// Its currency.
    pub currency: Option<Currency>,
    /// Our word for where it stands.
    pub status: Option<String>,
    /// When, in UTC.
    pub occurred_at: Option<DateTime<Utc>>,
}

/// One field in which the sides differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Name of the field.
    pub field: String,
    /// What our side has.
    pub local: Option<String>,
    /// What the provider's side has.
    pub provider: Option<String>,
}

/// Where a finding can be looked up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// `report` or `local`.
    pub side: String,
    /// The file's name (for `report`) or the local charge id.
    pub source: String,
    /// Physical line, for files.
    pub line: Option<u64>,
    /// What stands there, in a few words, card numbers masked.
    pub text: String,
}

impl Standing {
    fn without_history() -> Self {
        Self::New
    }
}

/// A break, or one of the counted remarks beside them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Short, stable name for people: `RB-7Q2K...`, made from the fingerprint.
    pub id: String,
    /// What makes it the same break in the next run: provider, account, kind and group key; not the amount.
    pub fingerprint: String,
    /// What is wrong.
    pub kind: Kind,
    /// How bad.
    pub severity: Severity,
    /// Where it stands in review.
    pub state: State,
    /// Against earlier runs; new whenever none is known.
    #[serde(default = "Standing::without_history")]
    pub seen: Standing,
    /// The merchant reference (or other match key) of the group.
    pub reference: Option<String>,
    /// The idempotency key, where the local side has it.
    pub idempotency_key: Option<String>,
    /// All provider ids of the group.
    pub provider_ids: Vec<String>,
    /// Our side; `None` when it has nothing.
    pub local: Option<SideView>,
    /// The provider's side; `None` when it has nothing.
    pub provider: Option<SideView>,
    /// The fields that differ.
    pub diff: Vec<Difference>,
    /// Money at risk in minor units of `currency`, never negative.
    pub at_risk_minor: i64,
    /// Currency of `at_risk_minor`; `None` when the amount is unknown.
    pub currency: Option<Currency>,
    /// Which rule decided, in words.
    pub rule: String,
    /// What a person should do.
    pub suggestion: String,
    /// Time of the charge, from which the age counts.
    pub occurred_at: Option<DateTime<Utc>>,
    /// Where to look.
    pub evidence: Vec<Evidence>,
}

/// The identity of a break across runs: SHA-256, in hex, over length-prefixed parts.
pub fn fingerprint(provider: &str, account: &str, kind: Kind, group_key: &str) -> String {
    let mut hash = Sha256::new();
    for part in [provider, account, kind.as_str(), group_key] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        use std::fmt::Write;
        write!(hex, "{byte:02x}").expect("writing to a String cannot fail");
        hex
    })
}

/// The short name for people: `RB-` and eight characters (40 bits) of Crockford's base 32.
///
/// # Panics
/// When `fingerprint` is not the hex text that [`fingerprint`] makes.
pub fn short_id(fingerprint: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let bits = u64::from_str_radix(&fingerprint[..10], 16).expect("a fingerprint is 64 hex digits");
    let mut id = String::from("RB-");
    for i in (0..8).rev() {
        id.push(char::from(ALPHABET[(bits >> (5 * i) & 31) as usize]));
    }
    id
}
