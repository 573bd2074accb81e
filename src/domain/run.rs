//! What one reconciliation found: the block that must add up, the money, the breaks.
//!
//! These types are written to the database, rendered by `report` and printed as JSON
//! (`"schema": "idem-jobs/reconcile/1"`); a change of a field name is a change of that schema.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::entry::RefusedRow;
use super::mismatch::{Kind, Mismatch};
use super::money::Currency;

/// Version of the JSON object that `reconcile --output json` prints and `report.json` holds.
pub const SCHEMA: &str = "idem-jobs/reconcile/1";

/// One input file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportFile {
    /// File name without its folder.
    pub name: String,
    /// Bytes after decompression.
    pub bytes: u64,
    /// SHA-256 of the decompressed bytes, hex.
    pub sha256: String,
}

/// Which run this is and what it read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHead {
    /// Names the run in the database and in the reports' folder.
    pub id: String,
    /// Provider whose report was read.
    pub provider: String,
    /// The provider's merchant account; empty when there is only one.
    pub account: String,
    /// The report format that was recognised.
    pub format: String,
    /// The files, in the order given.
    pub files: Vec<ReportFile>,
    /// SHA-256 over files, provider, account, window and reading options: the same identity is the same run.
    pub identity: String,
    /// First instant of the window, UTC.
    pub window_from: Option<DateTime<Utc>>,
    /// End of the window, exclusive, UTC.
    pub window_to: Option<DateTime<Utc>>,
    /// When the run began.
    pub started_at: DateTime<Utc>,
    /// Wall time in milliseconds, from the start to the decision.
    pub duration_ms: u64,
    /// Hours during which a row of one side only is pending and not a break.
    pub grace_hours: u32,
    /// Version of the program.
    pub version: String,
    /// Kinds that could not be compared, and why.
    pub not_compared: Vec<String>,
}

/// Counts that must add up: every row is in exactly one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Entries of the report plus refused records.
    pub provider_rows: u64,
    /// Provider rows that agree with the local side.
    pub provider_matched: u64,
    /// Provider rows that stand in a break.
    pub provider_in_breaks: u64,
    /// Provider rows that wait within the grace.
    pub provider_pending: u64,
    /// Refunds, payouts, fees and other rows that are no charge, and charges that never moved money.
    pub provider_non_charge: u64,
    /// Repeated rows, counted once.
    pub provider_duplicate_rows: u64,
    /// Records that could not be read.
    pub provider_refused: u64,
    /// Records that are rightly not entries (headers, footers, lifecycle rows); not part of `provider_rows`.
    pub provider_ignored: u64,
    /// Local charges read (window and slack).
    pub local_rows: u64,
    /// Local charges that agree with the provider's side.
    pub local_matched: u64,
    /// Local charges that stand in a break.
    pub local_in_breaks: u64,
    /// Local charges that wait within the grace.
    pub local_pending: u64,
    /// Local charges of the slack around the window, or that never moved money, with nothing to match.
    pub local_outside: u64,
}

impl Control {
    /// Whether each side's buckets add up to what was read.
    pub fn adds_up(&self) -> bool {
        self.provider_rows
            == self.provider_matched
                + self.provider_in_breaks
                + self.provider_pending
                + self.provider_non_charge
                + self.provider_duplicate_rows
                + self.provider_refused
            && self.local_rows == self.local_matched + self.local_in_breaks + self.local_pending + self.local_outside
    }
}

/// Money that moved, of one currency, in minor units. `difference = provider - local = explained + unexplained`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoneyLine {
    /// The currency.
    pub currency: Currency,
    /// Sum of the local charges that succeeded and were compared.
    pub local_minor: i128,
    /// Sum of the provider's charges that succeeded, net of reversals.
    pub provider_minor: i128,
    /// Provider less local.
    pub difference_minor: i128,
    /// What breaks and pending rows account for.
    pub explained_minor: i128,
    /// The rest: must be 0.
    pub unexplained_minor: i128,
}

/// Sum of the rows of one kind that are no charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NonChargeSum {
    /// Kind of the entries.
    pub kind: String,
    /// Currency.
    pub currency: Currency,
    /// How many.
    pub rows: u64,
    /// Their sum, signed, minor units.
    pub sum_minor: i128,
}

/// How many of one kind, and how many are new in this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    /// All of this run.
    pub total: u64,
    /// First seen in this run.
    pub new: u64,
}

/// Everything that a run found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Which run.
    pub run: RunHead,
    /// The counts that add up.
    pub control: Control,
    /// Money per currency.
    pub money: Vec<MoneyLine>,
    /// Rows that are no charge, by kind and currency.
    pub non_charge: Vec<NonChargeSum>,
    /// Findings by kind.
    pub counts: BTreeMap<Kind, KindCount>,
    /// Breaks and pending rows, worst first.
    pub mismatches: Vec<Mismatch>,
    /// Records that could not be read (the first thousand).
    pub refused: Vec<RefusedRow>,
    /// Remarks for people (which delimiter was used, unknown columns ignored).
    pub notes: Vec<String>,
}

impl Reconciliation {
    /// Number of breaks: what a person has to look at.
    pub fn breaks(&self) -> u64 {
        self.counts.iter().filter(|(kind, _)| kind.is_break()).map(|(_, count)| count.total).sum()
    }

    /// Money at risk per currency, minor units.
    pub fn at_risk(&self) -> BTreeMap<Currency, i128> {
        let mut sums = BTreeMap::new();
        for mismatch in self.mismatches.iter().filter(|m| m.kind.is_break()) {
            if let Some(currency) = mismatch.currency {
                *sums.entry(currency).or_insert(0) += i128::from(mismatch.at_risk_minor);
            }
        }
        sums
    }
}
