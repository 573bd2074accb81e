//! The streaming multiset difference: equal rows annihilate as soon as both sides have been seen.
//!
//! Memory follows the skew between the two streams and the real differences, not the length of the files.
//! Facts are wrapping sums of keyed hashes; rows themselves are never kept.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::filter::KeyFilter;

/// Which stream a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Our own charges.
    Local,
    /// The provider's report.
    Provider,
}

/// What the difference sees of a row: the same few bytes for any length of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Hash of the match key.
    pub key: u128,
    /// Hash of the provider's id of the payment, where the row has one.
    pub id: Option<u128>,
    /// Hash of the comparable facts.
    pub facts: u64,
    /// Whether it is a charge that succeeded: two of one side under one key are looked at again.
    pub live: bool,
}

/// The net of a key. With its key 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    facts: u64,
    local: u16,
    provider: u16,
    live_local: bool,
    live_provider: bool,
    suspect: bool,
}

/// Keys are hashes already; hashing them again would only cost time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the table's keys are u128");
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

type Table = HashMap<u128, Cell, BuildHasherDefault<Identity>>;

/// A set of hashes.
pub(super) type Hashes = HashSet<u128, BuildHasherDefault<Identity>>;

/// Below this capacity the table is left as it is.
const SHRINK_FLOOR: usize = 1 << 13;

/// Takes the rows of both sides in any order and keeps what does not cancel.
#[derive(Debug)]
pub struct Difference {
    table: Table,
    gone: KeyFilter,
    local_ids: KeyFilter,
    provider_ids: KeyFilter,
    repeated: Hashes,
}

impl Difference {
    /// `expected_rows` of one side sizes the memory of keys that have gone and of ids that have come, at two bytes
    /// each. A wrong guess costs memory or lookups, never correctness.
    pub fn new(expected_rows: u64) -> Self {
        let filter = || KeyFilter::new(usize::try_from(expected_rows).unwrap_or(usize::MAX));
        Self {
            table: Table::default(),
            gone: filter(),
            local_ids: filter(),
            provider_ids: filter(),
            repeated: Hashes::default(),
        }
    }

    /// Adds a row of one side.
    pub fn add(&mut self, side: Side, row: Row) {
        self.note_id(side, row.id);
        match self.table.entry(row.key) {
            Slot::Vacant(slot) => {
                let mut cell = Cell::default();
                cell.add(side, row);
                // A pair of this key has gone before: a double charge that both sides know would cancel pair by
                // pair. The exact rows have to decide.
                cell.suspect |= row.live && self.gone.may_contain(row.key);
                slot.insert(cell);
            }
            Slot::Occupied(mut slot) => {
                let cell = slot.get_mut();
                cell.add(side, row);
                if cell.cancels() {
                    if cell.live_local || cell.live_provider {
                        self.gone.insert(row.key);
                    }
                    slot.remove();
                    self.shrink();
                }
            }
        }
    }

    /// A payment that one side names twice may stand under two keys, of which one has cancelled: its rows have to
    /// be read again by the id. Where each side names it once, they either cancelled together or neither did.
    fn note_id(&mut self, side: Side, id: Option<u128>) {
        let Some(id) = id else { return };
        let ids = match side {
            Side::Local => &mut self.local_ids,
            Side::Provider => &mut self.provider_ids,
        };
        if ids.insert_new(id) {
            self.repeated.insert(id);
        }
    }

    /// Keys that are held now: the skew between the streams and the differences so far.
    pub fn held(&self) -> usize {
        self.table.len()
    }

    /// Ends both streams.
    pub fn finish(mut self) -> Leftover {
        self.table.shrink_to_fit();
        Leftover { table: self.table, repeated: self.repeated }
    }

    /// Gives memory back once seven eighths of the table stand empty.
    fn shrink(&mut self) {
        let (len, capacity) = (self.table.len(), self.table.capacity());
        if capacity > SHRINK_FLOOR && len < capacity / 8 {
            self.table.shrink_to(len * 2);
        }
    }
}

impl Cell {
    fn add(&mut self, side: Side, row: Row) {
        let (rows, live) = match side {
            Side::Local => {
                self.facts = self.facts.wrapping_add(row.facts);
                (&mut self.local, &mut self.live_local)
            }
            Side::Provider => {
                self.facts = self.facts.wrapping_sub(row.facts);
                (&mut self.provider, &mut self.live_provider)
            }
        };
        self.suspect |= *live && row.live;
        *live |= row.live;
        match rows.checked_add(1) {
            Some(more) => *rows = more,
            // More rows than the counter holds: never let them cancel, the exact rows decide.
            None => self.suspect = true,
        }
    }

    fn cancels(&self) -> bool {
        !self.suspect && self.local == self.provider && self.facts == 0
    }
}

/// A key whose rows have to be read again, and where rows of it were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftKey {
    /// Hash of the match key.
    pub key: u128,
    /// Whether local rows are in the rest.
    pub local: bool,
    /// Whether provider rows are in the rest.
    pub provider: bool,
}

/// Keys that did not cancel, and suspects.
#[derive(Debug)]
pub struct Leftover {
    table: Table,
    repeated: Hashes,
}

impl Leftover {
    /// Whether the rows of this key have to be read again.
    pub fn contains(&self, key: u128) -> bool {
        self.table.contains_key(&key)
    }

    /// Whether one side has named this payment more than once (or, once in a thousand, not even that).
    pub fn repeats(&self, id: u128) -> bool {
        self.repeated.contains(&id)
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether both sides agree in everything.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The keys, in no particular order. An earlier pair of the key may have gone, so both sides can have
    /// further rows of it.
    pub fn iter(&self) -> impl Iterator<Item = LeftKey> + '_ {
        self.table.iter().map(|(&key, cell)| LeftKey { key, local: cell.local > 0, provider: cell.provider > 0 })
    }
}
