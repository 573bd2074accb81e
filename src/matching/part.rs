//! Splits the money of a group into parts that belong together directly.
//!
//! A group is tied by any row, also by a failed attempt. Within it, local charges that succeeded and payments belong
//! to one part when they share a match key or a provider id. A part in which the two disagree is a conflict.

use std::collections::{BTreeMap, HashMap};

use crate::domain::charge::MatchKey;
use crate::domain::entry::Status;

use super::group::{Group, Union};
use super::hash::charge_key;
use super::payment::Reading;

/// Local charges that succeeded and payments that have money, tied by key or id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Indices of the group's local charges, in order of time.
    pub(super) local: Vec<usize>,
    /// Indices of the reading's payments, in order of time.
    pub(super) payments: Vec<usize>,
    /// Whether a key points to one counterpart and an id to another.
    pub(super) conflict: bool,
}

/// Who has a key.
#[derive(Default)]
struct Holders {
    local: bool,
    payments: bool,
}

/// The parts, in the order of their first rows, those with local charges first.
pub(super) fn parts(group: &Group, reading: &Reading<'_>, match_key: MatchKey) -> Vec<Part> {
    let live: Vec<usize> =
        (0..group.local.len()).filter(|&index| group.local[index].status == Status::Succeeded).collect();
    let key = |index: usize| charge_key(&group.local[index], match_key);
    let id = |index: usize| group.local[index].provider_id.as_deref().filter(|id| !id.is_empty());

    let mut union = Union::default();
    let mut holders: HashMap<&str, Holders> = HashMap::new();
    let mut claims: HashMap<&str, Vec<usize>> = HashMap::new();
    for &index in &live {
        union.row(key(index), id(index));
        if let Some(key) = key(index) {
            holders.entry(key).or_default().local = true;
        }
        if let Some(id) = id(index) {
            claims.entry(id).or_default().push(index);
        }
    }
    for payment in &reading.payments {
        let row = union.row(payment.keys.first().copied(), payment.id);
        for &key in &payment.keys {
            union.tie(row, key);
            holders.entry(key).or_default().payments = true;
        }
    }

    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    for (node, &index) in live.iter().enumerate() {
        parts.entry(union.find(node)).or_default().local.push(index);
    }
    for (index, payment) in reading.payments.iter().enumerate() {
        let part = parts.entry(union.find(live.len() + index)).or_default();
        part.payments.push(index);
        let Some(claimants) = payment.id.and_then(|id| claims.get(id)) else { continue };
        let agrees = |&claimant: &usize| key(claimant).is_some_and(|key| payment.keys.contains(&key));
        // The payment's key names another charge than its id does.
        let theirs = payment.keys.iter().any(|key| holders[key].local) && !claimants.iter().any(agrees);
        // A claimant's key names another payment than its id does.
        let ours = claimants
            .iter()
            .any(|claimant| !agrees(claimant) && key(*claimant).is_some_and(|key| holders[key].payments));
        // With the id itself as the key there is nothing to disagree.
        part.conflict |= match_key != MatchKey::ProviderId && (theirs || ours);
    }
    parts.into_values().collect()
}
