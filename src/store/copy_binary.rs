//! PostgreSQL's binary COPY format, cut into rows without copying them.
//!
//! Source of the layout: the manual, "COPY", section "Binary Format". Never here: what the values mean.

use bytes::Bytes;

/// Eleven bytes at the front of every binary copy.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// A row beyond this is refused rather than gathered in memory.
const ROW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that have arrived and are not yet read. The server sends a row in one piece, but promises nothing.
#[derive(Debug, Default)]
pub(super) struct CopyBuffer {
    chunk: Bytes,
    at: usize,
    header_read: bool,
    ended: bool,
}

/// What stands next in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'b, const N: usize> {
    /// A row; `None` for NULL.
    Row([Option<&'b [u8]>; N]),
    /// Nothing whole: feed more.
    More,
    /// The end mark.
    End,
}

impl CopyBuffer {
    /// Adds bytes behind those that are there.
    pub(super) fn feed(&mut self, chunk: Bytes) -> Result<(), String> {
        let rest = &self.chunk[self.at..];
        if rest.is_empty() {
            self.chunk = chunk;
        } else if rest.len() + chunk.len() > ROW_BYTES_MAX {
            return Err(format!("a row of more than {ROW_BYTES_MAX} bytes"));
        } else {
            self.chunk = [rest, &chunk].concat().into();
        }
        self.at = 0;
        Ok(())
    }

    /// Whether the end mark was read.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Reads one row of `N` values.
    pub(super) fn next<const N: usize>(&mut self) -> Result<Next<'_, N>, String> {
        let mut cursor = Cursor { bytes: &self.chunk[self.at..] };
        let whole = self.chunk.len() - self.at;
        if self.ended {
            return if whole == 0 { Ok(Next::End) } else { Err("bytes after the end mark".to_owned()) };
        }
        if !self.header_read {
            let Some(()) = cursor.header()? else { return Ok(Next::More) };
            self.header_read = true;
            self.at += whole - cursor.bytes.len();
        }
        let whole = self.chunk.len() - self.at;
        let Some(count) = cursor.int16() else { return Ok(Next::More) };
        if count == -1 {
            self.ended = true;
            self.at += 2;
            return Ok(Next::End);
        }
        if usize::try_from(count) != Ok(N) {
            return Err(format!("a row of {count} values, expected {N}"));
        }
        let mut row = [None; N];
        for value in &mut row {
            let Some(length) = cursor.int32() else { return Ok(Next::More) };
            *value = match usize::try_from(length) {
                Ok(length) => match cursor.take(length) {
                    Some(bytes) => Some(bytes),
                    None => return Ok(Next::More),
                },
                Err(_) if length == -1 => None,
                Err(_) => return Err(format!("a value of {length} bytes")),
            };
        }
        self.at += whole - cursor.bytes.len();
        Ok(Next::Row(row))
    }
}

struct Cursor<'b> {
    bytes: &'b [u8],
}

impl<'b> Cursor<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn int16(&mut self) -> Option<i16> {
        let bytes = self.take(2)?;
        Some(i16::from_be_bytes(bytes.try_into().expect("two bytes were taken")))
    }

    fn int32(&mut self) -> Option<i32> {
        let bytes = self.take(4)?;
        Some(i32::from_be_bytes(bytes.try_into().expect("four bytes were taken")))
    }

    /// Signature, flags and an extension to skip. The upper flags are critical: unknown ones may not be ignored.
    fn header(&mut self) -> Result<Option<()>, String> {
        let Some(signature) = self.take(SIGNATURE.len()) else { return Ok(None) };
        if signature != SIGNATURE {
            return Err("not PostgreSQL's binary copy format".to_owned());
        }
        let (Some(flags), Some(extension)) = (self.int32(), self.int32()) else { return Ok(None) };
        if flags & !0xFFFF != 0 {
            return Err(format!("unknown format flags {flags:#x}"));
        }
        let length = usize::try_from(extension).map_err(|_| "a header extension of negative length".to_owned())?;
        Ok(self.take(length).map(|_| ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Value = Option<Vec<u8>>;

    fn encode(rows: &[[Value; 2]]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([0; 8]);
        for row in rows {
            bytes.extend(2_i16.to_be_bytes());
            for value in row {
                match value {
                    None => bytes.extend((-1_i32).to_be_bytes()),
                    Some(value) => {
                        bytes.extend((value.len() as u32).to_be_bytes());
                        bytes.extend(value);
                    }
                }
            }
        }
        bytes.extend((-1_i16).to_be_bytes());
        bytes
    }

    fn decode<'c>(chunks: impl Iterator<Item = &'c [u8]>) -> Result<(Vec<[Value; 2]>, bool), String> {
        let (mut buffer, mut rows) = (CopyBuffer::default(), Vec::new());
        for chunk in chunks {
            buffer.feed(Bytes::copy_from_slice(chunk))?;
            while let Next::Row(row) = buffer.next::<2>()? {
                rows.push(row.map(|value| value.map(<[u8]>::to_vec)));
            }
        }
        Ok((rows, buffer.ended()))
    }

    proptest! {
        #[test]
        fn rows_come_out_as_they_went_in_wherever_the_bytes_are_cut(
            rows in prop::collection::vec(prop::array::uniform2(prop::option::of(prop::collection::vec(any::<u8>(), 0..9))), 0..9),
            piece in 1_usize..40,
        ) {
            prop_assert_eq!(decode(encode(&rows).chunks(piece)), Ok((rows, true)));
        }

        #[test]
        fn damaged_bytes_never_panic_and_a_cut_is_never_an_end(cut in 0_usize..60, at in 0_usize..60, byte: u8) {
            let mut bytes = encode(&[[Some(b"one".to_vec()), None], [None, Some(b"two".to_vec())]]);
            let cut = cut.min(bytes.len() - 1);
            let whole = decode([&bytes[..cut]].into_iter());
            prop_assert!(!whole.unwrap().1);
            let at = at.min(bytes.len() - 1);
            bytes[at] = byte;
            let _ = decode([bytes.as_slice()].into_iter());
        }
    }

    #[test]
    fn another_number_of_values_is_refused() {
        let mut buffer = CopyBuffer::default();
        buffer.feed(encode(&[[None, None]]).into()).unwrap();
        assert!(buffer.next::<3>().unwrap_err().contains("expected 3"));
    }
}
