//! Times as reports print them. Fixed patterns, since this runs once a row; UTC only where the file settles it.

use std::borrow::Cow;

use chrono::{DateTime, Duration, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone, Timelike, Utc};
use chrono_tz::Tz;

use crate::config::settings::DateOrder;
use crate::domain::entry::Entry;

use super::row::flag;
use super::zones;

/// What a cell says about the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When<'a> {
    /// Nothing.
    Blank,
    /// The instant.
    At(DateTime<Utc>),
    /// A local time, and nothing says of which zone.
    Local(&'a str),
    /// A date only.
    Date(&'a str),
    /// Text that does not settle the instant, and why.
    Doubt(&'a str, &'static str),
}

const NOT_A_TIME: &str = "the time is not in the report's own pattern: was the file saved by a spreadsheet?";
const AMBIGUOUS: &str = "this local time exists twice in its zone (clocks went back)";
const IMPOSSIBLE: &str = "this local time does not exist in its zone (clocks went forward)";

impl<'a> When<'a> {
    /// Writes the time into an entry.
    pub(super) fn put(self, entry: &mut Entry<'a>) {
        match self {
            Self::Blank => {}
            Self::At(instant) => entry.time_utc = Some(instant),
            Self::Local(text) => entry.time_raw = Some(Cow::Borrowed(text)),
            Self::Date(text) => entry.date = Some(Cow::Borrowed(text)),
            Self::Doubt(text, why) => {
                entry.time_raw = Some(Cow::Borrowed(text));
                flag(entry, why);
            }
        }
    }
}

/// `2026-03-02 09:14:07` (or with `T`, or without seconds) that the title says is UTC.
pub(super) fn utc(text: &str, _stated: Option<Tz>) -> When<'_> {
    if text.is_empty() {
        return When::Blank;
    }
    match iso(text) {
        Some((local, rest)) => match (rest, offset_minutes(rest)) {
            ("", _) => When::At(local.and_utc()),
            (_, Some(minutes)) => When::At(local.and_utc() - Duration::minutes(minutes)),
            _ => When::Doubt(text, NOT_A_TIME),
        },
        None if date(text).is_some() => When::Date(text),
        None => When::Doubt(text, NOT_A_TIME),
    }
}

/// The same pattern with an offset, or in the zone that the operator has stated, else left open.
pub(super) fn local(text: &str, stated: Option<Tz>) -> When<'_> {
    match (utc(text, None), iso(text), stated) {
        (When::At(_), Some((local, "")), Some(zone)) => in_zone(text, local, zone),
        (When::At(_), Some((_, "")), None) => When::Local(text),
        (when, ..) => when,
    }
}

/// PayPal's `2026/01/06 04:31:17 -0800`.
pub(super) fn slashed_with_offset(text: &str, _stated: Option<Tz>) -> When<'_> {
    if text.is_empty() {
        return When::Blank;
    }
    match separated(text, b'/') {
        Some((local, rest)) => match offset_minutes(rest) {
            Some(minutes) => When::At(local.and_utc() - Duration::minutes(minutes)),
            None => When::Doubt(text, NOT_A_TIME),
        },
        None => When::Doubt(text, NOT_A_TIME),
    }
}

/// A local time whose zone stands beside it: an abbreviation, a zone's name, else what the operator has stated.
pub(super) fn labelled<'a>(text: &'a str, local: Option<NaiveDateTime>, label: &str, stated: Option<Tz>) -> When<'a> {
    let Some(local) = local else {
        return if text.is_empty() { When::Blank } else { When::Doubt(text, NOT_A_TIME) };
    };
    let known = ABBREVIATIONS.iter().find(|a| a.label.eq_ignore_ascii_case(label));
    match (known, stated) {
        (Some(known), stated) => {
            let instant = local.and_utc() - Duration::minutes(known.minutes);
            match (known.season, stated) {
                (Some(zone), None) if offset_at(zone, instant) != known.minutes => {
                    When::Doubt(text, "the zone's abbreviation is out of season for this date: state --timezone")
                }
                (Some(zone), Some(stated)) if offset_at(zone, instant) != known.minutes => in_zone(text, local, stated),
                _ => When::At(instant),
            }
        }
        (None, Some(zone)) => in_zone(text, local, zone),
        (None, None) if label.is_empty() => When::Local(text),
        (None, None) => match zones::named(label) {
            Some(zone) => in_zone(text, local, zone),
            None => When::Doubt(text, "this zone's abbreviation names several zones or none: state --timezone"),
        },
    }
}

/// A zone's abbreviation as these providers print it.
struct Abbreviation {
    label: &'static str,
    minutes: i64,
    /// A zone that tells when the abbreviation is in season; `None` where some region uses it all year.
    season: Option<Tz>,
}

