//! PayPal's transaction event codes as kinds. (developer.paypal.com/docs/reports/reference/tcodes)

use crate::domain::entry::EntryKind;

/// Which way the money went, seen from the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Credit,
    Debit,
}

/// What an event code means for a row of this direction. Codes that are not listed are unknown, never guessed.
pub(super) fn kind_of_code(code: &str, direction: Direction) -> EntryKind {
    let credit = direction == Direction::Credit;
    let by_direction = |money_in, money_out| if credit { money_in } else { money_out };
    let Some((group, event)) = split(code) else {
        return EntryKind::Unknown;
    };
    match (group, event) {
        // A debit among the payments is money that the account has sent.
        ("00", _) => by_direction(EntryKind::Charge, EntryKind::Transfer),
        ("01", _) | ("11", "08" | "09") => EntryKind::Fee,
        ("02", _) => EntryKind::Conversion,
        ("04" | "17", _) => by_direction(EntryKind::PayoutReversal, EntryKind::Payout),
        ("03" | "05" | "06" | "07" | "10" | "16" | "18" | "20" | "22", _) => EntryKind::Transfer,
        ("08" | "09" | "14" | "19" | "99", _) | ("12", "00") => EntryKind::Adjustment,
        ("11", "01") => EntryKind::PayoutReversal,
        ("11", "06") => by_direction(EntryKind::Transfer, EntryKind::ChargeReversal),
        // A refund that comes in is one of money that the account had sent.
        ("11", "07") => by_direction(EntryKind::Transfer, EntryKind::Refund),
        ("11", "10") => EntryKind::Hold,
        ("11", "05" | "11") => EntryKind::HoldRelease,
        ("12", "01") => EntryKind::Chargeback,
        ("12", "02") => EntryKind::ChargebackReversal,
        ("13", "02") => EntryKind::Void,
        ("13", "00" | "01") => EntryKind::Authorization,
        ("21", "03" | "04") => EntryKind::Reserve,
        ("15" | "21", _) => by_direction(EntryKind::HoldRelease, EntryKind::Hold),
        _ => EntryKind::Unknown,
    }
}

/// `T1107` as `11` and `07`.
fn split(code: &str) -> Option<(&str, &str)> {
    let digits = code.strip_prefix('T').filter(|d| d.len() == 4 && d.bytes().all(|b| b.is_ascii_digit()))?;
    Some(digits.split_at(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_what_their_group_and_direction_say() {
        use Direction::{Credit, Debit};
        let table = [
            ("T0006", Credit, EntryKind::Charge),
            ("T0000", Debit, EntryKind::Transfer),
            ("T0106", Debit, EntryKind::Fee),
            ("T0403", Debit, EntryKind::Payout),
            ("T1106", Debit, EntryKind::ChargeReversal),
            ("T1107", Debit, EntryKind::Refund),
            ("T1107", Credit, EntryKind::Transfer),
            ("T1202", Credit, EntryKind::ChargebackReversal),
            ("T1302", Credit, EntryKind::Void),
            ("T1299", Debit, EntryKind::Unknown),
            ("T7700", Credit, EntryKind::Unknown),
            ("T11", Credit, EntryKind::Unknown),
            ("", Credit, EntryKind::Unknown),
        ];
        for (code, direction, kind) in table {
            assert_eq!(kind_of_code(code, direction), kind, "{code} {direction:?}");
        }
    }
}
