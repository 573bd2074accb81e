//! Which rows have to be read again in full, until the rows of every open payment are together.
//!
//! One reading of both streams brings the rows of the keys that did not cancel and of the payments that one side named
//! twice. Those name further keys and ids, to be looked up by index where that is possible; the streams themselves
//! are read again only when a row has come up that their first reading could not ask for.

use crate::domain::charge::{Charge, ChargeNames, MatchKey};
use crate::domain::entry::{Entry, Peek};

use super::difference::{Hashes, Leftover};
use super::hash::{KeyHasher, charge_key, charge_payment_id, entry_key, name_key, payment_id, present};
use super::tally::takes_part;

/// Readings after which a run goes on with what it has. Chains of references and ids this long are no payments.
pub const ROUNDS_MAX: usize = 5;

/// The rows that are wanted.
#[derive(Debug)]
pub struct Recall {
    hasher: KeyHasher,
    match_key: MatchKey,
    leftover: Leftover,
    loose: bool,
    keys: Hashes,
    ids: Hashes,
    fresh: Wanted,
}

/// What rows have brought up that was not known before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Match keys, for a look-up by index.
    pub keys: Vec<String>,
    /// The provider's ids of payments, for a look-up by index.
    pub ids: Vec<String>,
    /// Whether the streams may have rows of them that they were not asked for yet.
    pub read_again: bool,
}

impl Wanted {
    /// Whether there is nothing to look up and nothing to read again.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ids.is_empty() && !self.read_again
    }

    /// Adds what has come up later.
    pub fn absorb(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.ids.extend(other.ids);
        self.read_again |= other.read_again;
    }
}

impl Recall {
    /// Starts from the keys that did not cancel. `loose` says whether the report has rows to which only a payment's
    /// id leads ([`super::ProviderTally::loose`]).
    pub fn new(hasher: &KeyHasher, match_key: MatchKey, leftover: Leftover, loose: bool) -> Self {
        Self {
            hasher: *hasher,
            match_key,
            leftover,
            loose,
            keys: Hashes::default(),
            ids: Hashes::default(),
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

    /// Whether a report row of which only this is known may be wanted: never no where [`Recall::wants_entry`] says
    /// yes.
    pub fn may_want(&self, row: &Peek<'_>) -> bool {
        let (key, is_keyless) = match self.match_key {
            MatchKey::ProviderId => (None, row.ids.iter().all(Option::is_none)),
            MatchKey::MerchantReference | MatchKey::IdempotencyKey => (row.reference, row.reference.is_none()),
        };
        let any_id = |wants: &dyn Fn(&str) -> bool| row.ids.into_iter().flatten().any(wants);
        self.wants(key, None, is_keyless)
            || any_id(&|id| self.wants(None, Some(id), false))
            || (self.match_key == MatchKey::ProviderId && any_id(&|id| self.wants(Some(id), None, false)))
    }

    /// Whether this local charge is wanted: its key or its payment is open, or it has no key.
    pub fn wants_charge(&self, names: &ChargeNames<'_>) -> bool {
        let key = name_key(names, self.match_key);
        self.wants(key, present(names.provider_id), key.is_none())
    }

    /// Learns the key and the payment of a report row that was read again.
    pub fn learn_entry(&mut self, entry: &Entry<'_>) {
        if takes_part(entry.kind) {
            self.learn(entry_key(entry, self.match_key), payment_id(entry), false);
        }
    }

    /// Learns the key and the payment of a local charge of the stream that was read again.
    pub fn learn_charge(&mut self, charge: &Charge<'_>) {
        self.learn(charge_key(charge, self.match_key), charge_payment_id(charge), false);
    }

    /// Learns the key and the payment of a local charge that the stream did not have: made long ago, or later. The
    /// streams could not know that it names the same payment as a row of theirs that has cancelled.
    pub fn learn_stranger(&mut self, charge: &Charge<'_>) {
        self.learn(charge_key(charge, self.match_key), charge_payment_id(charge), true);
    }

    /// What has been learned since the last call. Empty when the rows are complete.
    pub fn take_fresh(&mut self) -> Wanted {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.keys.sort_unstable();
        fresh.ids.sort_unstable();
        fresh
    }

    fn wants(&self, key: Option<&str>, id: Option<&str>, keyless: bool) -> bool {
        let open_key = |key: &str| {
            let hash = self.hasher.key(key);
            self.leftover.contains(hash) || self.keys.contains(&hash)
        };
        let open_id = |id: &str| {
            let hash = self.hasher.id(id);
            self.leftover.repeats(hash) || self.ids.contains(&hash)
        };
        keyless || key.is_some_and(open_key) || id.is_some_and(open_id)
    }

    fn learn(&mut self, key: Option<&str>, id: Option<&str>, stranger: bool) {
        if let Some(key) = key {
            let hash = self.hasher.key(key);
            if self.keys.insert(hash) {
                self.fresh.keys.push(key.to_owned());
                self.fresh.read_again |= !self.leftover.contains(hash);
            }
        }
        if let Some(id) = id {
            let hash = self.hasher.id(id);
            if self.ids.insert(hash) {
                self.fresh.ids.push(id.to_owned());
                self.fresh.read_again |= stranger || self.loose;
            }
        }
    }
}
