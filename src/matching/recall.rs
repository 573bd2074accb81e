//! Which rows have to be read again in full, until the rows of every open payment are together.
//!
//! Round 1 reads both sides for the keys that did not cancel. Rows found that way name further keys and payment ids
//! (the local charge that claims the same payment, the payment that has another reference); the next round reads
//! those. Two or three rounds are the rule.

use std::collections::BTreeSet;

use crate::domain::charge::{Charge, MatchKey};
use crate::domain::entry::Entry;

use super::difference::Leftover;
use super::hash::{KeyHasher, charge_key, entry_key, payment_id};
use super::tally::takes_part;

/// Rounds after which a run goes on with what it has. Chains of references and ids this long are no payments.
pub const ROUNDS_MAX: usize = 5;

/// The rows that are wanted.
#[derive(Debug)]
pub struct Recall {
    hasher: KeyHasher,
    match_key: MatchKey,
    leftover: Leftover,
    keys: BTreeSet<String>,
    ids: BTreeSet<String>,
    fresh: Wanted,
}

/// Texts that the last round has brought up, sorted: to be looked up by index where that is possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Match keys.
    pub keys: Vec<String>,
    /// The provider's ids of payments.
    pub ids: Vec<String>,
}

impl Wanted {
    /// Whether no further round is needed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ids.is_empty()
    }
}

impl Recall {
    /// Starts from the keys that did not cancel.
    pub fn new(hasher: &KeyHasher, match_key: MatchKey, leftover: Leftover) -> Self {
        Self {
            hasher: *hasher,
            match_key,
            leftover,
            keys: BTreeSet::new(),
            ids: BTreeSet::new(),
            fresh: Wanted::default(),
        }
    }

    /// The keys that did not cancel.
    pub fn leftover(&self) -> &Leftover {
        &self.leftover
    }

    /// Whether this report row is wanted: its key or its payment is open, or it is a charge without a key.
    /// Rows that are no charge are wanted too: they say why a charge is not there.
    pub fn wants_entry(&self, entry: &Entry<'_>) -> bool {
        let key = entry_key(entry, self.match_key);
        self.wants(key, payment_id(entry), key.is_none() && takes_part(entry.kind))
    }

    /// Whether this local charge is wanted: its key or its payment is open, or it has no key.
    pub fn wants_charge(&self, charge: &Charge<'_>) -> bool {
        let key = charge_key(charge, self.match_key);
        self.wants(key, charge.provider_id.as_deref(), key.is_none())
    }

    /// Learns the key and the payment of a report row that was read again.
    pub fn learn_entry(&mut self, entry: &Entry<'_>) {
        if takes_part(entry.kind) {
            self.learn(entry_key(entry, self.match_key), payment_id(entry));
        }
    }

    /// Learns the key and the payment of a local charge that was read again.
    pub fn learn_charge(&mut self, charge: &Charge<'_>) {
        self.learn(charge_key(charge, self.match_key), charge.provider_id.as_deref().filter(|id| !id.is_empty()));
    }

    /// What has been learned since the last call. Empty when the rows are complete.
    pub fn take_fresh(&mut self) -> Wanted {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.keys.sort_unstable();
        fresh.ids.sort_unstable();
        fresh
    }

    fn wants(&self, key: Option<&str>, id: Option<&str>, keyless: bool) -> bool {
        keyless
            || key.is_some_and(|key| self.keys.contains(key) || self.leftover.contains(self.hasher.key(key)))
            || id.is_some_and(|id| self.ids.contains(id))
    }

    fn learn(&mut self, key: Option<&str>, id: Option<&str>) {
        if let Some(key) = key.filter(|key| !self.keys.contains(*key)) {
            self.keys.insert(key.to_owned());
            self.fresh.keys.push(key.to_owned());
        }
        if let Some(id) = id.filter(|id| !self.ids.contains(*id)) {
            self.ids.insert(id.to_owned());
            self.fresh.ids.push(id.to_owned());
        }
    }
}
