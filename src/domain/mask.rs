//! Card numbers never leave the tool: the one function that finds and masks them.
//!
//! It knows nothing of columns or files; whoever quotes foreign text passes it through here first.

use std::borrow::Cow;

/// Fewest and most digits of a card number (ISO/IEC 7812-1).
const DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// How card numbers are printed in groups: four by four, American Express, Diners Club.
const GROUPINGS: [&[usize]; 5] = [&[4, 4, 4, 4], &[4, 4, 4, 4, 3], &[4, 4, 4, 1], &[4, 6, 5], &[4, 6, 4]];

/// Masks what looks like a card number: a run of 13 to 19 digits that passes the Luhn check, plain or
/// in a card's usual groups with blanks or hyphens between. The first six and the last four digits stay
/// (PCI DSS 3.4 allows as many to be shown), each other digit becomes `*`.
///
/// A number that fails the Luhn check is never touched, so most numeric ids stay readable; neither is one that
/// begins as no card does, nor a part of a longer run of digits.
///
/// # Panics
/// Never: ASCII digits are replaced by an ASCII star.
pub fn mask_card_numbers(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut masked: Option<Vec<u8>> = None;
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = card_end(bytes, at);
        if let Some(end) = end {
            let out = masked.get_or_insert_with(|| bytes.to_vec());
            let count = bytes[at..end].iter().filter(|b| b.is_ascii_digit()).count();
            let mut seen = 0;
            for byte in &mut out[at..end] {
                if byte.is_ascii_digit() {
                    if (6..count - 4).contains(&seen) {
                        *byte = b'*';
                    }
                    seen += 1;
                }
            }
        }
        at = end.unwrap_or_else(|| run_end(bytes, at));
    }
    match masked {
        Some(bytes) => Cow::Owned(String::from_utf8(bytes).expect("ASCII digits were replaced by ASCII stars")),
        None => Cow::Borrowed(text),
    }
}

/// End of the run of digits that starts at `from`.
fn run_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |length| from + length)
}

/// End of the card number that starts at `from`, the start of a run of digits; `None` when none does.
fn card_end(bytes: &[u8], from: usize) -> Option<usize> {
    if !begins_like_a_card(&bytes[from..]) {
        return None;
    }
    let end = run_end(bytes, from);
    if DIGITS.contains(&(end - from)) {
        return luhn(&bytes[from..end]).then_some(end);
    }
    let separator = *bytes.get(end).filter(|b| matches!(b, b' ' | b'-'))?;
    GROUPINGS.iter().find_map(|groups| {
        let mut start = from;
        let mut end = from;
        for (index, &length) in groups.iter().enumerate() {
            if index > 0 {
                if bytes.get(end) != Some(&separator) {
                    return None;
                }
                start = end + 1;
            }
            end = run_end(bytes, start);
            if end - start != length {
                return None;
            }
        }
        luhn(&bytes[from..end]).then_some(end)
    })
}

/// Whether a card scheme issues numbers that begin so (ISO/IEC 7812-1): 2 to 6, and RuPay's and UnionPay's 81 and 82.
/// One in ten numbers passes the Luhn check by chance; this keeps ids such as Adyen's 16 digits from 88 readable.
fn begins_like_a_card(bytes: &[u8]) -> bool {
    matches!(bytes, [b'2'..=b'6', ..] | [b'8', b'1' | b'2', ..])
}

/// The check digit of ISO/IEC 7812-1, annex B, over the digits of `bytes`; other bytes are skipped.
fn luhn(bytes: &[u8]) -> bool {
    let digits = bytes.iter().rev().filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0'));
    let sum: u32 = digits
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit) {
            (0, digit) => digit,
            (_, digit) if digit > 4 => digit * 2 - 9,
            (_, digit) => digit * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_masked_and_what_is_not() {
        let table = [
            ("4111111111111111", "411111******1111"),
            ("card 4111 1111 1111 1111, paid", "card 4111 11** **** 1111, paid"),
            ("5555-5555-5555-4444", "5555-55**-****-4444"),
            ("3782 822463 10005", "3782 82**** *0005"),
            ("378282246310005x", "378282*****0005x"),
            ("ref_4222222222222", "ref_422222***2222"),
            ("6304000000000000000", "630400*********0000"),
            ("6304000000000000001", "6304000000000000001"),
            ("4111111111111112", "4111111111111112"),
            ("0000000000000000", "0000000000000000"),
            ("41111111111111114111", "41111111111111114111"),
            ("2026-05-01 12:00:00", "2026-05-01 12:00:00"),
            ("4111 11111111 1111", "4111 11111111 1111"),
            ("4111 1111-1111 1111", "4111 1111-1111 1111"),
            ("é4111111111111111é", "é411111******1111é"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(mask_card_numbers(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn length_and_all_but_digits_stay(text in "[0-9 a\u{e9}-]{0,60}") {
            let masked = mask_card_numbers(&text);
            prop_assert_eq!(masked.len(), text.len());
            for (before, after) in text.chars().zip(masked.chars()) {
                prop_assert!(before == after || (before.is_ascii_digit() && after == '*'));
            }
        }

        #[test]
        fn each_plain_card_number_is_masked(start in 1_u64..99_999_999_999_999_999) {
            let body = format!("4{start}");
            prop_assume!(body.len() >= 12);
            let card = (0..10).map(|check| format!("{body}{check}")).find(|c| luhn(c.as_bytes())).unwrap();
            prop_assert!(mask_card_numbers(&card).contains('*'));
        }
    }
}
