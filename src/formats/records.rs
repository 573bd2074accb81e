//! From text to records: RFC 4180, strict where a guess would shift money into another column.
//!
//! Our own splitter and not a CSV library, for four things that a report reader needs: a file that ends inside a
//! quoted field is cut off and not complete; text behind a closing quote is damage; a record and a field have limits
//! in bounded memory; every record knows the physical line on which it starts, blank lines and line breaks inside
//! quotes counted. Nothing here knows titles or money.

use std::io::Read;

use super::error::ReportError;
use super::source::ChangedBytes;
use super::text::BadText;

/// No cell of a report is larger.
pub(super) const FIELD_BYTES_MAX: usize = 1 << 20;
/// No record of a report is larger.
pub(super) const RECORD_BYTES_MAX: usize = 8 << 20;
const CHUNK: usize = 256 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A stream of records.
pub(super) struct Records<'n, R> {
    name: &'n str,
    input: R,
    delimiter: u8,
    buffer: Vec<u8>,
    /// Where the next record starts in `buffer`.
    start: usize,
    end: usize,
    at_eof: bool,
    /// Physical line at `start`.
    line: u64,
    fields: Vec<Field>,
    /// Cells with doubled quotes, written out.
    written_out: Vec<u8>,
}

/// Where a cell is: a range of the record, or of the written-out cells.
#[derive(Clone, Copy)]
struct Field {
    from: usize,
    to: usize,
    written_out: bool,
}

/// One record, borrowed from the stream.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    /// Physical line on which it starts, from 1.
    pub(super) line: u64,
    /// Physical line behind it.
    pub(super) next_line: u64,
    /// What is wrong with its quoting.
    pub(super) damage: Option<&'static str>,
    /// Whether a line end followed; `false` for a last record without one.
    pub(super) ended: bool,
    raw: &'a [u8],
    fields: &'a [Field],
    written_out: &'a [u8],
}

impl<'a> Record<'a> {
    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Bytes of a cell, quotes taken off.
    pub(super) fn cell(&self, at: usize) -> &'a [u8] {
        let field = self.fields[at];
        if field.written_out { &self.written_out[field.from..field.to] } else { &self.raw[field.from..field.to] }
    }

    /// The record and its written-out cells as text; `None` where the record is not UTF-8.
    pub(super) fn as_text(&self) -> Option<(&'a str, &'a str)> {
        let written_out = if self.written_out.is_empty() { "" } else { std::str::from_utf8(self.written_out).ok()? };
        Some((std::str::from_utf8(self.raw).ok()?, written_out))
    }

    /// A cell of what [`Record::as_text`] gave: cells end at ASCII bytes, so text is never split within a character.
    pub(super) fn cell_in(&self, (raw, written_out): (&'a str, &'a str), at: usize) -> &'a str {
        let field = self.fields[at];
        let text = if field.written_out { written_out } else { raw };
        text.get(field.from..field.to).unwrap_or_default()
    }

    /// The record as it stands in the file.
    pub(super) fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The first cell that is not UTF-8.
    pub(super) fn bad_text(&self) -> Option<usize> {
        if std::str::from_utf8(self.raw).is_ok() {
            return None;
        }
        (0..self.len()).find(|&at| std::str::from_utf8(self.cell(at)).is_err())
    }

    /// Whether no cell holds anything: what a spreadsheet leaves below its rows.
    pub(super) fn is_blank(&self) -> bool {
        self.fields.iter().enumerate().all(|(at, _)| self.cell(at).trim_ascii().is_empty())
    }

    /// The cells as trimmed text.
    pub(super) fn texts(&self) -> Vec<String> {
        (0..self.len()).map(|at| String::from_utf8_lossy(self.cell(at)).trim().to_owned()).collect()
    }
}

enum State {
    FieldStart,
    Bare,
    Quoted,
    /// Behind a quote inside a quoted field: its end, or the first of a doubled one.
    QuoteSeen,
    /// Behind text that follows a closing quote.
    Junk,
}

impl<'n, 't> Records<'n, &'t [u8]> {
    /// Splits the text of one record.
    pub(super) fn of_one(name: &'n str, text: &'t [u8], delimiter: u8) -> Self {
        Self::with_buffer(name, text, delimiter, text.len() + 1)
    }
}

