//! How bad a finding is.
//!
//! The kind gives the base (customer money first, own money next, bookkeeping last). The value at risk may raise it by
//! one step and never more, so that a large bookkeeping matter does not drown a small customer's. Kinds that are no
//! breaks stay what they are. Age raises nothing here: it is the review's matter.

use crate::domain::mismatch::{Kind, Severity};
use crate::domain::money::Currency;

/// Share of refused records above which they count as high: one in so many.
const REFUSED_ONE_IN: u64 = 1_000;

/// Weighs the findings of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeverityPolicy {
    /// Value at risk, in major units of its currency, from which a finding is worth medium, high, critical.
    pub at_risk: [u64; 3],
    /// Records of the report that could not be read.
    pub refused_rows: u64,
    /// All records of the report.
    pub provider_rows: u64,
}

impl SeverityPolicy {
    /// The severity of a finding with so much at risk, in minor units.
    pub fn weigh(&self, kind: Kind, at_risk_minor: i64, currency: Option<Currency>) -> Severity {
        let base = match kind {
            Kind::UnparseableRow if self.refused_rows.saturating_mul(REFUSED_ONE_IN) > self.provider_rows => {
                Severity::High
            }
            _ => kind.base_severity(),
        };
        if !kind.is_break() {
            return base;
        }
        let worth = currency.map_or(Severity::Info, |currency| self.worth(at_risk_minor, currency));
        // Severities are ordered worst first.
        if worth < base { raised(base) } else { base }
    }

    fn worth(&self, at_risk_minor: i64, currency: Currency) -> Severity {
        let unit = 10_i128.pow(u32::from(currency.exponent()));
        let reaches = |major: u64| i128::from(at_risk_minor) >= i128::from(major) * unit;
        let [medium, high, critical] = self.at_risk;
        if reaches(critical) {
            Severity::Critical
        } else if reaches(high) {
            Severity::High
        } else if reaches(medium) {
            Severity::Medium
        } else {
            Severity::Info
        }
    }
}

/// One step worse.
fn raised(severity: Severity) -> Severity {
    match severity {
        Severity::Critical | Severity::High => Severity::Critical,
        Severity::Medium => Severity::High,
        Severity::Info => Severity::Medium,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_raises_by_one_step_at_most_and_never_what_is_no_break() {
        let policy = SeverityPolicy { at_risk: [1_000, 10_000, 100_000], refused_rows: 1, provider_rows: 1_000 };
        let table = [
            ("under the high threshold", Kind::AmountUnder, 9_999_999, "USD", Severity::High),
            ("high value does not pass high", Kind::AmountUnder, 1_000_000, "USD", Severity::High),
            ("critical value raises high", Kind::AmountUnder, 10_000_000, "USD", Severity::Critical),
            ("yen have no decimals", Kind::AmountUnder, 100_000, "JPY", Severity::Critical),
            ("one yen below", Kind::AmountUnder, 99_999, "JPY", Severity::High),
            ("dinars have three", Kind::AmountUnder, 99_999_999, "KWD", Severity::High),
            ("one step at most", Kind::UnknownRowType, 10_000_000, "USD", Severity::High),
            ("medium value keeps medium", Kind::UnknownRowType, 100_000, "USD", Severity::Medium),
            ("critical stays", Kind::MissingLocally, 1, "USD", Severity::Critical),
            ("pending is never raised", Kind::TimingPending, i64::MAX, "USD", Severity::Info),
        ];
        for (name, kind, minor, currency, wanted) in table {
            assert_eq!(policy.weigh(kind, minor, Currency::parse(currency)), wanted, "{name}");
        }
        assert_eq!(policy.weigh(Kind::AmountUnder, i64::MAX, None), Severity::High, "no currency, no worth");
    }

    #[test]
    fn refused_records_are_high_above_one_in_a_thousand() {
        let policy = SeverityPolicy { at_risk: [1_000, 10_000, 100_000], refused_rows: 1, provider_rows: 1_000 };
        assert_eq!(policy.weigh(Kind::UnparseableRow, 0, None), Severity::Medium);
        assert_eq!(SeverityPolicy { refused_rows: 2, ..policy }.weigh(Kind::UnparseableRow, 0, None), Severity::High);
    }
}
