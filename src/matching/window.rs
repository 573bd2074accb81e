//! Which time a report covers, and in which time local charges are read for it.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use thiserror::Error;

use crate::domain::entry::DatedBy;

use super::rules::{earlier, later};

/// A half-open span of time: `from` belongs to it, `to` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First instant.
    pub from: DateTime<Utc>,
    /// End, exclusive.
    pub to: DateTime<Utc>,
}

/// Why there is no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    /// No row has a time in UTC.
    #[error("no row of the report has a time that can be told in UTC, expected --from and --to (or --timezone)")]
    NoTime,
    /// The end is not after the beginning.
    #[error("the window ends at {to}, expected an end after its beginning {from}")]
    Empty {
        /// The beginning.
        from: DateTime<Utc>,
        /// The end.
        to: DateTime<Utc>,
    },
}

impl Window {
    /// A span that is not empty.
    pub fn new(from: DateTime<Utc>, to: DateTime<Utc>) -> Result<Self, WindowError> {
        if from < to { Ok(Self { from, to }) } else { Err(WindowError::Empty { from, to }) }
    }

    /// The operator's ends where given, else the rows' first and last time rounded out to whole days of `zone`.
    pub fn resolve(
        from: Option<DateTime<Utc>>,
        to: Option<DateTime<Utc>>,
        rows: Option<(DateTime<Utc>, DateTime<Utc>)>,
        zone: Tz,
    ) -> Result<Self, WindowError> {
        let from = from.or_else(|| rows.map(|(first, _)| day_start(local_day(first, zone), zone)));
        let to = to.or_else(|| {
            rows.map(|(_, last)| day_start(local_day(last, zone).succ_opt().unwrap_or(NaiveDate::MAX), zone))
        });
        Self::new(from.ok_or(WindowError::NoTime)?, to.ok_or(WindowError::NoTime)?)
    }

    /// Where local charges are read: `slack` around the window, or, when rows are dated by their settlement, the
    /// settlement lag before it.
    #[must_use]
    pub fn read_range(self, dated_by: DatedBy, slack: Duration, settlement_lag: Duration) -> Self {
        let before = match dated_by {
            DatedBy::Created => slack,
            DatedBy::Settled => settlement_lag,
        };
        Self { from: earlier(self.from, before), to: later(self.to, slack) }
    }

    /// Whether `at` lies in it.
    pub fn contains(self, at: DateTime<Utc>) -> bool {
        self.from <= at && at < self.to
    }
}

fn local_day(at: DateTime<Utc>, zone: Tz) -> NaiveDate {
    at.with_timezone(&zone).date_naive()
}

/// The first instant of a local day. Where a clock change skips midnight, the day starts after the gap.
fn day_start(day: NaiveDate, zone: Tz) -> DateTime<Utc> {
    let midnight = day.and_time(NaiveTime::MIN);
    // Gaps are whole multiples of 15 minutes, and none that has midnight in it is longer than a day (Samoa, 2011).
    (0..=96)
        .filter_map(|quarters| midnight.checked_add_signed(TimeDelta::minutes(15 * quarters)))
        .find_map(|local| zone.from_local_datetime(&local).earliest())
        .map_or(DateTime::<Utc>::MAX_UTC, |at| at.with_timezone(&Utc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn rows_are_rounded_out_to_whole_days_of_the_reports_zone() {
        let table = [
            (
                "plain UTC day",
                "UTC",
                "2026-05-01T00:00:03Z",
                "2026-05-01T23:59:59Z",
                "2026-05-01T00:00:00Z",
                "2026-05-02T00:00:00Z",
            ),
            (
                "midnight belongs to its day",
                "UTC",
                "2026-05-01T00:00:00Z",
                "2026-05-02T00:00:00Z",
                "2026-05-01T00:00:00Z",
                "2026-05-03T00:00:00Z",
            ),
            (
                "leap day",
                "UTC",
                "2028-02-29T10:00:00Z",
                "2028-02-29T11:00:00Z",
                "2028-02-29T00:00:00Z",
                "2028-03-01T00:00:00Z",
            ),
            (
                "year end",
                "UTC",
                "2026-12-31T10:00:00Z",
                "2026-12-31T11:00:00Z",
                "2026-12-31T00:00:00Z",
                "2027-01-01T00:00:00Z",
            ),
            (
                "Amsterdam in summer",
                "Europe/Amsterdam",
                "2026-05-01T22:30:00Z",
                "2026-05-02T10:00:00Z",
                "2026-05-01T22:00:00Z",
                "2026-05-02T22:00:00Z",
            ),
            (
                "day of 23 hours",
                "Europe/Amsterdam",
                "2026-03-29T05:00:00Z",
                "2026-03-29T05:00:00Z",
                "2026-03-28T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            (
                "day of 25 hours",
                "Europe/Amsterdam",
                "2026-10-25T05:00:00Z",
                "2026-10-25T05:00:00Z",
                "2026-10-24T22:00:00Z",
                "2026-10-25T23:00:00Z",
            ),
            (
                "midnight is skipped",
                "Africa/Cairo",
                "2024-04-26T05:00:00Z",
                "2024-04-26T05:00:00Z",
                "2024-04-25T22:00:00Z",
                "2024-04-26T21:00:00Z",
            ),
        ];
        for (name, zone, first, last, from, to) in table {
            let window = Window::resolve(None, None, Some((at(first), at(last))), zone.parse().unwrap());
            assert_eq!(window, Ok(Window { from: at(from), to: at(to) }), "{name}");
        }
    }

    #[test]
    fn the_operators_ends_win_and_must_be_in_order() {
        let (a, b) = (at("2026-05-01T00:00:00Z"), at("2026-05-02T00:00:00Z"));
        let rows = Some((at("2026-04-01T05:00:00Z"), at("2026-06-01T05:00:00Z")));
        assert_eq!(Window::resolve(Some(a), Some(b), rows, Tz::UTC), Ok(Window { from: a, to: b }));
        assert_eq!(Window::resolve(Some(a), Some(b), None, Tz::UTC), Ok(Window { from: a, to: b }));
        assert_eq!(Window::resolve(Some(b), Some(a), None, Tz::UTC), Err(WindowError::Empty { from: b, to: a }));
        assert_eq!(Window::resolve(Some(a), None, None, Tz::UTC), Err(WindowError::NoTime));
    }

    #[test]
    fn local_charges_are_read_around_the_window() {
        let window = Window { from: at("2026-05-08T00:00:00Z"), to: at("2026-05-09T00:00:00Z") };
        let (slack, lag) = (Duration::from_hours(6), Duration::from_hours(7 * 24));
        assert_eq!(
            window.read_range(DatedBy::Created, slack, lag),
            Window { from: at("2026-05-07T18:00:00Z"), to: at("2026-05-09T06:00:00Z") }
        );
        assert_eq!(
            window.read_range(DatedBy::Settled, slack, lag),
            Window { from: at("2026-05-01T00:00:00Z"), to: at("2026-05-09T06:00:00Z") }
        );
        assert!(window.contains(window.from) && !window.contains(window.to));
    }
}
