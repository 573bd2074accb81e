//! Small checked values: secrets, spans of time, edges of a window, and the words that flags and `jobs.toml` share.
//!
//! Each reader here takes text and gives the value or a lower-case sentence that says what was expected; who asked
//! (a flag, a key of `jobs.toml`, a variable) adds the place. Nothing here knows a place.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

use crate::domain::money::{Currency, DecimalMark};

/// Text that must not be seen: `Debug` redacts it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// An end of the reconciled window as the operator states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEdge {
    /// An exact instant.
    Instant(DateTime<Utc>),
    /// The start of this day in the report's zone.
    Day(NaiveDate),
}

impl WindowEdge {
    /// The instant, with days taken in `zone`.
    ///
    /// A day whose midnight comes twice starts at the first one; a day whose midnight was skipped starts at the
    /// first instant that exists.
    pub fn instant(self, zone: Tz) -> DateTime<Utc> {
        let day = match self {
            Self::Instant(at) => return at,
            Self::Day(day) => day,
        };
        // Zones skip from half an hour to one whole day (Samoa in 2011): two days of quarter hours cover them all.
        (0..192)
            .map(|quarter| day.and_time(NaiveTime::MIN) + TimeDelta::minutes(15 * quarter))
            .find_map(|local| zone.from_local_datetime(&local).earliest())
            .map_or_else(|| day.and_time(NaiveTime::MIN).and_utc(), |at| at.to_utc())
    }
}

/// Reads an instant: RFC 3339 with an offset, or a date, which is its midnight UTC.
pub fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    match window_edge(text)? {
        WindowEdge::Instant(at) => Ok(at),
        WindowEdge::Day(day) => Ok(day.and_time(NaiveTime::MIN).and_utc()),
    }
}

/// Reads an end of a window: RFC 3339 with an offset, or a date.
pub fn window_edge(text: &str) -> Result<WindowEdge, String> {
    let edge = if text.len() == "2026-05-01".len() {
        text.parse().ok().map(WindowEdge::Day)
    } else {
        DateTime::parse_from_rfc3339(text).ok().map(|at| WindowEdge::Instant(at.to_utc()))
    };
    edge.ok_or_else(|| "expected a date such as 2026-05-01 or an instant such as 2026-05-01T06:00:00Z".to_owned())
}

/// Reads a span of time: whole numbers with the units `s`, `m`, `h` and `d`, as in `10m`, `72h` or `1d 12h`.
pub fn span(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a span such as \"30s\", \"10m\", \"72h\" or \"1d 12h\"";
    let mut seconds: u64 = 0;
    let mut number: Option<u64> = None;
    let mut parts = 0;
    for letter in text.trim().chars() {
        if let Some(digit) = letter.to_digit(10) {
            let grown = number.unwrap_or(0).checked_mul(10).and_then(|n| n.checked_add(u64::from(digit)));
            number = Some(grown.ok_or(EXPECTED)?);
            continue;
        }
        let unit = match letter {
            ' ' if number.is_none() => continue,
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(EXPECTED.to_owned()),
        };
        let part = number.take().ok_or(EXPECTED)?.checked_mul(unit);
        seconds = part.and_then(|part| seconds.checked_add(part)).ok_or(EXPECTED)?;
        parts += 1;
    }
    // A number without a unit is refused: "72" has been meant as seconds, minutes and hours.
    if parts == 0 || number.is_some() {
        return Err(EXPECTED.to_owned());
    }
    Ok(Duration::from_secs(seconds))
}

/// Prints a span with the largest unit that divides it, so that [`span`] reads it back.
pub fn print_span(span: Duration) -> String {
    let seconds = span.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    units
        .iter()
        .find(|(size, _)| seconds >= *size && seconds.is_multiple_of(*size))
        .map_or_else(|| format!("{seconds}s"), |(size, unit)| format!("{}{unit}", seconds / size))
}

/// Reads a provider's name. It becomes a folder name and a part of keys, hence the narrow alphabet.
pub fn provider_name(text: &str) -> Result<String, String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    let first = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if text.len() <= 64 && text.bytes().all(inner) && text.bytes().next().is_some_and(first) {
        Ok(text.to_owned())
    } else {
        Err("expected a provider's name such as stripe: 1 to 64 lower-case letters, digits, `-`, `_` or `.`, \
             starting with a letter or digit"
            .to_owned())
    }
}

/// Reads a provider's merchant account: up to 255 bytes without control characters.
pub fn account(text: &str) -> Result<String, String> {
    short_text(text, 255).map_err(|()| {
        "expected a merchant account: 1 to 255 bytes without control characters or outer blanks".to_owned()
    })
}

/// Reads the title of a column: up to 255 bytes without control characters.
pub fn title(text: &str) -> Result<String, String> {
    short_text(text, 255).map_err(|()| {
        "expected the title of a column: 1 to 255 bytes without control characters or outer blanks".to_owned()
    })
}

fn short_text(text: &str, bytes_max: usize) -> Result<String, ()> {
    let fits = !text.is_empty() && text.len() <= bytes_max && text.trim() == text;
    if fits && !text.chars().any(char::is_control) { Ok(text.to_owned()) } else { Err(()) }
}

/// Reads `point` or `comma`.
pub fn decimal_mark(text: &str) -> Result<DecimalMark, String> {
    match text {
        "point" | "." => Ok(DecimalMark::Point),
        "comma" | "," => Ok(DecimalMark::Comma),
        _ => Err("expected point or comma".to_owned()),
    }
}

