//! Adds everything up: control block, money, counts, findings, worst first.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use thiserror::Error;

use crate::domain::entry::RefusedRow;
use crate::domain::mismatch::{Kind, Mismatch, Severity};
use crate::domain::money::Currency;
use crate::domain::run::{Control, KindCount, MoneyLine, NonChargeSum};

use super::classify::Verdict;
use super::finding::{kind_word, refused_row, unknown_row};
use super::rules::{Guard, Rules};
use super::suggest::suggest;
use super::tally::{LocalTally, ProviderTally, WRITTEN_MAX};

/// Remarks of groups that are kept.
const NOTES_MAX: usize = 100;

/// Everything that a run has read and judged.
#[derive(Debug)]
pub struct Inputs<'a, V> {
    /// Counts of the report's stream.
    pub provider: &'a ProviderTally,
    /// Counts of the local stream.
    pub local: &'a LocalTally,
    /// One verdict per group.
    pub verdicts: V,
    /// The first refused records.
    pub refused: &'a [RefusedRow],
    /// All refused records.
    pub refused_total: u64,
    /// Records that are rightly not entries.
    pub ignored_total: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The counts that add up.
    pub control: Control,
    /// Money per currency.
    pub money: Vec<MoneyLine>,
    /// Rows that are no charge, by kind and currency.
    pub non_charge: Vec<NonChargeSum>,
    /// Findings by kind; `new` is 0 until the store has told which are new.
    pub counts: BTreeMap<Kind, KindCount>,
    /// Breaks and pending rows, worst first.
    pub mismatches: Vec<Mismatch>,
    /// Remarks for people.
    pub notes: Vec<String>,
    /// Whether rows and money add up. When not, the program has a defect and the run must not be trusted.
    pub adds_up: bool,
}

/// Why a report is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Implausible {
    /// Too many local charges are not in the report.
    #[error(
        "{missing} of {of} local charges of the window are not in the report, expected at most {percent_max} %: \
        the report looks cut or is of another account (--accept-missing goes on)"
    )]
    Missing {
        /// Local charges that are not in the report.
        missing: u64,
        /// Local charges of the window.
        of: u64,
        /// The limit.
        percent_max: u8,
    },
    /// Too many rows have no match key.
    #[error(
        "{empty} of {of} {side} charges have no match key, expected at most {percent_max} %: \
        set match for this provider, or name the column with --reference-column"
    )]
    EmptyKeys {
        /// `local` or `provider`.
        side: &'static str,
        /// Charges without a key.
        empty: u64,
        /// Charges that succeeded.
        of: u64,
        /// The limit.
        percent_max: u8,
    },
}

/// Charges without a key that any report may have: a share of very few rows says nothing.
const KEYLESS_FLOOR: u64 = 10;

/// Refuses a run in which too many charges have no key. To be called when both streams have ended.
pub fn check_keys(provider: &ProviderTally, local: &LocalTally, guard: &Guard) -> Result<(), Implausible> {
    let sides = [("provider", provider.live_keyless, provider.live), ("local", local.live_keyless, local.live)];
    for (side, empty, of) in sides {
        if empty > KEYLESS_FLOOR && exceeds(empty, of, guard.empty_key_percent_max) {
            return Err(Implausible::EmptyKeys { side, empty, of, percent_max: guard.empty_key_percent_max });
        }
    }
    Ok(())
}

/// Whether `part` is more than so many percent of `whole`.
fn exceeds(part: u64, whole: u64, percent: u8) -> bool {
    u128::from(part) * 100 > u128::from(whole) * u128::from(percent)
}

/// Adds everything up. `severity` weighs a finding by kind, money at risk and its currency.
pub fn settle<V>(
    inputs: Inputs<'_, V>,
    rules: &Rules,
    guard: &Guard,
    severity: impl Fn(Kind, i64, Option<Currency>) -> Severity,
) -> Result<Settled, Implausible>
where
    V: IntoIterator<Item = Verdict>,
{
    check_keys(inputs.provider, inputs.local, guard)?;
    let mut sum = Verdict::default();
    for verdict in inputs.verdicts {
        sum.absorb(verdict);
    }
    let (missing, of) = (sum.local_one_sided, inputs.local.live_within(rules.window));
    if !guard.accept_missing && missing > guard.missing_floor && exceeds(missing, of, guard.missing_percent_max) {
        return Err(Implausible::Missing { missing, of, percent_max: guard.missing_percent_max });
    }
    suggest(&mut sum.mismatches);

    let control = control(inputs.provider, inputs.local, &sum, inputs.refused_total, inputs.ignored_total);
    let money = money(inputs.provider, inputs.local, &sum);
    let adds_up = control.is_some() && money.iter().all(|line| line.unexplained_minor == 0);
    let control = control.unwrap_or_default();

    let mut notes = std::mem::take(&mut sum.notes);
    let more = notes.len().saturating_sub(NOTES_MAX);
    notes.truncate(NOTES_MAX);
    if more > 0 {
        notes.push(format!("{more} further remarks of this sort"));
    }
    if control.provider_matched == 0 && inputs.provider.live > 0 && inputs.local.live_within(rules.window) > 0 {
        notes.push(
            "nothing matched although both sides have charges of the window: is it the right account, and does \
             match name the column that has our reference?"
                .to_owned(),
        );
    }

    let counts = counts(inputs.provider.unknown, &sum, &control);
    let mut mismatches = std::mem::take(&mut sum.mismatches);
    // An unknown or refused row that two files repeat is the same finding; the counts have both.
    let mut named = HashSet::new();
    let refused = inputs.refused.iter().take(WRITTEN_MAX).map(|row| refused_row(row, rules));
    let unknown = inputs.provider.unknown_rows.iter().map(|row| unknown_row(row, rules));
    mismatches.extend(refused.chain(unknown).filter(|mismatch| named.insert(mismatch.fingerprint.clone())));
    for mismatch in &mut mismatches {
        if mismatch.kind == Kind::MissingAtProvider && inputs.refused_total > 0 {
            // Nobody may revert a charge whose row only could not be read.
            mismatch.suggestion = format!(
                "look first at the {} rows of the report that could not be read: one may be this charge; then {}",
                inputs.refused_total, mismatch.suggestion
            );
        }
        mismatch.severity = severity(mismatch.kind, mismatch.at_risk_minor, mismatch.currency);
    }
    mismatches.sort_by(|a, b| rank(a).cmp(&rank(b)));
    let non_charge = non_charge(inputs.provider, &sum);
    Ok(Settled { control, money, non_charge, counts, mismatches, notes, adds_up })
}

