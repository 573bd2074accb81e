//! A set of keys that may say yes too often and never no: who has been seen before, in about two bytes a key.

/// Words of one block: a cache line, so that a look costs one access to memory.
const BLOCK_WORDS: usize = 8;
/// Bits set per key. With 16 bits a key, about one foreign key in a thousand is taken for known.
const BITS_PER_KEY: u32 = 8;
/// Keys that one block is made for.
const KEYS_PER_BLOCK: usize = BLOCK_WORDS * 64 / 16;
/// Blocks of the first filter at most: 1 GiB. Further keys go to further filters.
const BLOCKS_MAX: usize = 1 << 24;

/// Grows by further, larger filters when more keys come than were expected.
#[derive(Debug)]
pub(super) struct KeyFilter {
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    blocks: Vec<[u64; BLOCK_WORDS]>,
    room: usize,
}

impl Layer {
    fn new(keys: usize) -> Self {
        let blocks = keys.div_ceil(KEYS_PER_BLOCK).clamp(16, BLOCKS_MAX);
        Self { blocks: vec![[0; BLOCK_WORDS]; blocks], room: blocks * KEYS_PER_BLOCK }
    }

    /// The block of a key and its bits within: the high half chooses the block, the low half nine bits at a time.
    fn place(&self, key: u128) -> (usize, [u64; BLOCK_WORDS]) {
        let high = (key >> 64) as u64;
        // Maps the upper 64 bits evenly to the blocks without a division.
        let block = ((u128::from(high) * self.blocks.len() as u128) >> 64) as usize;
        let mut bits = [0; BLOCK_WORDS];
        // 8 times 9 bits out of the low 64 bits: the last takes the one bit left and wraps round into the first.
        let low = key as u64;
        for i in 0..BITS_PER_KEY {
            let bit = low.rotate_right(9 * i) & 511;
            bits[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
        (block, bits)
    }
}

impl Layer {
    fn knows(&self, key: u128) -> bool {
        let (block, bits) = self.place(key);
        self.blocks[block].iter().zip(bits).all(|(word, bits)| word & bits == bits)
    }
}

impl KeyFilter {
    /// For about so many keys.
    pub(super) fn new(keys: usize) -> Self {
        Self { layers: vec![Layer::new(keys)] }
    }

    /// Inserts the key and says whether it was known, at the price of one access to memory.
    pub(super) fn insert_new(&mut self, key: u128) -> bool {
        let (last, earlier) = self.layers.split_last_mut().expect("there is always a layer");
        if last.room == 0 || earlier.iter().any(|layer| layer.knows(key)) {
            let known = self.may_contain(key);
            if !known {
                self.insert(key);
            }
            return known;
        }
        let (block, bits) = last.place(key);
        let mut known = true;
        for (word, bits) in last.blocks[block].iter_mut().zip(bits) {
            known &= *word & bits == bits;
            *word |= bits;
        }
        last.room -= usize::from(!known);
        known
    }

    pub(super) fn insert(&mut self, key: u128) {
        let last = self.layers.last_mut().expect("there is always a layer");
        if last.room == 0 {
            let larger = Layer::new(last.blocks.len() * KEYS_PER_BLOCK * 2);
            self.layers.push(larger);
        }
        let last = self.layers.last_mut().expect("there is always a layer");
        last.room -= 1;
        let (block, bits) = last.place(key);
        for (word, bits) in last.blocks[block].iter_mut().zip(bits) {
            *word |= bits;
        }
    }

    pub(super) fn may_contain(&self, key: u128) -> bool {
        self.layers.iter().any(|layer| layer.knows(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::KeyHasher;

    #[test]
    fn knows_every_key_and_few_others_also_when_more_come_than_expected() {
        let hasher = KeyHasher::new([7; 16]);
        for expected in [100_000, 1_000] {
            let mut filter = KeyFilter::new(expected);
            let key = |i: u32| hasher.key(&i.to_string());
            (0..100_000).for_each(|i| filter.insert(key(i)));
            assert!((0..100_000).all(|i| filter.may_contain(key(i))));
            assert!((0..100_000).all(|i| filter.insert_new(key(i))), "known by the other way in, too");
            let wrong = (100_000..200_000).filter(|&i| filter.may_contain(key(i))).count();
            assert!(wrong < 1_000, "{wrong} of 100,000 foreign keys taken for known");
        }
    }
}
