//! Puts the rows of both sides together: one group is one payment intent.
//!
//! Rows belong together when they share the match key or the provider's id of the payment, over any number of rows.

use std::collections::{BTreeSet, HashMap};

use crate::domain::charge::{Charge, MatchKey};
use crate::domain::entry::Entry;

use super::hash::{charge_key, entry_key, payment_id};
use super::tally::takes_part;

/// A report row and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRow {
    /// Which of the report's files, from 0.
    pub file: usize,
    /// The row.
    pub entry: Entry<'static>,
}

/// The rows of one payment intent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Report rows, by time, then file and line.
    pub provider: Vec<ProviderRow>,
    /// Local charges, by time, then id.
    pub local: Vec<Charge<'static>>,
}

/// Groups rows. The outcome does not depend on the order in which they come.
///
/// Rows that are no charge tie nothing together. They are shown to every group that shares their key or their
/// payment, because they may say why a charge is not there; with no such group they are left out.
pub fn group(provider: Vec<ProviderRow>, local: Vec<Charge<'static>>, match_key: MatchKey) -> Vec<Group> {
    let (compared, context): (Vec<_>, Vec<_>) = provider.into_iter().partition(|row| takes_part(row.entry.kind));
    let mut union = Union::default();
    for row in &compared {
        union.row(entry_key(&row.entry, match_key), payment_id(&row.entry));
    }
    for charge in &local {
        union.row(charge_key(charge, match_key), charge.provider_id.as_deref().filter(|id| !id.is_empty()));
    }
    let roots: Vec<usize> = (0..union.parent.len()).map(|row| union.find(row)).collect();
    let context: Vec<(ProviderRow, BTreeSet<usize>)> = context
        .into_iter()
        .map(|row| {
            let near = union.near(entry_key(&row.entry, match_key), payment_id(&row.entry));
            (row, near)
        })
        .collect();
    let mut groups: HashMap<usize, Group> = HashMap::new();
    let (compared_roots, local_roots) = roots.split_at(compared.len());
    for (row, &root) in compared.into_iter().zip(compared_roots) {
        groups.entry(root).or_default().provider.push(row);
    }
    for (charge, &root) in local.into_iter().zip(local_roots) {
        groups.entry(root).or_default().local.push(charge);
    }
    for (row, near) in context {
        for root in near {
            groups.entry(root).or_default().provider.push(row.clone());
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    for group in &mut groups {
        group.provider.sort_by(|a, b| provider_order(a).cmp(&provider_order(b)));
        group.local.sort_by(|a, b| (a.created_at, &a.charge_id).cmp(&(b.created_at, &b.charge_id)));
    }
    groups.sort_by(|a, b| group_order(a).cmp(&group_order(b)));
    groups
}

fn provider_order(row: &ProviderRow) -> impl Ord + '_ {
    let entry = &row.entry;
    // Everything that can tell two rows apart before their place does: the order of a file must not decide.
    let told_apart = (entry.provider_id.as_deref(), entry.reference.as_deref(), entry.charge_side().0);
    (entry.time_utc.is_none(), entry.time_utc, told_apart, row.file, entry.line)
}

fn group_order(group: &Group) -> impl Ord + '_ {
    let charge = group.local.first().map(|charge| (charge.created_at, &charge.charge_id));
    (charge.is_none(), charge, group.provider.first().map(|row| (row.entry.time_utc, row.file, row.entry.line)))
}

/// Disjoint sets of rows, with the texts that tie them.
#[derive(Default)]
pub(super) struct Union<'a> {
    parent: Vec<usize>,
    keys: HashMap<&'a str, usize>,
    ids: HashMap<&'a str, usize>,
}

impl<'a> Union<'a> {
    /// Adds a row with its key and id, and gives its number: rows count from 0.
    pub(super) fn row(&mut self, key: Option<&'a str>, id: Option<&'a str>) -> usize {
        let row = self.parent.len();
        self.parent.push(row);
        if let Some(key) = key {
            self.tie(row, key);
        }
        if let Some(id) = id {
            let other = *self.ids.entry(id).or_insert(row);
            self.join(row, other);
        }
        row
    }

    /// Gives a row a further key.
    pub(super) fn tie(&mut self, row: usize, key: &'a str) {
        let other = *self.keys.entry(key).or_insert(row);
        self.join(row, other);
    }

    /// The lowest row of the set that `row` is in.
    pub(super) fn find(&mut self, row: usize) -> usize {
        let mut root = row;
        while self.parent[root] != root {
            // Halving the path keeps later walks short.
            self.parent[root] = self.parent[self.parent[root]];
            root = self.parent[root];
        }
        root
    }

    /// The sets that have this key or this id.
    fn near(&mut self, key: Option<&str>, id: Option<&str>) -> BTreeSet<usize> {
        let by_key = key.and_then(|key| self.keys.get(key).copied());
        let by_id = id.and_then(|id| self.ids.get(id).copied());
        [by_key, by_id].into_iter().flatten().map(|row| self.find(row)).collect()
    }

    fn join(&mut self, one: usize, other: usize) {
        let (a, b) = (self.find(one), self.find(other));
        self.parent[a.max(b)] = a.min(b);
    }
}
