//! Builders of rows, and the run from rows to the settlement as the job makes it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::charge::{Charge, MatchKey};
use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::mismatch::{Kind, Mismatch};
use crate::domain::money::Currency;
use crate::matching::recall::ROUNDS_MAX;
use crate::matching::*;

pub(super) const DAY: &str = "2026-05-01T00:00:00Z";

pub(super) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// Noon of the report's day and some seconds.
pub(super) fn noon(seconds: i64) -> DateTime<Utc> {
    at("2026-05-01T12:00:00Z") + TimeDelta::seconds(seconds)
}

pub(super) fn cur(code: &str) -> Currency {
    Currency::parse(code).unwrap()
}

/// A local charge of 50.00 USD that succeeded. An empty text is absent.
pub(super) fn local(charge_id: &str, reference: &str, provider_id: &str) -> Charge<'static> {
    let text = |text: &str| (!text.is_empty()).then(|| Cow::Owned(text.to_owned()));
    Charge {
        charge_id: Cow::Owned(charge_id.to_owned()),
        idempotency_key: text(&format!("ik_{charge_id}")),
        merchant_reference: text(reference),
        provider_id: text(provider_id),
        amount_minor: 5000,
        currency: cur("USD"),
        status: Status::Succeeded,
        status_raw: Cow::Borrowed("as the table has it"),
        refunded_minor: None,
        created_at: noon(0),
    }
}

/// A charge of 50.00 USD in the report that succeeded. An empty text is absent.
pub(super) fn report(line: u64, provider_id: &str, reference: &str) -> ProviderRow {
    let text = |text: &str| (!text.is_empty()).then(|| Cow::Owned(text.to_owned()));
    let mut entry = Entry::new(line, EntryKind::Charge, Status::Succeeded, cur("USD"), Some(5000));
    entry.provider_id = text(provider_id);
    entry.reference = text(reference);
    entry.time_utc = Some(noon(line.cast_signed()));
    ProviderRow { file: 0, entry }
}

/// Changes to a row, so that a table shows only what is special about it.
pub(super) trait With: Sized {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
    fn amount(self, minor: i64, currency: &str) -> Self;
    fn status(self, status: Status) -> Self;
}

impl With for Charge<'static> {
    fn amount(self, minor: i64, currency: &str) -> Self {
        self.with(|row| (row.amount_minor, row.currency) = (minor, cur(currency)))
    }
    fn status(self, status: Status) -> Self {
        self.with(|row| row.status = status)
    }
}

impl With for ProviderRow {
    fn amount(self, minor: i64, currency: &str) -> Self {
        self.with(|row| {
            (row.entry.amount_minor, row.entry.currency) = (Some(minor), cur(currency));
            row.entry.exponent = row.entry.currency.exponent();
        })
    }
    fn status(self, status: Status) -> Self {
        self.with(|row| row.entry.status = status)
    }
}

/// A part or all of a payment that was taken back.
pub(super) fn reversal(line: u64, parent_id: &str, reference: &str, minor: i64) -> ProviderRow {
    report(line, &format!("rev_{line}"), reference).amount(-minor, "USD").with(|row| {
        row.entry.kind = EntryKind::ChargeReversal;
        row.entry.parent_id = (!parent_id.is_empty()).then(|| Cow::Owned(parent_id.to_owned()));
    })
}

/// One report day, grace 72 hours, slack six hours.
pub(super) fn rules() -> Rules {
    let window = Window { from: at(DAY), to: at(DAY) + TimeDelta::days(1) };
    Rules {
        provider: "acme".to_owned(),
        account: String::new(),
        window,
        read: Some(window.read_range(DatedBy::Created, Duration::from_hours(6), Duration::ZERO)),
        covered_to: window.to,
        dated_by: DatedBy::Created,
        grace: Duration::from_hours(72),
        settlement_lag: Duration::from_hours(7 * 24),
        match_key: MatchKey::MerchantReference,
        files: vec!["report.csv".to_owned()],
    }
}

pub(super) const GUARD: Guard =
    Guard { missing_percent_max: 5, missing_floor: 100, accept_missing: false, empty_key_percent_max: 20 };

/// Long after every grace.
pub(super) fn late() -> DateTime<Utc> {
    at(DAY) + TimeDelta::days(30)
}

/// Both sides of a run, and whose row comes next: `true` for the provider's. When one side has ended the other goes on.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) provider: Vec<ProviderRow>,
    pub(super) local: Vec<Charge<'static>>,
    pub(super) turns: Vec<bool>,
}

