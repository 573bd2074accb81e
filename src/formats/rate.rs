//! Exact arithmetic of decimal text beyond minor units: exchange rates, and fees of less than a minor unit.
//!
//! Only for the checks of a row's own arithmetic; amounts are read as minor units elsewhere.

use crate::domain::money::Currency;

/// Digits behind the point that are kept: Adyen prints rates with sixteen.
const DIGITS: u32 = 18;

/// Plain decimal text (`-0.0019802`, `.25`, `110`) as an integer of 10^-18. `None` where it is no such number.
pub(super) fn scaled(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits_only = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let empty = whole.is_empty() && fraction.is_empty();
    // Thirteen and eighteen digits fit, with room to add rows up.
    if empty || !digits_only(whole) || !digits_only(fraction) || whole.len() > 13 || fraction.len() > DIGITS as usize {
        return None;
    }
    let number = whole.bytes().chain(fraction.bytes()).fold(0_i128, |n, digit| n * 10 + i128::from(digit - b'0'));
    let missing = DIGITS - u32::try_from(fraction.len()).ok()?;
    let size = number * 10_i128.pow(missing);
    Some(if negative { -size } else { size })
}

/// Whether `from` times the rate is `to`, within one minor unit for rounding. `None` where the numbers cannot tell.
pub(super) fn converts((from, of): (i64, Currency), rate: &str, (to, into): (i64, Currency)) -> Option<bool> {
    // Half the digits: the product of an amount and a rate has to fit.
    let rate = scaled(rate)? / 10_i128.pow(DIGITS / 2);
    let one = 10_i128.pow(DIGITS / 2 + u32::from(of.exponent()));
    let product = i128::from(from).checked_mul(rate)?.checked_mul(10_i128.pow(u32::from(into.exponent())))?;
    let difference = i128::from(to).checked_mul(one)?.checked_sub(product)?;
    Some(difference.checked_abs()? <= one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_text_is_kept_to_its_last_digit() {
        let one = 10_i128.pow(DIGITS);
        for (text, expected) in [
            ("1", Some(one)),
            ("-0.5", Some(-one / 2)),
            (".25", Some(one / 4)),
            ("+110", Some(110 * one)),
            ("1.000000000000000", Some(one)),
            ("", None),
            (".", None),
            ("1e3", None),
            ("1,5", None),
            ("12345678901234", None),
        ] {
            assert_eq!(scaled(text), expected, "{text:?}");
        }
    }

    #[test]
    fn conversions_hold_within_one_minor_unit_of_the_target() {
        let currency = |code| Currency::parse(code).unwrap();
        let (eur, jpy, kwd) = (currency("EUR"), currency("JPY"), currency("KWD"));
        for (from, rate, to, expected) in [
            ((3_160, jpy), "0.0061", (1_928, eur), Some(true)),
            ((3_160, jpy), "0.0061", (1_930, eur), Some(false)),
            ((5_250, kwd), "3", (1_575, eur), Some(true)),
            ((-10_000, eur), "163.4", (-16_340, jpy), Some(true)),
            ((1, eur), "x", (1, jpy), None),
        ] {
            assert_eq!(converts(from, rate, to), expected, "{from:?} {rate} {to:?}");
        }
    }
}