const fn abbreviation(label: &'static str, hours: i64, season: Option<Tz>) -> Abbreviation {
    Abbreviation { label, minutes: hours * 60, season }
}

/// BST, IST and CST are left out on purpose: each names several zones.
const ABBREVIATIONS: &[Abbreviation] = &[
    abbreviation("UTC", 0, None),
    abbreviation("GMT", 0, None),
    abbreviation("CET", 1, Some(Tz::Europe__Berlin)),
    abbreviation("CEST", 2, Some(Tz::Europe__Berlin)),
    abbreviation("PST", -8, Some(Tz::America__Los_Angeles)),
    abbreviation("PDT", -7, Some(Tz::America__Los_Angeles)),
    abbreviation("EST", -5, Some(Tz::America__New_York)),
    abbreviation("EDT", -4, Some(Tz::America__New_York)),
    abbreviation("MST", -7, None),
    abbreviation("MDT", -6, Some(Tz::America__Denver)),
    abbreviation("CDT", -5, Some(Tz::America__Chicago)),
    abbreviation("JST", 9, None),
    abbreviation("AEST", 10, None),
    abbreviation("AEDT", 11, Some(Tz::Australia__Sydney)),
];

fn offset_at(zone: Tz, instant: DateTime<Utc>) -> i64 {
    i64::from(zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc()) / 60
}

fn in_zone(text: &str, local: NaiveDateTime, zone: Tz) -> When<'_> {
    match zone.from_local_datetime(&local) {
        LocalResult::Single(instant) => When::At(instant.to_utc()),
        LocalResult::Ambiguous(..) => When::Doubt(text, AMBIGUOUS),
        LocalResult::None => When::Doubt(text, IMPOSSIBLE),
    }
}

/// `YYYY-MM-DD`.
pub(super) fn date(text: &str) -> Option<NaiveDate> {
    let bytes = text.as_bytes();
    (bytes.len() == 10).then(|| day(bytes, b'-')).flatten()
}

/// `YYYY-MM-DD HH:MM[:SS[.fraction]]` and what stands behind it.
pub(super) fn iso(text: &str) -> Option<(NaiveDateTime, &str)> {
    separated(text, b'-')
}

fn separated(text: &str, between: u8) -> Option<(NaiveDateTime, &str)> {
    let bytes = text.as_bytes();
    let day = day(bytes.get(..10)?, between)?;
    if !matches!(bytes.get(10)?, b' ' | b'T' | b't') {
        return None;
    }
    let (time, used) = clock(&bytes[11..])?;
    // `get`, since a fraction could be followed by anything.
    Some((day.and_time(time), text.get(11 + used..)?))
}

fn day(bytes: &[u8], between: u8) -> Option<NaiveDate> {
    let [y1, y2, y3, y4, a, m1, m2, b, d1, d2] = bytes else {
        return None;
    };
    if *a != between || *b != between {
        return None;
    }
    let year = two(*y1, *y2)? * 100 + two(*y3, *y4)?;
    NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, two(*m1, *m2)?, two(*d1, *d2)?)
}

/// `HH:MM[:SS[.fraction]]`; the number of bytes that it took.
fn clock(bytes: &[u8]) -> Option<(NaiveTime, usize)> {
    let [h1, h2, b':', m1, m2, rest @ ..] = bytes else {
        return None;
    };
    let (hour, minute) = (two(*h1, *h2)?, two(*m1, *m2)?);
    let [b':', s1, s2, rest @ ..] = rest else {
        return Some((NaiveTime::from_hms_opt(hour, minute, 0)?, 5));
    };
    let second = two(*s1, *s2)?;
    let mut used = 8;
    let mut nanos = 0;
    if let [b'.', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 || digits > 9 {
            return None;
        }
        nanos = fraction[..digits].iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'));
        nanos *= 10_u32.pow(9 - u32::try_from(digits).ok()?);
        used += 1 + digits;
    }
    Some((NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)?, used))
}

/// `Z`, `+02:00`, `+0200`, `+02`, each perhaps behind a blank, as minutes east of UTC.
fn offset_minutes(text: &str) -> Option<i64> {
    let text = text.trim_start();
    if text.eq_ignore_ascii_case("z") || text.eq_ignore_ascii_case("utc") {
        return Some(0);
    }
    let (sign, digits) = match text.as_bytes() {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [h1, h2] => (two(*h1, *h2)?, 0),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => (two(*h1, *h2)?, two(*m1, *m2)?),
        _ => return None,
    };
    (hours <= 15 && minutes < 60).then(|| sign * i64::from(hours * 60 + minutes))
}

