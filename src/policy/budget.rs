//! How large a table gets: from its rate, its row size and its retention.

use std::time::Duration;

const DAY_SECONDS: u64 = 86_400;

/// What comes in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// New rows a second, on the average of a day.
    pub rows_per_second: f64,
    /// A row with its share of the indexes, in bytes.
    pub row_bytes: u64,
}

/// What a table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Rows that one day brings.
    pub rows_per_day: u64,
    /// Bytes that one day brings.
    pub bytes_per_day: u64,
    /// Rows at the fullest moment.
    pub rows_max: u64,
    /// Bytes at the fullest moment.
    pub bytes_max: u64,
    /// Days with rows at the fullest moment. A claim looks into each of them.
    pub days_max: u64,
}

/// Works the budget out.
///
/// A day goes when its last row has been kept for the retention, and a nightly run takes it within a day of that. So
/// just before a run there are the retention, one day that is only partly past it, and one that waits for the run.
pub fn budget(load: Load, retention: Duration) -> Budget {
    let per_day = load.rows_per_second * DAY_SECONDS as f64;
    let days = retention.as_secs_f64() / DAY_SECONDS as f64 + 2.0;
    let bytes = |rows: u64| rows.saturating_mul(load.row_bytes);
    let (rows_per_day, rows_max) = (whole(per_day), whole(per_day * days));
    Budget {
        rows_per_day,
        bytes_per_day: bytes(rows_per_day),
        rows_max,
        bytes_max: bytes(rows_max),
        days_max: whole(days.ceil()),
    }
}

/// The nearest whole number; what is no number of rows is none.
#[expect(clippy::cast_sign_loss, reason = "negative numbers are taken out first")]
fn whole(number: f64) -> u64 {
    if number.is_finite() { number.max(0.0).round() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thousand_keys_a_second() {
        let load = Load { rows_per_second: 2_000.0, row_bytes: 1_024 };
        let found = budget(load, Duration::from_secs(DAY_SECONDS));
        assert_eq!(
            found,
            Budget {
                rows_per_day: 172_800_000,
                bytes_per_day: 176_947_200_000,
                rows_max: 518_400_000,
                bytes_max: 530_841_600_000,
                days_max: 3,
            }
        );
    }

    #[test]
    fn nothing_in_nothing_out() {
        let load = Load { rows_per_second: 0.0, row_bytes: 1_024 };
        assert_eq!(budget(load, Duration::from_secs(3 * DAY_SECONDS)).rows_max, 0);
        assert_eq!(whole(f64::NAN), 0);
    }
}
