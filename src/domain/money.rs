//! Exact money: integer minor units with a currency, and the one parser from decimal text to it.
//!
//! No binary floating point anywhere. Minor units are those of ISO 4217 inside the tool; another
//! party's idea of minor units ([`MinorUnits`]) is converted at the edge.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A currency code: three ASCII letters, upper case, and its exponent, looked up once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency {
    code: [u8; 3],
    exponent: u8,
}

/// Currencies without decimals in ISO 4217.
const EXPONENT_0: &[&str] = &[
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF",
    "XPF",
];
/// Currencies with three decimals in ISO 4217.
const EXPONENT_3: &[&str] = &["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"];
/// Currencies with two decimals in ISO 4217.
const EXPONENT_2: &[&str] = &[
    "AED", "AFN", "ALL", "AMD", "ANG", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BGN", "BMD", "BND",
    "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CNY", "COP", "CRC", "CUP", "CVE", "CZK",
    "DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GTQ", "GYD",
    "HKD", "HNL", "HRK", "HTG", "HUF", "IDR", "ILS", "INR", "IRR", "JMD", "KES", "KGS", "KHR", "KPW", "KYD", "KZT",
    "LAK", "LBP", "LKR", "LRD", "LSL", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK",
    "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "QAR",
    "RON", "RSD", "RUB", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SLL", "SOS", "SRD", "SSP", "STN",
    "SVC", "SYP", "SZL", "THB", "TJS", "TMT", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "USD", "UYU", "UZS", "VED",
    "VES", "WST", "XCD", "XCG", "YER", "ZAR", "ZMW", "ZWG",
];

impl Currency {
    /// Reads a code in either case. `None` when it is not a currency of ISO 4217 that we know the decimals of:
    /// an unknown currency must never be assumed to have two.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; 3] = text.trim().as_bytes().try_into().ok()?;
        let code = bytes.map(|b| b.to_ascii_uppercase());
        // The common case first: this runs once a row.
        if matches!(&code, b"USD" | b"EUR" | b"GBP") {
            return Some(Self { code, exponent: 2 });
        }
        let text = std::str::from_utf8(&code).ok()?;
        [(EXPONENT_2, 2), (EXPONENT_0, 0), (EXPONENT_3, 3)]
            .into_iter()
            .find(|(table, _)| table.binary_search(&text).is_ok())
            .map(|(_, exponent)| Self { code, exponent })
    }

    /// Digits after the decimal point in ISO 4217.
    pub fn exponent(self) -> u8 {
        self.exponent
    }

    /// The code in upper case.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.code).expect("three ASCII letters")
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Currency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("unknown currency {text:?}")))
    }
}

/// Whose minor units an integer amount is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MinorUnits {
    /// ISO 4217.
    #[default]
    Iso,
    /// The Stripe API's: ISK and UGX in hundredths. (docs.stripe.com/currencies)
    Stripe,
    /// The Adyen API's: CLP and ISK in hundredths, CVE and IDR in units.
    /// (docs.adyen.com/development-resources/currency-codes)
    Adyen,
}

impl MinorUnits {
    /// Digits that this party counts after the decimal point of `currency`.
    pub fn exponent(self, currency: Currency) -> u8 {
        match (self, currency.as_str()) {
            (Self::Stripe, "ISK" | "UGX") | (Self::Adyen, "CLP" | "ISK") => 2,
            (Self::Adyen, "CVE" | "IDR") | (Self::Stripe, "MGA") => 0,
            _ => currency.exponent(),
        }
    }

    /// Converts an integer in this party's minor units to ISO minor units.
    /// `None` when it is not a whole number of them, or does not fit.
    pub fn to_iso(self, minor: i64, currency: Currency) -> Option<i64> {
        let (theirs, iso) = (u32::from(self.exponent(currency)), u32::from(currency.exponent()));
        if theirs <= iso {
            minor.checked_mul(10_i64.pow(iso - theirs))
        } else {
            let step = 10_i64.pow(theirs - iso);
            (minor % step == 0).then(|| minor / step)
        }
    }
}

/// An amount that is known to be whole minor units of its currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Money {
    /// ISO 4217 minor units, signed.
    pub minor: i64,
    /// The currency that they count.
    pub currency: Currency,
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.currency, format_minor(i128::from(self.minor), self.currency.exponent()))
    }
}

/// Minor units as decimal text in major units, all digits of the exponent: `123456`, 2 -> `1234.56`.
pub fn format_minor(minor: i128, exponent: u8) -> String {
    let sign = if minor < 0 { "-" } else { "" };
    let digits = minor.unsigned_abs();
    if exponent == 0 {
        return format!("{sign}{digits}");
    }
    let unit = 10_u128.pow(u32::from(exponent));
    format!("{sign}{}.{:0width$}", digits / unit, digits % unit, width = usize::from(exponent))
}