fn two(tens: u8, ones: u8) -> Option<u32> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
}

/// A date that an account writes in its own way, with the order of day and month where it must be known.
/// `Err` names nothing: the order is needed and `order` is `None`.
pub(super) fn account_date(text: &str, order: Option<DateOrder>) -> Option<NaiveDate> {
    let parts: Vec<&str> = text.split(['/', '.', '-']).collect();
    let [a, b, c] = parts.as_slice() else {
        return None;
    };
    let number =
        |t: &str| (t.len() <= 4 && t.bytes().all(|b| b.is_ascii_digit())).then(|| t.parse::<u32>().ok()).flatten();
    let (first, second, third) = (number(a)?, number(b)?, number(c)?);
    let (year, month, day) = if a.len() == 4 {
        (first, second, third)
    } else if c.len() != 4 {
        return None;
    } else if text.contains('.') || order == Some(DateOrder::DayFirst) {
        (third, second, first)
    } else {
        (third, first, second)
    };
    NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)
}

/// What one date says about the order of day and month in its file: `None` when it reads in both.
pub(super) fn order_shown(text: &str) -> Option<DateOrder> {
    let mut parts = text.split('/');
    let first: u32 = parts.next().filter(|p| p.len() <= 2)?.parse().ok()?;
    let second: u32 = parts.next()?.parse().ok()?;
    match (first, second) {
        (13..=31, 1..=12) => Some(DateOrder::DayFirst),
        (1..=12, 13..=31) => Some(DateOrder::MonthFirst),
        _ => None,
    }
}

/// Whether the date is another one when day and month change places.
pub(super) fn reads_in_both_orders(text: &str) -> bool {
    let order = |order| account_date(text, Some(order));
    let (day_first, month_first) = (order(DateOrder::DayFirst), order(DateOrder::MonthFirst));
    day_first.is_some() && month_first.is_some() && day_first != month_first
}

/// `HH:MM[:SS]`.
pub(super) fn time_of_day(text: &str) -> Option<NaiveTime> {
    clock(text.as_bytes()).filter(|(_, used)| *used == text.len()).map(|(time, _)| time)
}

/// `14:30[:00]` or `2:30[:00] PM`.
pub(super) fn time_on_a_clock(text: &str) -> Option<NaiveTime> {
    let (digits, after_noon) = match text.get(text.len().checked_sub(2)?..)? {
        "AM" | "am" => (&text[..text.len() - 2], Some(false)),
        "PM" | "pm" => (&text[..text.len() - 2], Some(true)),
        _ => (text, None),
    };
    let digits = digits.trim_end();
    let time = if digits.as_bytes().get(1) == Some(&b':') {
        time_of_day(&format!("0{digits}"))?
    } else {
        time_of_day(digits)?
    };
    let hour = match (after_noon, time.hour()) {
        (None, hour) => hour,
        (Some(_), 0 | 13..) => return None,
        (Some(after_noon), hour) => hour % 12 + if after_noon { 12 } else { 0 },
    };
    time.with_hour(hour)
}

/// `03/09/2026 14:03:21` in the month-first order, for providers that print no other.
pub(super) fn american(text: &str) -> Option<NaiveDateTime> {
    date_and_clock(text, DateOrder::MonthFirst)
}

/// `09/03/2026 14:03:21` in the day-first order, for providers that print no other.
pub(super) fn day_first(text: &str) -> Option<NaiveDateTime> {
    text.contains('/').then(|| date_and_clock(text, DateOrder::DayFirst))?
}

