//! Reads the report's rows of a group as payments: what moved money, what took it back, what is only said twice.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};

use crate::domain::charge::MatchKey;
use crate::domain::entry::{EntryKind, Status};
use crate::domain::money::Currency;

use super::group::{Group, ProviderRow};
use super::hash::{entry_key, payment_id};
use super::tally::{is_live, moved, takes_part};

/// What a payment comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net {
    /// Charges less reversals, in minor units.
    Amount(i128, Currency),
    /// Lines in several currencies are never added.
    Mixed,
    /// A line's amount is in doubt.
    InDoubt,
}

/// One payment at the provider that has money: one line or several (a capture in parts, a part taken back).
#[derive(Clone, Debug)]
pub(super) struct Payment<'g> {
    /// The provider's id of it.
    pub(super) id: Option<&'g str>,
    /// Its match keys; more than one only when its lines disagree.
    pub(super) keys: Vec<&'g str>,
    /// Its lines, as indices into the group's report rows.
    pub(super) rows: Vec<usize>,
    /// What it comes to.
    pub(super) net: Net,
}

/// The report's rows of a group by what they mean; each compared row is in exactly one list.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading<'g> {
    /// Payments with money, by time, then id.
    pub(super) payments: Vec<Payment<'g>>,
    /// Lines of payments that were taken back in full.
    pub(super) undone: Vec<usize>,
    /// Reversals whose charge is in another report.
    pub(super) lone: Vec<usize>,
    /// Lines that moved money and that the report has already said.
    pub(super) repeated: Vec<usize>,
    /// Compared rows that moved no money: failed, pending, authorised.
    pub(super) still: Vec<usize>,
    /// Rows that are no charge. They may say why a charge is not there, and are counted elsewhere.
    pub(super) context: Vec<usize>,
    by_id: HashMap<&'g str, usize>,
}

/// In what two report rows must be equal to be the same row said twice. Rows without an id are never the same.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct RowIdentity<'g> {
    id: &'g str,
    // A row that names another reference is another claim, whichever of them comes first in the file.
    reference: Option<&'g str>,
    kind: EntryKind,
    status: Status,
    amount: (Option<i64>, Currency),
    time: (Option<DateTime<Utc>>, Option<&'g str>, Option<&'g str>),
    // Several settled lines of one payment differ in these, where the report has them.
    entry: (Option<&'g str>, Option<&'g str>),
}

impl<'g> RowIdentity<'g> {
    pub(super) fn of(row: &'g ProviderRow) -> Option<Self> {
        let entry = &row.entry;
        Some(Self {
            id: entry.provider_id.as_deref().or(entry.entry_id.as_deref())?,
            reference: entry.reference.as_deref(),
            kind: entry.kind,
            status: entry.status,
            amount: entry.charge_side(),
            time: (entry.time_utc, entry.time_raw.as_deref(), entry.date.as_deref()),
            entry: (entry.entry_id.as_deref(), entry.modification_reference.as_deref()),
        })
    }
}

impl<'g> Reading<'g> {
    /// Reads the group's report rows, which stand in order of time.
    pub(super) fn of(group: &'g Group, match_key: MatchKey) -> Self {
        let mut reading = Self::default();
        let mut said = HashSet::new();
        let mut reversals = Vec::new();
        for (index, row) in group.provider.iter().enumerate() {
            let entry = &row.entry;
            if !takes_part(entry.kind) {
                reading.context.push(index);
            } else if entry.status != Status::Succeeded {
                reading.still.push(index);
            } else if RowIdentity::of(row).is_some_and(|identity| !said.insert(identity)) {
                reading.repeated.push(index);
            } else if is_live(entry) {
                reading.add_line(group, index, match_key);
            } else {
                reversals.push(index);
            }
        }
        for index in reversals {
            reading.take_back(group, index);
        }
        for payment in &mut reading.payments {
            payment.net = net(group, &payment.rows);
        }
        let undone = |payment: &Payment<'_>| matches!(payment.net, Net::Amount(0, _)) && payment.rows.len() > 1;
        for payment in reading.payments.iter().filter(|payment| undone(payment)) {
            reading.undone.extend(&payment.rows);
        }
        reading.payments.retain(|payment| !undone(payment));
        reading
    }

    fn add_line(&mut self, group: &'g Group, index: usize, match_key: MatchKey) {
        let entry = &group.provider[index].entry;
        let id = payment_id(entry);
        let next = self.payments.len();
        // Rows without an id are payments of their own: nothing says that they belong together.
        let place = id.map_or(next, |id| *self.by_id.entry(id).or_insert(next));
        if place == next {
            self.payments.push(Payment { id, keys: Vec::new(), rows: Vec::new(), net: Net::InDoubt });
        }
        let payment = &mut self.payments[place];
        payment.rows.push(index);
        if let Some(key) = entry_key(entry, match_key).filter(|key| !payment.keys.contains(key)) {
            payment.keys.push(key);
        }
    }

    /// Gives a reversal to its payment. Without a parent's id it belongs to the only payment there is.
    fn take_back(&mut self, group: &'g Group, index: usize) {
        let parent = payment_id(&group.provider[index].entry);
        let owner = match parent {
            Some(id) => self.by_id.get(id).copied(),
            None => (self.payments.len() == 1).then_some(0),
        };
        match owner {
            Some(place) => self.payments[place].rows.push(index),
            None => self.lone.push(index),
        }
    }
}

/// Sum of lines that moved money.
pub(super) fn net(group: &Group, rows: &[usize]) -> Net {
    let mut sum: Option<(i128, Currency)> = None;
    for &index in rows {
        let Some((minor, currency)) = moved(&group.provider[index].entry) else {
            return Net::InDoubt;
        };
        sum = match sum {
            None => Some((minor, currency)),
            Some((so_far, same)) if same == currency => Some((so_far + minor, currency)),
            Some(_) => return Net::Mixed,
        };
    }
    sum.map_or(Net::InDoubt, |(minor, currency)| Net::Amount(minor, currency))
}
