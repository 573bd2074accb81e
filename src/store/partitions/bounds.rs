//! Bounds of partitions as PostgreSQL prints and reads them, under TimeZone UTC and DateStyle ISO.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};

use crate::domain::partition::{ColumnKind, Period};

/// What PostgreSQL prints for the default partition.
pub(super) const DEFAULT: &str = "DEFAULT";

/// Reads `FOR VALUES FROM ('...') TO ('...')`; `None` when it is not understood.
pub(super) fn read(text: &str, kind: ColumnKind) -> Option<Period> {
    let (from, to) = text.strip_prefix("FOR VALUES FROM (")?.strip_suffix(')')?.split_once(") TO (")?;
    Some(Period { from: read_one(from, kind)?, to: read_one(to, kind)? })
}

fn read_one(text: &str, kind: ColumnKind) -> Option<DateTime<Utc>> {
    let value = match text {
        "MINVALUE" | "'-infinity'" => return Some(DateTime::<Utc>::MIN_UTC),
        "MAXVALUE" | "'infinity'" => return Some(DateTime::<Utc>::MAX_UTC),
        quoted => quoted.strip_prefix('\'')?.strip_suffix('\'')?,
    };
    match kind {
        ColumnKind::Date => {
            NaiveDate::parse_from_str(value, "%Y-%m-%d").ok().map(|day| day.and_time(NaiveTime::MIN).and_utc())
        }
        ColumnKind::Instant => {
            let local = value.strip_suffix("+00")?;
            NaiveDateTime::parse_from_str(local, "%Y-%m-%d %H:%M:%S%.f").ok().map(|at| at.and_utc())
        }
    }
}

/// The bounds as PostgreSQL prints them.
pub(super) fn print(period: Period, kind: ColumnKind) -> String {
    format!("FOR VALUES FROM ('{}') TO ('{}')", print_one(period.from, kind), print_one(period.to, kind))
}

/// One bound, without quotes. The offset stands in it, so that no session's zone can move it.
pub(super) fn print_one(at: DateTime<Utc>, kind: ColumnKind) -> String {
    match kind {
        ColumnKind::Date => at.date_naive().to_string(),
        ColumnKind::Instant => {
            let micros = at.timestamp_subsec_micros();
            let fraction =
                if micros == 0 { String::new() } else { format!(".{micros:06}").trim_end_matches('0').to_owned() };
            format!("{}{fraction}+00", at.format("%Y-%m-%d %H:%M:%S"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_as_the_server_prints_them() {
        let day = |text: &str| NaiveDate::parse_from_str(text, "%Y-%m-%d").unwrap().and_time(NaiveTime::MIN).and_utc();
        let read_day = read("FOR VALUES FROM ('2026-11-30') TO ('2026-12-01')", ColumnKind::Date);
        assert_eq!(read_day, Some(Period { from: day("2026-11-30"), to: day("2026-12-01") }));
        let open = read("FOR VALUES FROM (MINVALUE) TO ('2026-12-01 00:00:00+00')", ColumnKind::Instant);
        assert_eq!(open, Some(Period { from: DateTime::<Utc>::MIN_UTC, to: day("2026-12-01") }));
        for other in [
            "FOR VALUES IN ('a')",
            "FOR VALUES FROM ('2026-11-30 00:00:00+01') TO ('2026-12-01 00:00:00+01')",
            "FOR VALUES FROM ('30.11.2026') TO ('01.12.2026')",
            "FOR VALUES FROM ('2026-11-30', 5) TO ('2026-12-01', 5)",
            "",
        ] {
            assert_eq!(read(other, ColumnKind::Instant), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn printed_bounds_read_back(from in 0_i64..4_000_000_000_000_000, length in 1_i64..1_000_000_000_000) {
            let period = Period {
                from: DateTime::from_timestamp_micros(from).unwrap(),
                to: DateTime::from_timestamp_micros(from + length).unwrap(),
            };
            prop_assert_eq!(read(&print(period, ColumnKind::Instant), ColumnKind::Instant), Some(period));
        }
    }
}