/// Worst first, then the most at risk, then by name.
fn rank(mismatch: &Mismatch) -> impl Ord + '_ {
    (mismatch.severity, std::cmp::Reverse(mismatch.at_risk_minor), &mismatch.id, &mismatch.fingerprint)
}

/// The counts, each row in one bucket. `None` when rows were judged that had not been counted.
fn control(provider: &ProviderTally, local: &LocalTally, sum: &Verdict, refused: u64, ignored: u64) -> Option<Control> {
    let (theirs, ours) = (sum.provider, sum.local);
    let judged = theirs.matched + theirs.in_breaks + theirs.pending + theirs.non_charge + theirs.duplicate_rows;
    let judged_local = ours.matched + ours.in_breaks + ours.pending + ours.outside;
    // What was not judged has cancelled in the difference.
    let cancelled = provider.compared.checked_sub(judged)?;
    let cancelled_local = (local.rows + sum.local_beyond).checked_sub(judged_local)?;
    let control = Control {
        provider_rows: provider.rows + refused,
        provider_matched: cancelled + theirs.matched,
        provider_in_breaks: theirs.in_breaks + provider.unknown,
        provider_pending: theirs.pending,
        provider_non_charge: provider.non_charge + theirs.non_charge,
        provider_duplicate_rows: theirs.duplicate_rows,
        provider_refused: refused,
        provider_ignored: ignored,
        local_rows: local.rows + sum.local_beyond,
        local_matched: cancelled_local + ours.matched,
        local_in_breaks: ours.in_breaks,
        local_pending: ours.pending,
        local_outside: ours.outside,
    };
    // Rows cancel in pairs: as many of one side as of the other.
    (control.adds_up() && cancelled == cancelled_local).then_some(control)
}

/// Money per currency. Repeated report rows and charges outside are in neither total.
fn money(provider: &ProviderTally, local: &LocalTally, sum: &Verdict) -> Vec<MoneyLine> {
    let sources = [
        &provider.money,
        &local.money,
        &sum.local_beyond_money,
        &sum.local_outside_money,
        &sum.duplicate_money,
        &sum.explained,
    ];
    let currencies: BTreeSet<Currency> = sources.into_iter().flat_map(|sums| sums.keys().copied()).collect();
    let line = |currency: Currency| {
        let of = |sums: &BTreeMap<Currency, i128>| sums.get(&currency).copied().unwrap_or(0);
        let local_minor = of(&local.money) + of(&sum.local_beyond_money) - of(&sum.local_outside_money);
        let provider_minor = of(&provider.money) - of(&sum.duplicate_money);
        let difference_minor = provider_minor - local_minor;
        let explained_minor = of(&sum.explained);
        MoneyLine {
            currency,
            local_minor,
            provider_minor,
            difference_minor,
            explained_minor,
            unexplained_minor: difference_minor - explained_minor,
        }
    };
    currencies.into_iter().map(line).collect()
}

fn non_charge(provider: &ProviderTally, sum: &Verdict) -> Vec<NonChargeSum> {
    let known = provider.non_charge_sums.iter().chain(&sum.non_charge_sums);
    known
        .map(|(&(kind, currency), total)| NonChargeSum {
            kind: kind_word(kind).to_owned(),
            currency,
            rows: total.rows,
            sum_minor: total.minor,
        })
        .collect()
}

fn counts(unknown: u64, sum: &Verdict, control: &Control) -> BTreeMap<Kind, KindCount> {
    let mut totals: BTreeMap<Kind, u64> = BTreeMap::new();
    for mismatch in &sum.mismatches {
        *totals.entry(mismatch.kind).or_insert(0) += 1;
    }
    *totals.entry(Kind::UnparseableRow).or_insert(0) += control.provider_refused;
    *totals.entry(Kind::UnknownRowType).or_insert(0) += unknown;
    *totals.entry(Kind::DuplicateReportRow).or_insert(0) += control.provider_duplicate_rows;
    *totals.entry(Kind::NonChargeRow).or_insert(0) += control.provider_non_charge;
    totals.retain(|_, total| *total > 0);
    totals.into_iter().map(|(kind, total)| (kind, KindCount { total, new: 0 })).collect()
}
