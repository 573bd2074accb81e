//! Routes and counts the rows of one stream, inside the thread that produces them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::domain::charge::{Charge, MatchKey};
use crate::domain::entry::{Entry, EntryKind, Status};
use crate::domain::money::Currency;

use super::difference::Row;
use super::group::ProviderRow;
use super::hash::{Facts, KeyHasher, charge_key, charge_payment_id, entry_key, payment_id};
use super::window::Window;

/// Findings of one kind that are written out at most; all are counted.
pub const WRITTEN_MAX: usize = 1_000;

/// Where a row goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Into the difference.
    Compare(Row),
    /// A charge without a match key: straight to the rows that are read again.
    Keyless,
    /// Counted and summed here; takes no part in the comparison.
    Counted,
}

/// Whether rows of this kind are compared with charges. The others are counted and summed by kind.
pub fn takes_part(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Charge | EntryKind::ChargeReversal)
}

/// Rows and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub rows: u64,
    /// Signed sum in minor units.
    pub minor: i128,
}

impl Sum {
    pub(super) fn add(&mut self, minor: i128) {
        self.rows += 1;
        self.minor += minor;
    }
}

/// Counts and sums of the report's rows.
#[derive(Clone, Debug)]
pub struct ProviderTally {
    hasher: KeyHasher,
    match_key: MatchKey,
    /// All entries.
    pub rows: u64,
    /// Entries that are compared, with a key or without.
    pub compared: u64,
    /// Charges that succeeded.
    pub live: u64,
    /// Of those, without a match key.
    pub live_keyless: u64,
    /// Entries that are no charge, unknown ones apart.
    pub non_charge: u64,
    /// Of those, to which perhaps only the id of their payment leads: authorisations and voids, which say why a
    /// charge is not there, and rows without a match key.
    pub loose: u64,
    /// Entries of a type that the format does not know.
    pub unknown: u64,
    /// The first of them.
    pub unknown_rows: Vec<ProviderRow>,
    /// Money that moved on compared rows, per currency that the customer paid in.
    pub money: BTreeMap<Currency, i128>,
    /// Rows that are no charge, unknown ones included, by kind and currency.
    pub non_charge_sums: BTreeMap<(EntryKind, Currency), Sum>,
    times: Times,
}

impl ProviderTally {
    /// `hasher` has the run's seed, the same as on the local side.
    pub fn new(hasher: &KeyHasher, match_key: MatchKey) -> Self {
        Self {
            hasher: *hasher,
            match_key,
            rows: 0,
            compared: 0,
            live: 0,
            live_keyless: 0,
            non_charge: 0,
            loose: 0,
            unknown: 0,
            unknown_rows: Vec::new(),
            money: BTreeMap::new(),
            non_charge_sums: BTreeMap::new(),
            times: Times::default(),
        }
    }

    /// Counts a row of the file with this index and says where it goes.
    pub fn entry(&mut self, file: usize, entry: &Entry<'_>) -> Route {
        self.rows += 1;
        let compared = takes_part(entry.kind);
        self.times.see(entry.time_utc, compared);
        if !compared {
            self.count_other(file, entry);
            return Route::Counted;
        }
        self.compared += 1;
        if let Some((minor, currency)) = moved(entry) {
            *self.money.entry(currency).or_insert(0) += minor;
        }
        let live = is_live(entry);
        self.live += u64::from(live);
        let Some(key) = entry_key(entry, self.match_key) else {
            self.live_keyless += u64::from(live);
            return Route::Keyless;
        };
        let id = payment_id(entry).map(|id| self.hasher.id(id));
        let facts = self.hasher.facts(&Facts::of_entry(entry, id));
        Route::Compare(Row { key: self.hasher.key(key), id, facts, live })
    }