/// Which character ends the whole part of a decimal number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecimalMark {
    /// `1234.56`
    Point,
    /// `1234,56`
    Comma,
}

/// How numbers are written in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberStyle {
    /// The decimal mark; `None` when neither the format nor the operator has stated it.
    pub mark: Option<DecimalMark>,
    /// Whether the other mark may group digits in threes.
    pub grouping: bool,
}

impl NumberStyle {
    /// A decimal point and no grouping: what most providers print.
    pub const POINT: Self = Self { mark: Some(DecimalMark::Point), grouping: false };
}

/// Why a text is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Nothing but white space.
    #[error("empty amount")]
    Empty,
    /// Not a decimal number in this style.
    #[error("not a decimal number")]
    NotANumber,
    /// One separator with exactly three digits behind it, and nothing says which separator it is.
    #[error("ambiguous number: state the decimal mark with --decimal-separator")]
    Ambiguous,
    /// More decimals than the currency has, and they are not zero.
    #[error("more decimals than the currency has")]
    TooPrecise,
    /// Does not fit 64 bits of minor units.
    #[error("amount out of range")]
    OutOfRange,
}

/// Reads decimal text in major units as integer minor units with `exponent` digits.
///
/// Accepts a leading sign, a leading decimal mark (`.25`), dropped and extra trailing zeros. With
/// `style.mark` unknown a comma is never accepted, and a point with exactly three digits behind it only
/// where the currency has three decimals. `-0.00` is 0.
pub fn parse_minor(text: &str, exponent: u8, style: NumberStyle) -> Result<i64, AmountError> {
    let text = text.trim();
    let (negative, digits) = match text.as_bytes() {
        [] => return Err(AmountError::Empty),
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    let (mark, group) = match style.mark {
        Some(DecimalMark::Comma) => (b',', b'.'),
        Some(DecimalMark::Point) | None => (b'.', b','),
    };
    let (whole, fraction) = match digits.iter().position(|&b| b == mark) {
        Some(at) => (&digits[..at], Some(&digits[at + 1..])),
        None => (digits, None),
    };
    if style.mark.is_none() {
        let three = fraction.is_some_and(|f| f.len() == 3 && f.iter().all(u8::is_ascii_digit))
            && (1..=3).contains(&whole.len());
        if digits.contains(&b',') || (three && exponent != 3) {
            return Err(AmountError::Ambiguous);
        }
    }
    if fraction.is_some_and(<[u8]>::is_empty) || (whole.is_empty() && fraction.is_none()) {
        return Err(AmountError::NotANumber);
    }

    let mut minor: i64 = 0;
    let mut push = |digit: u8| -> Result<(), AmountError> {
        if !digit.is_ascii_digit() {
            return Err(AmountError::NotANumber);
        }
        // Counted downwards, so that i64::MIN can be reached.
        let next = minor.checked_mul(10).and_then(|m| m.checked_sub(i64::from(digit - b'0')));
        minor = next.ok_or(AmountError::OutOfRange)?;
        Ok(())
    };
    if style.grouping && whole.contains(&group) {
        let mut parts = whole.split(|&b| b == group);
        let first = parts.next().expect("split gives at least one part");
        if !(1..=3).contains(&first.len()) {
            return Err(AmountError::NotANumber);
        }
        first.iter().try_for_each(|&d| push(d))?;
        for part in parts {
            if part.len() != 3 {
                return Err(AmountError::NotANumber);
            }
            part.iter().try_for_each(|&d| push(d))?;
        }
    } else {
        whole.iter().try_for_each(|&d| push(d))?;
    }
    let fraction = fraction.unwrap_or_default();
    for place in 0..usize::from(exponent) {
        push(fraction.get(place).copied().unwrap_or(b'0'))?;
    }
    for &digit in fraction.iter().skip(usize::from(exponent)) {
        match digit {
            b'0' => {}
            b'1'..=b'9' => return Err(AmountError::TooPrecise),
            _ => return Err(AmountError::NotANumber),
        }
    }
    if negative { Ok(minor) } else { minor.checked_neg().ok_or(AmountError::OutOfRange) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNSTATED: NumberStyle = NumberStyle { mark: None, grouping: false };
    const COMMA: NumberStyle = NumberStyle { mark: Some(DecimalMark::Comma), grouping: true };

    #[test]
    fn the_tables_of_currencies_are_sorted_so_that_each_code_is_found() {
        for (table, exponent) in [(EXPONENT_0, 0), (EXPONENT_2, 2), (EXPONENT_3, 3)] {
            assert!(table.is_sorted());
            for code in table {
                assert_eq!(Currency::parse(&code.to_lowercase()).map(Currency::exponent), Some(exponent), "{code}");
            }
        }
        assert_eq!(Currency::parse("QQQ"), None, "an unknown currency is never assumed to have two decimals");
        assert_eq!(Currency::parse("US"), None);
    }

    #[test]
    fn amounts_as_providers_print_them() {
        use AmountError::{Ambiguous, Empty, NotANumber, OutOfRange, TooPrecise};
        let table: &[(&str, u8, NumberStyle, Result<i64, AmountError>)] = &[
            ("2557.68", 2, UNSTATED, Ok(255_768)),
            ("1.15", 2, UNSTATED, Ok(115)),
            (".25", 2, UNSTATED, Ok(25)),
            ("25", 2, UNSTATED, Ok(2_500)),
            ("-0.5", 2, UNSTATED, Ok(-50)),
            ("-0.00", 2, UNSTATED, Ok(0)),
            ("+1.5", 2, UNSTATED, Ok(150)),
            ("1990.00", 0, UNSTATED, Ok(1_990)),
            ("10000.50", 0, UNSTATED, Err(TooPrecise)),
            ("0.5000", 2, UNSTATED, Ok(50)),
            ("1.234", 3, UNSTATED, Ok(1_234)),
            ("1.000", 2, UNSTATED, Err(Ambiguous)),
            ("1.355,90", 2, UNSTATED, Err(Ambiguous)),
            ("1,5", 2, UNSTATED, Err(Ambiguous)),
            ("1.000", 2, COMMA, Ok(100_000)),
            ("1.355,90", 2, COMMA, Ok(135_590)),
            ("1,5", 2, COMMA, Ok(150)),
            ("1.0000,5", 2, COMMA, Err(NotANumber)),
            ("1.000", 2, NumberStyle::POINT, Ok(100)),
            ("1,000", 2, NumberStyle::POINT, Err(NotANumber)),
            ("", 2, UNSTATED, Err(Empty)),
            ("-", 2, UNSTATED, Err(NotANumber)),
            (".", 2, UNSTATED, Err(NotANumber)),
            ("5.", 2, UNSTATED, Err(NotANumber)),
            ("1e3", 2, UNSTATED, Err(NotANumber)),
            ("1.2.3", 2, UNSTATED, Err(NotANumber)),
            ("--1", 2, UNSTATED, Err(NotANumber)),
            ("99999999999999999999", 2, UNSTATED, Err(OutOfRange)),
            ("-92233720368547758.08", 2, UNSTATED, Ok(i64::MIN)),
            ("92233720368547758.08", 2, UNSTATED, Err(OutOfRange)),
        ];
        for (text, exponent, style, expected) in table {
            assert_eq!(parse_minor(text, *exponent, *style), *expected, "{text:?} with {exponent} decimals");
        }
    }

    #[test]
    fn other_parties_minor_units_become_iso() {
        let isk = Currency::parse("isk").unwrap();
        assert_eq!(MinorUnits::Stripe.to_iso(150_000, isk), Some(1_500));
        assert_eq!(MinorUnits::Stripe.to_iso(150_050, isk), None, "half a krona does not exist");
        assert_eq!(MinorUnits::Adyen.to_iso(15, Currency::parse("IDR").unwrap()), Some(1_500));
        assert_eq!(MinorUnits::Iso.to_iso(15, isk), Some(15));
    }

    proptest! {
        #[test]
        fn printing_then_parsing_gives_the_amount_back(minor: i64, exponent in 0_u8..=3) {
            let text = format_minor(i128::from(minor), exponent);
            prop_assert_eq!(parse_minor(&text, exponent, NumberStyle::POINT), Ok(minor));
        }

        #[test]
        fn a_comma_file_reads_as_the_point_file(minor: i64, exponent in 0_u8..=3) {
            let text = format_minor(i128::from(minor), exponent).replace('.', ",");
            prop_assert_eq!(parse_minor(&text, exponent, COMMA), Ok(minor));
        }

        #[test]
        fn no_text_panics_and_success_means_digits(text in "[-+0-9.,eE \u{a0}]{0,24}", exponent in 0_u8..=3) {
            if parse_minor(&text, exponent, UNSTATED).is_ok() {
                prop_assert!(text.bytes().any(|b| b.is_ascii_digit()));
            }
        }
    }
}