impl<'n, R: Read> Records<'n, R> {
    /// Splits `input`; `name` is for messages.
    pub(super) fn new(name: &'n str, input: R, delimiter: u8) -> Self {
        Self::with_buffer(name, input, delimiter, CHUNK)
    }

    fn with_buffer(name: &'n str, input: R, delimiter: u8, bytes: usize) -> Self {
        Self {
            name,
            input,
            delimiter,
            buffer: vec![0; bytes],
            start: 0,
            end: 0,
            at_eof: false,
            line: 1,
            fields: Vec::new(),
            written_out: Vec::new(),
        }
    }

    /// The next record that is not a blank line.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, ReportError> {
        if !self.find_start()? {
            return Ok(None);
        }
        let line = self.line;
        self.fields.clear();
        self.written_out.clear();
        let (mut at, mut field, mut state) = (self.start, 0, State::FieldStart);
        let (mut doubled, mut damage, mut lines) = (false, None, 0);
        // `field` is where the current field starts, counted from the record's start.
        let ended = loop {
            if at == self.end {
                let scanned = at - self.start;
                let more = self.fill(scanned - field)?;
                // The record may have moved to the buffer's beginning.
                at = self.start + scanned;
                if !more {
                    match state {
                        State::Quoted => {
                            let reason = "it ends inside a quoted field".to_owned();
                            return Err(ReportError::Cut { name: self.name.to_owned(), line, reason });
                        }
                        _ => self.push_field(field, scanned, &state, doubled)?,
                    }
                    break false;
                }
            }
            if matches!(state, State::Bare) {
                // Most bytes of a report: nothing to decide until the cell ends.
                let rest = &self.buffer[at..self.end];
                at += memchr::memchr2(self.delimiter, b'\n', rest).unwrap_or(rest.len());
                if at == self.end {
                    continue;
                }
            }
            let byte = self.buffer[at];
            match state {
                State::FieldStart | State::Bare | State::QuoteSeen | State::Junk if byte == self.delimiter => {
                    self.push_field(field, at - self.start, &state, doubled)?;
                    (field, state, doubled) = (at + 1 - self.start, State::FieldStart, false);
                }
                State::FieldStart | State::Bare | State::QuoteSeen | State::Junk if byte == b'\n' => {
                    let cr = at > self.start + field && self.buffer[at - 1] == b'\r';
                    self.push_field(field, at - self.start - usize::from(cr), &state, doubled)?;
                    lines += 1;
                    at += 1;
                    break true;
                }
                State::FieldStart => state = if byte == b'"' { State::Quoted } else { State::Bare },
                State::Quoted => match byte {
                    b'"' => state = State::QuoteSeen,
                    b'\n' => lines += 1,
                    _ => {}
                },
                State::QuoteSeen => match byte {
                    b'"' => (state, doubled) = (State::Quoted, true),
                    // The carriage return of the line end, or padding: told apart by what follows.
                    b'\r' | b' ' => {}
                    _ => (state, damage) = (State::Junk, Some("text behind a closing quote")),
                },
                State::Bare | State::Junk => {}
            }
            at += 1;
        };
        let record_start = self.start;
        self.start = at;
        self.line = line + lines;
        Ok(Some(Record {
            line,
            next_line: self.line,
            damage,
            ended,
            raw: &self.buffer[record_start..at],
            fields: &self.fields,
            written_out: &self.written_out,
        }))
    }

    /// Moves past blank lines and a byte order mark. `false` at the end of the file.
    fn find_start(&mut self) -> Result<bool, ReportError> {
        loop {
            while self.end - self.start < BOM.len() && self.fill(0)? {}
            let rest = &self.buffer[self.start..self.end];
            match rest {
                [] => return Ok(false),
                [b'\n', ..] => (self.start, self.line) = (self.start + 1, self.line + 1),
                [b'\r', b'\n', ..] => (self.start, self.line) = (self.start + 2, self.line + 1),
                [b'\r'] => self.start += 1,
                // At the file's start, or where files with one each were joined.
                _ if rest.starts_with(BOM) => self.start += BOM.len(),
                _ => return Ok(true),
            }
        }
    }

    fn push_field(&mut self, from: usize, to: usize, state: &State, doubled: bool) -> Result<(), ReportError> {
        if to - from > FIELD_BYTES_MAX {
            return Err(self.too_big("a field", FIELD_BYTES_MAX));
        }
        let mut field = Field { from, to, written_out: false };
        if matches!(state, State::QuoteSeen) {
            let record = &self.buffer[self.start..];
            let closing = record[from..to].iter().rposition(|&b| b == b'"').map_or(to, |at| from + at);
            (field.from, field.to) = (from + 1, closing);
            if doubled {
                let begin = self.written_out.len();
                let mut bytes = record[field.from..field.to].iter();
                while let Some(&byte) = bytes.next() {
                    self.written_out.push(byte);
                    if byte == b'"' {
                        bytes.next();
                    }
                }
                field = Field { from: begin, to: self.written_out.len(), written_out: true };
            }
        }
        self.fields.push(field);
        Ok(())
    }

    /// Reads more behind the current record; `field_bytes` is the size of the unfinished field. `false` at the end.
    fn fill(&mut self, field_bytes: usize) -> Result<bool, ReportError> {
        if self.at_eof {
            return Ok(false);
        }
        if field_bytes > FIELD_BYTES_MAX {
            return Err(self.too_big("a field", FIELD_BYTES_MAX));
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            if self.end >= RECORD_BYTES_MAX {
                return Err(self.too_big("a record", RECORD_BYTES_MAX));
            }
            self.buffer.resize((self.end * 2).min(RECORD_BYTES_MAX), 0);
        }
        let read = self.input.read(&mut self.buffer[self.end..]).map_err(|e| self.input_error(e))?;
        if self.buffer[self.end..self.end + read].contains(&0) {
            return Err(self.binary());
        }
        self.end += read;
        self.at_eof = read == 0;
        Ok(read > 0)
    }

    fn too_big(&self, what: &'static str, limit_bytes: usize) -> ReportError {
        ReportError::TooBig { name: self.name.to_owned(), line: self.line, what, limit_bytes }
    }

    fn binary(&self) -> ReportError {
        let first = self.buffer.iter().take(2).filter(|&&b| b == 0).count();
        let hint = if self.line == 1 && self.start == 0 && self.end == 0 && first == 1 {
            ": perhaps UTF-16 without a byte order mark, then state --encoding utf-16le"
        } else {
            ": perhaps a spreadsheet or an archive, download the report as CSV"
        };
        ReportError::Binary { name: self.name.to_owned(), line: self.line, hint }
    }

    fn input_error(&self, error: std::io::Error) -> ReportError {
        let name = self.name.to_owned();
        if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<ChangedBytes>) {
            return ReportError::Changed(name);
        }
        if let Some(bad) = error.get_ref().and_then(|e| e.downcast_ref::<BadText>()) {
            return ReportError::Text { name, line: self.line, reason: bad.to_string() };
        }
        ReportError::Unreadable { name, source: error }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Read = Vec<(u64, Vec<String>, Option<&'static str>)>;

    /// A reader that gives few bytes at a time, so that every state meets the end of the buffer.
    struct Dribble<'a>(&'a [u8], usize);

    impl std::io::Read for Dribble<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let size = self.1.min(self.0.len()).min(out.len());
            out[..size].copy_from_slice(&self.0[..size]);
            self.0 = &self.0[size..];
            Ok(size)
        }
    }

    fn read(text: &[u8], at_a_time: usize) -> Result<Read, ReportError> {
        let mut records = Records::new("test.csv", Dribble(text, at_a_time), b',');
        let mut all = Vec::new();
        while let Some(record) = records.next()? {
            let cells = (0..record.len()).map(|at| String::from_utf8_lossy(record.cell(at)).into_owned());
            all.push((record.line, cells.collect(), record.damage));
        }
        Ok(all)
    }

    fn rows(text: &str) -> Vec<(u64, Vec<String>)> {
        read(text.as_bytes(), 3).unwrap().into_iter().map(|(line, cells, _)| (line, cells)).collect()
    }

    fn row(line: u64, cells: &[&str]) -> (u64, Vec<String>) {
        (line, cells.iter().map(|c| (*c).to_owned()).collect())
    }

    #[test]
    fn a_record_knows_the_physical_line_of_its_start() {
        let text = "\u{feff}a,b\r\n\r\n\n1,\"x\r\ny\nz\"\r\n\n2,3\n\u{feff}a,b\n4,5";
        let expected = [
            row(1, &["a", "b"]),
            row(4, &["1", "x\r\ny\nz"]),
            row(8, &["2", "3"]),
            row(9, &["a", "b"]),
            row(10, &["4", "5"]),
        ];
        assert_eq!(rows(text), expected);
    }

    #[test]
    fn quotes_as_rfc_4180_has_them() {
        let table: &[(&str, &[&str])] = &[
            ("\"a\"\"b\",c\n", &["a\"b", "c"]),
            (
                "\"[{\"\"name\"\":\"\"Demo \\\"\"XL\\\"\", blue\"\"}]\",1\n",
                &["[{\"name\":\"Demo \\\"XL\\\", blue\"}]", "1"],
            ),
            ("\"\",\"\"\n", &["", ""]),
            ("5\" pipe,x\n", &["5\" pipe", "x"]),
            ("a,\n", &["a", ""]),
            (",\n", &["", ""]),
            ("\"a\",\"b\"", &["a", "b"]),
            ("\"a\" ,b\n", &["a", "b"]),
            ("\"a\",\"b\"\r\n", &["a", "b"]),
        ];
        for (text, cells) in table {
            assert_eq!(rows(text), [row(1, cells)], "{text:?}");
        }
    }

    #[test]
    fn damage_is_told_and_does_not_spread_to_the_next_record() {
        let all = read(b"\"a\"x,b\n1,2\n", 64).unwrap();
        assert_eq!(all[0].2, Some("text behind a closing quote"));
        assert_eq!((all[1].0, all[1].2), (2, None));
    }

    #[test]
    fn a_file_that_ends_inside_quotes_is_cut_off() {
        let error = read(b"a,b\n1,2\n3,\"x\ny", 5).unwrap_err();
        assert!(matches!(error, ReportError::Cut { line: 3, .. }), "{error}");
    }

    #[test]
    fn limits_name_the_line_and_hold_in_bounded_memory() {
        let field = format!("a,b\n1,\"{}", "x\n".repeat(FIELD_BYTES_MAX));
        let error = read(field.as_bytes(), 1 << 16).unwrap_err();
        assert!(matches!(error, ReportError::TooBig { line: 2, what: "a field", .. }), "{error}");
        let record = format!("a,b\n{}", "x,".repeat(RECORD_BYTES_MAX));
        let error = read(record.as_bytes(), 1 << 16).unwrap_err();
        assert!(matches!(error, ReportError::TooBig { line: 2, what: "a record", .. }), "{error}");
        let allowed = format!("a,\"{}\"\n", "x".repeat(FIELD_BYTES_MAX - 2));
        assert_eq!(read(allowed.as_bytes(), 1 << 16).unwrap().len(), 1);
    }

    #[test]
    fn nul_bytes_are_no_text() {
        let error = read(b"a,b\n1,\0\n", 64).unwrap_err();
        assert!(matches!(error, ReportError::Binary { .. }), "{error}");
        let utf16: Vec<u8> = "a,b\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(read(&utf16, 64).unwrap_err().to_string().contains("utf-16le"));
    }

    proptest! {
        #[test]
        fn well_formed_text_reads_as_the_csv_library_reads_it(
            table in proptest::collection::vec(proptest::collection::vec("[a\" ,\r\n;é]{0,6}", 2..4), 0..6),
            at_a_time in 1_usize..7,
        ) {
            let mut writer = csv::WriterBuilder::new().flexible(true).quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
            for cells in &table {
                writer.write_record(cells).unwrap();
            }
            let text = writer.into_inner().unwrap();
            let ours: Vec<Vec<String>> = read(&text, at_a_time).unwrap().into_iter().map(|(_, cells, _)| cells).collect();
            prop_assert_eq!(ours, table);
        }

        #[test]
        fn no_bytes_panic_and_the_size_of_the_reads_does_not_matter(
            text in proptest::collection::vec(proptest::sample::select(b"a1\",\r\n\xef\xbb\xbf\xff ".to_vec()), 0..60),
            at_a_time in 1_usize..9,
        ) {
            let (small, large) = (read(&text, at_a_time), read(&text, 4096));
            prop_assert_eq!(small.map_err(|e| e.to_string()), large.map_err(|e| e.to_string()));
        }
    }
}