    /// First and last time of the charges, else of all rows; `None` when no row has a time in UTC.
    pub fn times(&self) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        self.times.compared.or(self.times.any)
    }

    fn count_other(&mut self, file: usize, entry: &Entry<'_>) {
        let explains = matches!(entry.kind, EntryKind::Authorization | EntryKind::Void);
        let keyless = entry_key(entry, self.match_key).is_none();
        self.loose += u64::from(payment_id(entry).is_some() && (explains || keyless));
        let minor = entry.amount_minor.filter(|_| entry.status == Status::Succeeded).unwrap_or(0);
        self.non_charge_sums.entry((entry.kind, entry.currency)).or_default().add(i128::from(minor));
        if entry.kind == EntryKind::Unknown {
            self.unknown += 1;
            if self.unknown_rows.len() < WRITTEN_MAX {
                self.unknown_rows.push(ProviderRow { file, entry: entry.clone().into_owned() });
            }
        } else {
            self.non_charge += 1;
        }
    }
}

/// Counts and sums of the local charges.
#[derive(Clone, Debug)]
pub struct LocalTally {
    hasher: KeyHasher,
    match_key: MatchKey,
    /// All charges read.
    pub rows: u64,
    /// Charges that succeeded.
    pub live: u64,
    /// Of those, without a match key.
    pub live_keyless: u64,
    /// Money that moved, per currency.
    pub money: BTreeMap<Currency, i128>,
    /// Charges that succeeded, by quarter of an hour.
    live_by_quarter: BTreeMap<i64, u64>,
    times: Times,
}

impl LocalTally {
    /// `hasher` has the run's seed, the same as on the provider's side.
    pub fn new(hasher: &KeyHasher, match_key: MatchKey) -> Self {
        Self {
            hasher: *hasher,
            match_key,
            rows: 0,
            live: 0,
            live_keyless: 0,
            money: BTreeMap::new(),
            live_by_quarter: BTreeMap::new(),
            times: Times::default(),
        }
    }

    /// Counts a charge and says where it goes; never [`Route::Counted`].
    pub fn charge(&mut self, charge: &Charge<'_>) -> Route {
        self.rows += 1;
        self.times.see(Some(charge.created_at), true);
        let live = charge.status == Status::Succeeded;
        if live {
            self.live += 1;
            *self.live_by_quarter.entry(quarter(charge.created_at)).or_default() += 1;
            *self.money.entry(charge.currency).or_insert(0) += i128::from(charge.amount_minor);
        }
        let Some(key) = charge_key(charge, self.match_key) else {
            self.live_keyless += u64::from(live);
            return Route::Keyless;
        };
        let id = charge_payment_id(charge).map(|id| self.hasher.id(id));
        let facts = self.hasher.facts(&Facts::of_charge(charge, id));
        Route::Compare(Row { key: self.hasher.key(key), id, facts, live })
    }

    /// Charges that succeeded within a window, whose ends count as whole quarters of an hour: every zone's midnight
    /// is one. The window may be known only when both streams have ended.
    pub fn live_within(&self, window: Window) -> u64 {
        self.live_by_quarter.range(quarter(window.from)..quarter(window.to)).map(|(_, live)| live).sum()
    }

    /// First and last time of the charges; `None` when there is none.
    pub fn times(&self) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        self.times.compared
    }
}

/// Which quarter of an hour, counted from the epoch.
fn quarter(at: DateTime<Utc>) -> i64 {
    at.timestamp().div_euclid(900)
}

/// Whether a report row is a charge that succeeded.
pub(super) fn is_live(entry: &Entry<'_>) -> bool {
    entry.kind == EntryKind::Charge && entry.status == Status::Succeeded
}

/// The money that a compared row moved; `None` when none moved or its amount is in doubt.
pub(super) fn moved(entry: &Entry<'_>) -> Option<(i128, Currency)> {
    let (minor, currency) = entry.charge_side();
    minor.filter(|_| takes_part(entry.kind) && entry.status == Status::Succeeded).map(|m| (i128::from(m), currency))
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    compared: Option<(DateTime<Utc>, DateTime<Utc>)>,
    any: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

impl Times {
    fn see(&mut self, at: Option<DateTime<Utc>>, compared: bool) {
        let Some(at) = at else { return };
        let widen = |span: Option<(DateTime<Utc>, DateTime<Utc>)>| {
            Some(span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))))
        };
        self.any = widen(self.any);
        if compared {
            self.compared = widen(self.compared);
        }
    }
}
