//! The judgement of one group in progress: where each row is counted and what was found so far.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};

use crate::domain::charge::Charge;
use crate::domain::entry::Status;
use crate::domain::mismatch::Kind;
use crate::domain::money::Currency;

use super::classify::Verdict;
use super::finding::Finding;
use super::group::{Group, ProviderRow};
use super::payment::Payment;
use super::rules::Rules;
use super::tally::{moved, takes_part};

/// Where a compared report row is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProviderBucket {
    Matched,
    InBreaks,
    Pending,
    NonCharge,
    Repeated,
}

/// Where a local charge is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalBucket {
    Matched,
    InBreaks,
    Pending,
    Outside,
}

/// Collects the decisions about a group.
pub(super) struct Judge<'g> {
    pub(super) group: &'g Group,
    pub(super) rules: &'g Rules,
    pub(super) now: DateTime<Utc>,
    provider: Vec<Option<ProviderBucket>>,
    local: Vec<Option<LocalBucket>>,
    named: HashSet<(Kind, String)>,
    verdict: Verdict,
}

impl<'g> Judge<'g> {
    pub(super) fn new(group: &'g Group, rules: &'g Rules, now: DateTime<Utc>) -> Self {
        Self {
            group,
            rules,
            now,
            provider: vec![None; group.provider.len()],
            local: vec![None; group.local.len()],
            named: HashSet::new(),
            verdict: Verdict::default(),
        }
    }

    /// Counts report rows in a bucket. The first decision about a row stands.
    pub(super) fn place_provider(&mut self, rows: &[usize], bucket: ProviderBucket) {
        for &row in rows {
            self.provider[row].get_or_insert(bucket);
        }
    }

    /// Counts local charges in a bucket. The first decision about a charge stands.
    pub(super) fn place_local(&mut self, charges: &[usize], bucket: LocalBucket) {
        for &charge in charges {
            self.local[charge].get_or_insert(bucket);
        }
    }

    pub(super) fn is_provider_placed(&self, row: usize) -> bool {
        self.provider[row].is_some()
    }

    pub(super) fn is_local_placed(&self, charge: usize) -> bool {
        self.local[charge].is_some()
    }

    pub(super) fn charge(&self, index: usize) -> &'g Charge<'static> {
        &self.group.local[index]
    }

    pub(super) fn charges(&self, indices: &[usize]) -> Vec<&'g Charge<'static>> {
        indices.iter().map(|&index| &self.group.local[index]).collect()
    }

    pub(super) fn rows(&self, indices: &[usize]) -> Vec<&'g ProviderRow> {
        indices.iter().map(|&index| &self.group.provider[index]).collect()
    }

    /// Report rows of payments, payment by payment.
    pub(super) fn rows_of(&self, payments: &[&Payment<'g>]) -> Vec<&'g ProviderRow> {
        payments.iter().flat_map(|payment| self.rows(&payment.rows)).collect()
    }

    pub(super) fn find(&mut self, finding: Finding<'g>) {
        // One attempt more than there are findings is always free.
        let attempts = 0..=self.named.len();
        let group_key = attempts
            .map(|attempt| finding.group_key(self.rules, attempt))
            .find(|key| !self.named.contains(&(finding.known_as(), key.clone())))
            .expect("each attempt gives another key");
        self.named.insert((finding.known_as(), group_key.clone()));
        self.verdict.mismatches.push(finding.into_mismatch(self.rules, &group_key));
    }

    /// A local charge within the window that nothing at the provider stands for.
    pub(super) fn count_one_sided(&mut self, charges: usize) {
        self.verdict.local_one_sided += charges as u64;
    }

    pub(super) fn note(&mut self, text: String) {
        self.verdict.notes.push(text);
    }

    /// Counts and sums by bucket. Money is derived from the buckets alone, so that what was decided wrongly shows as
    /// an unexplained difference and not as an explanation.
    pub(super) fn conclude(mut self) -> Verdict {
        for (row, bucket) in self.group.provider.iter().zip(&self.provider) {
            if !takes_part(row.entry.kind) {
                continue;
            }
            let bucket = bucket.expect("every compared row has its bucket");
            let verdict = &mut self.verdict;
            let counts = &mut verdict.provider;
            let money = moved(&row.entry);
            match bucket {
                ProviderBucket::Matched => counts.matched += 1,
                ProviderBucket::InBreaks => counts.in_breaks += 1,
                ProviderBucket::Pending => counts.pending += 1,
                ProviderBucket::Repeated => {
                    counts.duplicate_rows += 1;
                    add(&mut verdict.duplicate_money, money);
                    continue;
                }
                ProviderBucket::NonCharge => {
                    counts.non_charge += 1;
                    let (minor, currency) = money.unwrap_or((0, row.entry.charge_side().1));
                    verdict.non_charge_sums.entry((row.entry.kind, currency)).or_default().add(minor);
                }
            }
            if bucket != ProviderBucket::Matched {
                add(&mut verdict.explained, money);
            }
        }
        for (index, charge) in self.group.local.iter().enumerate() {
            let bucket = self.local[index].expect("every local charge has its bucket");
            self.conclude_charge(charge, bucket);
        }
        self.verdict
    }

    fn conclude_charge(&mut self, charge: &Charge<'_>, bucket: LocalBucket) {
        let verdict = &mut self.verdict;
        let live = charge.status == Status::Succeeded;
        let money = live.then_some((i128::from(charge.amount_minor), charge.currency));
        if !self.rules.was_read(charge.created_at) {
            if bucket == LocalBucket::Outside {
                // Found only by looking further, and of no use: as if it had not been looked at.
                return;
            }
            verdict.local_beyond += 1;
            add(&mut verdict.local_beyond_money, money);
        }
        let counts = &mut verdict.local;
        match bucket {
            LocalBucket::Matched => counts.matched += 1,
            LocalBucket::InBreaks => counts.in_breaks += 1,
            LocalBucket::Pending => counts.pending += 1,
            LocalBucket::Outside => {
                counts.outside += 1;
                add(&mut verdict.local_outside_money, money);
            }
        }
        if matches!(bucket, LocalBucket::InBreaks | LocalBucket::Pending) {
            add(&mut verdict.explained, money.map(|(minor, currency)| (-minor, currency)));
        }
    }
}

fn add(sums: &mut BTreeMap<Currency, i128>, money: Option<(i128, Currency)>) {
    if let Some((minor, currency)) = money {
        *sums.entry(currency).or_insert(0) += minor;
    }
}
