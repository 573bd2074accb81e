//! What a verdict depends on besides the rows.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::charge::MatchKey;
use crate::domain::entry::DatedBy;

use super::window::Window;

/// The rules of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Provider's name; part of every fingerprint.
    pub provider: String,
    /// Merchant account, empty when there is only one; part of every fingerprint.
    pub account: String,
    /// The time that the report covers; its end is the cut-off.
    pub window: Window,
    /// Where local charges were read (window and slack); `None` when all were, as from a local file.
    pub read: Option<Window>,
    /// Up to when reports of this provider have been reconciled, this one included. A settled row that may still be
    /// due in a later report is not missing.
    pub covered_to: DateTime<Utc>,
    /// What the report's rows are dated by.
    pub dated_by: DatedBy,
    /// How long a row of one side only is pending and not a break.
    pub grace: Duration,
    /// How long after the charge its settled row may come.
    pub settlement_lag: Duration,
    /// Which text is the key of a row.
    pub match_key: MatchKey,
    /// Names of the report's files; [`super::ProviderRow::file`] counts in it.
    pub files: Vec<String>,
}

impl Rules {
    /// From when on a local charge that the provider does not have is a break.
    pub fn local_due(&self, created_at: DateTime<Utc>) -> DateTime<Utc> {
        let lag = match self.dated_by {
            DatedBy::Created => Duration::ZERO,
            DatedBy::Settled => self.settlement_lag,
        };
        later(created_at, lag.saturating_add(self.grace))
    }

    /// From when on a provider's charge that we do not have is a break: its own time, or the cut-off where the
    /// report has no time, plus the grace. As on the local side, so that both wait equally long.
    pub fn provider_due(&self, at: Option<DateTime<Utc>>) -> DateTime<Utc> {
        later(at.unwrap_or(self.window.to), self.grace)
    }

    /// Whether reports up to now should have had the row of a charge made then.
    pub fn covered(&self, created_at: DateTime<Utc>) -> bool {
        match self.dated_by {
            DatedBy::Created => true,
            DatedBy::Settled => later(created_at, self.settlement_lag) <= self.covered_to,
        }
    }

    /// Whether the stream of local charges had this time.
    pub fn was_read(&self, created_at: DateTime<Utc>) -> bool {
        self.read.is_none_or(|range| range.contains(created_at))
    }
}

/// `at + by`, or the end of time.
pub(super) fn later(at: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).ok().and_then(|by| at.checked_add_signed(by)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// `at - by`, or the beginning of time.
pub(super) fn earlier(at: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).ok().and_then(|by| at.checked_sub_signed(by)).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

/// When a report is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Share of the window's local charges, in percent, that may be missing.
    pub missing_percent_max: u8,
    /// Number of local charges that may be missing whatever their share.
    pub missing_floor: u64,
    /// Whether the operator has said that the missing charges are to be accepted.
    pub accept_missing: bool,
    /// Share of succeeded charges, in percent, that may have no match key.
    pub empty_key_percent_max: u8,
}