/// Reads a delimiter: one ASCII character, or `tab`, `comma`, `semicolon`, `pipe`.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match (text, text.as_bytes()) {
        ("tab" | "\\t", _) => Ok(b'\t'),
        ("comma", _) => Ok(b','),
        ("semicolon", _) => Ok(b';'),
        ("pipe", _) => Ok(b'|'),
        (_, &[byte]) if byte == b'\t' || (byte.is_ascii_punctuation() && byte != b'"') => Ok(byte),
        _ => Err("expected one punctuation character, or tab, comma, semicolon or pipe".to_owned()),
    }
}

/// Reads an encoding's label as the WHATWG names them, and gives its standard name.
pub fn encoding(text: &str) -> Result<String, String> {
    encoding_rs::Encoding::for_label(text.as_bytes())
        .map(|encoding| encoding.name().to_owned())
        .ok_or_else(|| "expected an encoding such as utf-8, windows-1252 or utf-16le".to_owned())
}

/// Reads a zone of the IANA database.
pub fn timezone(text: &str) -> Result<Tz, String> {
    text.parse().map_err(|_| "expected a zone of the IANA database such as UTC or Europe/Berlin".to_owned())
}

/// Which of day and month stands first in a date of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    /// `31/12/2026`
    DayFirst,
    /// `12/31/2026`
    MonthFirst,
}

/// Reads the order of day and month in dates of digits.
pub fn date_order(text: &str) -> Result<DateOrder, String> {
    match text {
        "day-first" => Ok(DateOrder::DayFirst),
        "month-first" => Ok(DateOrder::MonthFirst),
        _ => Err("expected day-first (31/12/2026) or month-first (12/31/2026)".to_owned()),
    }
}

/// Reads a currency whose decimals are known.
pub fn currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).ok_or_else(|| "expected a currency of ISO 4217 such as EUR".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_as_operators_write_them() {
        let table: &[(&str, Option<u64>)] = &[
            ("0s", Some(0)),
            ("30s", Some(30)),
            ("10m", Some(600)),
            ("72h", Some(259_200)),
            ("7d", Some(604_800)),
            ("1d12h", Some(129_600)),
            (" 1d 12h ", Some(129_600)),
            ("", None),
            ("h", None),
            ("72", None),
            ("7 2h", None),
            ("1h30", None),
            ("-1h", None),
            ("1.5h", None),
            ("1w", None),
            ("99999999999999999999s", None),
            ("9999999999999999999d", None),
        ];
        for (text, seconds) in table {
            assert_eq!(span(text).ok(), seconds.map(Duration::from_secs), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_span_reads_back(seconds in 0_u64..=100_000_000) {
            let length = Duration::from_secs(seconds);
            prop_assert_eq!(span(&print_span(length)), Ok(length));
        }

        #[test]
        fn no_text_makes_a_reader_panic(text in "\\PC{0,40}") {
            let _ = (span(&text), instant(&text), window_edge(&text), provider_name(&text), delimiter(&text));
            let _ = (encoding(&text), timezone(&text), currency(&text), title(&text), account(&text));
        }
    }

    #[test]
    fn days_start_at_the_first_instant_that_exists() {
        let table = [
            ("2026-05-01", "UTC", "2026-05-01T00:00:00Z"),
            ("2026-05-01", "Europe/Berlin", "2026-04-30T22:00:00Z"),
            ("2026-03-29", "Europe/Berlin", "2026-03-28T23:00:00Z"),
            // Midnight came twice (Cuba turns back at 01:00).
            ("2024-11-03", "America/Havana", "2024-11-03T04:00:00Z"),
            // Midnight was skipped (Brazil turned forward at 00:00).
            ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00Z"),
            // The whole day was skipped (Samoa crossed the date line).
            ("2011-12-30", "Pacific/Apia", "2011-12-30T10:00:00Z"),
        ];
        for (day, zone, expected) in table {
            let found = window_edge(day).unwrap().instant(timezone(zone).unwrap());
            assert_eq!(found, instant(expected).unwrap(), "{day} in {zone}");
        }
    }

    #[test]
    fn instants_need_an_offset() {
        assert!(instant("2026-05-01T06:00:00").is_err(), "whose six o'clock?");
        assert_eq!(instant("2026-05-01T06:00:00+02:00"), instant("2026-05-01T04:00:00Z"));
        assert_eq!(instant("2026-05-01"), instant("2026-05-01T00:00:00Z"));
        assert!(instant("2026-02-30").is_err());
    }

    #[test]
    fn a_provider_name_is_fit_for_a_folder() {
        for good in ["stripe", "checkout.com", "2checkout", "my_bank-eu"] {
            assert_eq!(provider_name(good).as_deref(), Ok(good));
        }
        for bad in ["", "..", ".hidden", "a/b", "Stripe", "a b", "é"] {
            assert!(provider_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_delimiter_is_one_character_or_its_name() {
        for (text, byte) in [(";", b';'), ("tab", b'\t'), ("\t", b'\t'), ("\\t", b'\t'), ("|", b'|'), ("pipe", b'|')] {
            assert_eq!(delimiter(text), Ok(byte), "{text:?}");
        }
        for bad in ["", ";;", "\"", "a", "1", " ", "\n", "é"] {
            assert!(delimiter(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "[redacted]");
    }
}
