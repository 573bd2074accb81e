//! Numbers as people read them: grouped thousands, money with its currency's decimals, ages in days.
//!
//! No sums across currencies are ever made here or anywhere in this room.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::domain::money::{Currency, format_minor};

/// Money by currency, minor units.
pub(super) type Sums = BTreeMap<Currency, i128>;

/// Upper ends of the ageing buckets in whole days, and their labels; the last one has no end.
pub(super) const AGE_BUCKETS: [(i64, &str); 5] =
    [(1, "0-1 d"), (3, "2-3 d"), (7, "4-7 d"), (30, "8-30 d"), (i64::MAX, "> 30 d")];

/// A whole number with commas between thousands: `1,234,567`.
pub(super) fn count(number: u64) -> String {
    group_thousands(&number.to_string())
}

/// An amount in major units with the currency's decimals: `-1,234.56`.
pub(super) fn amount(minor: i128, currency: Currency) -> String {
    group_thousands(&format_minor(minor, currency.exponent()))
}

/// An amount with its currency before it: `USD 1,234.56`.
pub(super) fn money(minor: i128, currency: Currency) -> String {
    format!("{currency} {}", amount(minor, currency))
}

/// Sums side by side, never added up: `EUR 50.00 + USD 1,240.00`. Zeros are left out; empty when all are.
pub(super) fn money_list(sums: &Sums) -> String {
    let parts: Vec<_> = sums.iter().filter(|(_, minor)| **minor != 0).map(|(c, minor)| money(*minor, *c)).collect();
    parts.join(" + ")
}

fn group_thousands(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut grouped = String::from(sign);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// Whole days from `at` to `now`; 0 when `at` lies ahead.
pub(super) fn age_days(now: DateTime<Utc>, at: DateTime<Utc>) -> i64 {
    (now - at).num_days().max(0)
}

/// An instant to the second for people: `2026-05-01 23:59:58 UTC`.
pub(super) fn moment(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// An instant to the second for programs: `2026-05-01T23:59:58Z`.
pub(super) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A wall time for people: `0.25 s`, `12.3 s`, `4 min 5 s`.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{:02} s", ms / 1000, ms % 1000 / 10),
        10_000..120_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// Length of a bar in hundredths of the longest one; what is not zero stays visible.
pub(super) fn share(part: u64, whole: u64) -> u64 {
    if part == 0 || whole == 0 {
        return 0;
    }
    let hundredths = u128::from(part) * 100 / u128::from(whole);
    u64::try_from(hundredths.clamp(1, 100)).expect("clamped to 100")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        let currency = |code| Currency::parse(code).unwrap();
        for (minor, code, expected) in [
            (0, "USD", "USD 0.00"),
            (5, "USD", "USD 0.05"),
            (-123_456_789, "EUR", "EUR -1,234,567.89"),
            (1_000, "JPY", "JPY 1,000"),
            (1_234, "KWD", "KWD 1.234"),
            (-99_999, "USD", "USD -999.99"),
            (i128::from(i64::MIN), "USD", "USD -92,233,720,368,547,758.08"),
        ] {
            assert_eq!(money(minor, currency(code)), expected);
        }
        assert_eq!(count(5_000_000), "5,000,000");
        let sums = Sums::from([(currency("USD"), 124_000), (currency("EUR"), 5_000), (currency("JPY"), 0)]);
        assert_eq!(money_list(&sums), "EUR 50.00 + USD 1,240.00");
    }

    #[test]
    fn bars_never_hide_what_is_there() {
        assert_eq!(share(0, 10), 0);
        assert_eq!(share(1, 1_000_000), 1);
        assert_eq!(share(10, 10), 100);
        assert_eq!(share(u64::MAX, u64::MAX), 100);
        assert_eq!(share(3, 0), 0);
    }

    #[test]
    fn ages_count_whole_days_and_never_go_back() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        assert_eq!(age_days(at("2026-05-02T00:00:00Z"), at("2026-05-01T00:00:01Z")), 0);
        assert_eq!(age_days(at("2026-05-04T00:00:00Z"), at("2026-05-01T00:00:00Z")), 3);
        assert_eq!(age_days(at("2026-05-01T00:00:00Z"), at("2026-05-02T00:00:00Z")), 0);
        assert_eq!(duration(254), "0.25 s");
        assert_eq!(duration(12_345), "12.3 s");
        assert_eq!(duration(245_000), "4 min 5 s");
    }
}