impl Input {
    pub(super) fn new(provider: &[ProviderRow], local: &[Charge<'static>]) -> Self {
        Self { provider: provider.to_vec(), local: local.to_vec(), turns: Vec::new() }
    }

    /// The run as the job makes it: streams, difference, recall, groups, verdicts, settlement.
    pub(super) fn run(&self, rules: &Rules, now: DateTime<Utc>) -> Result<Settled, Implausible> {
        let hasher = KeyHasher::new([42; 16]);
        let mut theirs = ProviderTally::new(&hasher, rules.match_key);
        let mut ours = LocalTally::new(&hasher, rules.match_key);
        let mut difference = Difference::new(self.local.len() as u64);
        let (mut provider, mut local) =
            (self.provider.iter(), self.local.iter().filter(|charge| rules.was_read(charge.created_at)));
        let mut turns = self.turns.iter().copied();
        loop {
            let turn = turns.next().unwrap_or(true);
            let mut step = |side: bool| {
                if side {
                    provider.next().map(|row| (Side::Provider, theirs.entry(row.file, &row.entry)))
                } else {
                    local.next().map(|charge| (Side::Local, ours.charge(charge)))
                }
            };
            match step(turn).or_else(|| step(!turn)) {
                Some((side, Route::Compare(row))) => difference.add(side, row),
                Some(_) => {}
                None => break,
            }
        }
        let mut recall = Recall::new(&hasher, rules.match_key, difference.finish(), theirs.loose > 0);
        let streamed = |charge: &Charge<'static>| rules.was_read(charge.created_at);
        let (mut rows, mut charges) = self.wanted(&recall);
        charges.retain(streamed);
        for _ in 0..ROUNDS_MAX {
            for row in &rows {
                recall.learn_entry(&row.entry);
            }
            for charge in &charges {
                if streamed(charge) {
                    recall.learn_charge(charge);
                } else {
                    recall.learn_stranger(charge);
                }
            }
            let fresh = recall.take_fresh();
            if fresh.is_empty() {
                break;
            }
            // Look-ups by index give every charge; the streams are read again only when that is said to be needed.
            let (again, found) = self.wanted(&recall);
            charges = found;
            if fresh.read_again {
                rows = again;
            }
        }
        Self::settle(rules, now, &theirs, &ours, rows, charges)
    }

    /// The same without the difference: every row is read in full.
    pub(super) fn run_without_difference(&self, rules: &Rules, now: DateTime<Utc>) -> Result<Settled, Implausible> {
        let hasher = KeyHasher::new([1; 16]);
        let mut theirs = ProviderTally::new(&hasher, rules.match_key);
        let mut ours = LocalTally::new(&hasher, rules.match_key);
        for row in &self.provider {
            theirs.entry(row.file, &row.entry);
        }
        for charge in self.local.iter().filter(|charge| rules.was_read(charge.created_at)) {
            ours.charge(charge);
        }
        Self::settle(rules, now, &theirs, &ours, self.provider.clone(), self.local.clone())
    }

    fn wanted(&self, recall: &Recall) -> (Vec<ProviderRow>, Vec<Charge<'static>>) {
        (
            self.provider.iter().filter(|row| recall.wants_entry(&row.entry)).cloned().collect(),
            self.local.iter().filter(|charge| recall.wants_charge(&charge.names())).cloned().collect(),
        )
    }

    fn settle(
        rules: &Rules,
        now: DateTime<Utc>,
        provider: &ProviderTally,
        local: &LocalTally,
        rows: Vec<ProviderRow>,
        charges: Vec<Charge<'static>>,
    ) -> Result<Settled, Implausible> {
        let groups = group(rows, charges, rules.match_key);
        let verdicts = groups.iter().map(|group| classify(group, rules, now));
        let inputs = Inputs { provider, local, verdicts, refused: &[], refused_total: 0, ignored_total: 0 };
        settle(inputs, rules, &GUARD, |kind, _, _| kind.base_severity())
    }
}

/// Runs late, and checks what every run must keep.
pub(super) fn settled(provider: &[ProviderRow], local: &[Charge<'static>]) -> Settled {
    settled_at(provider, local, &rules(), late())
}

pub(super) fn settled_at(
    provider: &[ProviderRow],
    local: &[Charge<'static>],
    rules: &Rules,
    now: DateTime<Utc>,
) -> Settled {
    let settled = Input::new(provider, local).run(rules, now).unwrap();
    assert!(settled.adds_up, "{settled:#?}");
    settled
}

/// Kind and key of each finding, in order.
pub(super) fn findings(settled: &Settled) -> BTreeSet<(Kind, String)> {
    let name = |mismatch: &Mismatch| mismatch.reference.clone().or(mismatch.provider_ids.first().cloned());
    settled.mismatches.iter().map(|mismatch| (mismatch.kind, name(mismatch).unwrap_or_default())).collect()
}

/// The only finding of a run.
pub(super) fn only(settled: &Settled) -> &Mismatch {
    assert_eq!(settled.mismatches.len(), 1, "{settled:#?}");
    &settled.mismatches[0]
}

pub(super) fn kinds(settled: &Settled) -> Vec<Kind> {
    settled.mismatches.iter().map(|mismatch| mismatch.kind).collect()
}
