//! Judges one payment intent.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};

use crate::domain::entry::EntryKind;
use crate::domain::mismatch::Mismatch;
use crate::domain::money::Currency;

use super::group::Group;
use super::hash::{Facts, charge_payment_id, payment_id};
use super::judge::{Judge, LocalBucket, ProviderBucket};
use super::one_sided::{local_only, provider_only};
use super::pair::{key_conflict, pair};
use super::part::{Part, parts};
use super::payment::{Payment, Reading, RowIdentity};
use super::rules::Rules;
use super::tally::Sum;

/// Charges or payments of one part at most. A key that more of them share is a default text and names no payment.
const PART_MAX: usize = 20;

/// What was decided about a group: where each of its rows is counted, and the findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Compared report rows by bucket; rows of other kinds are counted by the tally.
    pub provider: ProviderBuckets,
    /// Local charges by bucket. Charges beyond the range that was read count only where they match or break.
    pub local: LocalBuckets,
    /// Local charges that the stream did not have, outside ones apart.
    pub local_beyond: u64,
    /// Their money.
    pub local_beyond_money: BTreeMap<Currency, i128>,
    /// Money of local charges in the bucket outside that the stream had.
    pub local_outside_money: BTreeMap<Currency, i128>,
    /// Money of repeated report rows.
    pub duplicate_money: BTreeMap<Currency, i128>,
    /// Provider less local, over rows in breaks, pending rows and rows that are no charge.
    pub explained: BTreeMap<Currency, i128>,
    /// Compared report rows that count as no charge, by kind and currency.
    pub non_charge_sums: BTreeMap<(EntryKind, Currency), Sum>,
    /// Local charges within the window that nothing at the provider stands for.
    pub local_one_sided: u64,
    /// The findings.
    pub mismatches: Vec<Mismatch>,
    /// Remarks for people.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Adds another group's verdict to this one.
    pub(super) fn absorb(&mut self, other: Self) {
        let (mine, theirs) = (&mut self.provider, other.provider);
        mine.matched += theirs.matched;
        mine.in_breaks += theirs.in_breaks;
        mine.pending += theirs.pending;
        mine.non_charge += theirs.non_charge;
        mine.duplicate_rows += theirs.duplicate_rows;
        let (mine, theirs) = (&mut self.local, other.local);
        mine.matched += theirs.matched;
        mine.in_breaks += theirs.in_breaks;
        mine.pending += theirs.pending;
        mine.outside += theirs.outside;
        self.local_beyond += other.local_beyond;
        self.local_one_sided += other.local_one_sided;
        for (mine, theirs) in [
            (&mut self.local_beyond_money, other.local_beyond_money),
            (&mut self.local_outside_money, other.local_outside_money),
            (&mut self.duplicate_money, other.duplicate_money),
            (&mut self.explained, other.explained),
        ] {
            for (currency, minor) in theirs {
                *mine.entry(currency).or_insert(0) += minor;
            }
        }
        for (of, sum) in other.non_charge_sums {
            let mine = self.non_charge_sums.entry(of).or_default();
            mine.rows += sum.rows;
            mine.minor += sum.minor;
        }
        self.mismatches.extend(other.mismatches);
        self.notes.extend(other.notes);
    }
}

/// Report rows by bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in domain::run::Control")]
pub struct ProviderBuckets {
    pub matched: u64,
    pub in_breaks: u64,
    pub pending: u64,
    pub non_charge: u64,
    pub duplicate_rows: u64,
}

/// Local charges by bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in domain::run::Control")]
pub struct LocalBuckets {
    pub matched: u64,
    pub in_breaks: u64,
    pub pending: u64,
    pub outside: u64,
}

/// Judges a group by the rules, at the instant `now`.
///
/// Only charges that succeeded are counterparts. What never moved money is looked at for the reason why a counterpart
/// is not there, and is no finding by itself.
pub fn classify(group: &Group, rules: &Rules, now: DateTime<Utc>) -> Verdict {
    let reading = Reading::of(group, rules.match_key);
    let mut judge = Judge::new(group, rules, now);
    judge.place_provider(&reading.repeated, ProviderBucket::Repeated);
    for part in parts(group, &reading, rules.match_key) {
        if part.conflict || part.local.len().max(part.payments.len()) > PART_MAX {
            conflict(&mut judge, &reading, &part);
        } else if part.local.is_empty() {
            provider_only(&mut judge, &reading, &part);
        } else if part.payments.is_empty() {
            local_only(&mut judge, &reading, &part);
        } else {
            pair(&mut judge, &reading, &part);
        }
    }
    rest(&mut judge, &reading);
    judge.conclude()
}

/// The keys of a row point one way and its provider id another, or a key names no payment: no rule can say which
/// payment is meant.
fn conflict<'g>(judge: &mut Judge<'g>, reading: &Reading<'g>, part: &Part) {
    let payments: Vec<&Payment<'g>> = part.payments.iter().map(|&index| &reading.payments[index]).collect();
    key_conflict(judge, &part.local, &payments);
}

/// Rows that no part has claimed: failed attempts, pending rows that were followed by a result, lone reversals.
fn rest<'g>(judge: &mut Judge<'g>, reading: &Reading<'g>) {
    let mut open: HashMap<Facts<&'g str>, Vec<usize>> = HashMap::new();
    for (index, charge) in judge.group.local.iter().enumerate().rev() {
        if !judge.is_local_placed(index) {
            open.entry(Facts::of_charge(charge, charge_payment_id(charge))).or_default().push(index);
        }
    }
    let mut said = HashSet::new();
    for &row in &reading.still {
        let said_before = RowIdentity::of(&judge.group.provider[row]).is_some_and(|identity| !said.insert(identity));
        if judge.is_provider_placed(row) {
            continue;
        }
        // Equal rows that moved no money agree, as they do in the difference.
        let entry = &judge.group.provider[row].entry;
        let mut take = |id: Option<&'g str>| open.get_mut(&Facts::of_entry(entry, id)).and_then(Vec::pop);
        // A declined charge has no provider's id on our side more often than not.
        let equal = take(payment_id(entry)).or_else(|| take(None));
        if let Some(charge) = equal {
            judge.place_local(&[charge], LocalBucket::Matched);
            judge.place_provider(&[row], ProviderBucket::Matched);
        } else if said_before {
            judge.place_provider(&[row], ProviderBucket::Repeated);
        } else {
            judge.place_provider(&[row], ProviderBucket::NonCharge);
        }
    }
    judge.place_provider(&reading.undone, ProviderBucket::NonCharge);
    judge.place_provider(&reading.lone, ProviderBucket::NonCharge);
    let local: Vec<usize> = (0..judge.group.local.len()).collect();
    judge.place_local(&local, LocalBucket::Outside);
}