fn date_and_clock(text: &str, order: DateOrder) -> Option<NaiveDateTime> {
    let (date, clock) = text.split_once(' ')?;
    let day = account_date(date, Some(order))?;
    time_on_a_clock(clock.trim()).map(|time| day.and_time(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> When<'static> {
        When::At(DateTime::parse_from_rfc3339(text).unwrap().to_utc())
    }

    #[test]
    fn times_as_providers_print_them() {
        let table = [
            (utc as fn(&'static str, Option<Tz>) -> When<'static>, "2026-03-02 09:14:07", at("2026-03-02T09:14:07Z")),
            (utc, "2026-01-05 10:00", at("2026-01-05T10:00:00Z")),
            (utc, "2026-05-01T23:59:58Z", at("2026-05-01T23:59:58Z")),
            (utc, "2026-05-01T23:59:58.25+02:00", at("2026-05-01T21:59:58.25Z")),
            (utc, "2026-03-09T15:02:11 -0700", at("2026-03-09T22:02:11Z")),
            (utc, "2024-02-29 00:00:00+00", at("2024-02-29T00:00:00Z")),
            (utc, "2026-05-01", When::Date("2026-05-01")),
            (utc, "", When::Blank),
            (utc, "2026-02-29 00:00:00", When::Doubt("2026-02-29 00:00:00", NOT_A_TIME)),
            (utc, "8/6/2026 12:00", When::Doubt("8/6/2026 12:00", NOT_A_TIME)),
            (utc, "46088.5", When::Doubt("46088.5", NOT_A_TIME)),
            (utc, "2026-03-02 09:14:07 PST", When::Doubt("2026-03-02 09:14:07 PST", NOT_A_TIME)),
            (local, "2026-03-02 09:14:07", When::Local("2026-03-02 09:14:07")),
            (local, "2026-03-02T09:14:07Z", at("2026-03-02T09:14:07Z")),
            (slashed_with_offset, "2026/01/06 04:31:17 -0800", at("2026-01-06T12:31:17Z")),
            (slashed_with_offset, "2026/01/06 04:31:17", When::Doubt("2026/01/06 04:31:17", NOT_A_TIME)),
        ];
        for (read, text, expected) in table {
            assert_eq!(read(text, None), expected, "{text:?}");
        }
    }

    #[test]
    fn clocks_of_twelve_and_of_twenty_four_hours() {
        for (text, expected) in [
            ("14:30:00", Some((14, 30))),
            ("2:30:00 PM", Some((14, 30))),
            ("02:30 pm", Some((14, 30))),
            ("12:00:00 AM", Some((0, 0))),
            ("12:01 PM", Some((12, 1))),
            ("13:00 PM", None),
            ("0:30 AM", None),
            ("noon", None),
            ("M", None),
        ] {
            let time = expected.and_then(|(hour, minute)| NaiveTime::from_hms_opt(hour, minute, 0));
            assert_eq!(time_on_a_clock(text), time, "{text}");
        }
    }

    #[test]
    fn zones_beside_the_time_and_the_hours_that_they_make_doubtful() {
        let berlin = Some(Tz::Europe__Berlin);
        let table = [
            ("2026-03-01 23:59:58", "CET", None, at("2026-03-01T22:59:58Z")),
            ("2026-07-01 15:41:12", "CEST", None, at("2026-07-01T13:41:12Z")),
            ("2026-10-25 02:30:00", "CEST", None, at("2026-10-25T00:30:00Z")),
            ("2026-10-25 02:30:00", "CET", None, at("2026-10-25T01:30:00Z")),
            ("2026-07-01 15:41:12", "CET", berlin, at("2026-07-01T13:41:12Z")),
            ("2026-06-01 12:00:00", "Europe/Berlin", None, at("2026-06-01T10:00:00Z")),
            ("2026-06-01 12:00:00", "BST", Some(Tz::Europe__London), at("2026-06-01T11:00:00Z")),
            ("2026-06-01 12:00:00", "JST", None, at("2026-06-01T03:00:00Z")),
            ("2026-06-01 12:00:00", "", None, When::Local("2026-06-01 12:00:00")),
        ];
        for (text, label, stated, expected) in table {
            assert_eq!(labelled(text, iso(text).map(|t| t.0), label, stated), expected, "{text} {label}");
        }
        let doubtful = [
            ("2026-07-01 15:41:12", "CET", "out of season"),
            ("2026-01-01 00:00:00", "PDT", "out of season"),
            ("2026-06-01 12:00:00", "IST", "several zones"),
            ("2026-10-25 02:30:00", "Europe/Berlin", "twice"),
            ("2026-03-29 02:30:00", "Europe/Berlin", "does not exist"),
        ];
        for (text, label, sentence) in doubtful {
            match labelled(text, iso(text).map(|t| t.0), label, None) {
                When::Doubt(raw, why) => assert!(raw == text && why.contains(sentence), "{label}: {why}"),
                other => panic!("{text} {label}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_order_of_day_and_month_is_shown_by_a_number_above_twelve_only() {
        assert_eq!(order_shown("03/29/2026"), Some(DateOrder::MonthFirst));
        assert_eq!(order_shown("29/03/2026"), Some(DateOrder::DayFirst));
        assert_eq!(order_shown("03/04/2026"), None);
        assert_eq!(order_shown("2026/03/29"), None);
        let day = NaiveDate::from_ymd_opt(2026, 3, 4);
        assert_eq!(account_date("03/04/2026", Some(DateOrder::MonthFirst)), day);
        assert_eq!(account_date("04/03/2026", Some(DateOrder::DayFirst)), day);
        assert_eq!(account_date("04.03.2026", None), day);
        assert_eq!(account_date("2026/03/04", None), day);
        assert_eq!(account_date("46088", None), None);
    }
}
