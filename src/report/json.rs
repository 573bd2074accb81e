//! `report.json`: the findings themselves, for programs.
//!
//! Values stay as they are but for masked card numbers and cut giants; hidden characters are written as
//! JSON escapes, so that the file is safe to look at and reads back to the same text.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::clean::{clean, is_hidden};
use crate::domain::run::Reconciliation;

/// The findings as pretty JSON (schema `idem-jobs/reconcile/1`), ending with a line feed.
///
/// # Panics
/// Never: the findings hold nothing that JSON cannot say.
pub fn json(found: &Reconciliation) -> String {
    let mut bytes = Vec::new();
    let formatter = Visible { pretty: PrettyFormatter::new() };
    clean(found)
        .serialize(&mut Serializer::with_formatter(&mut bytes, formatter))
        .expect("keys are strings and a Vec takes every write");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

/// serde_json's pretty printer, with hidden characters beyond ASCII escaped as well.
struct Visible<'a> {
    pretty: PrettyFormatter<'a>,
}

impl Formatter for Visible<'_> {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hidden(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{bad_day, hostile_day};
    use super::*;

    #[test]
    fn what_is_harmless_reads_back_as_it_was() {
        let day = bad_day(40);
        assert_eq!(serde_json::from_str::<Reconciliation>(&json(&day)).unwrap(), day);
    }

    #[test]
    fn hostile_values_read_back_masked_and_cut_but_otherwise_the_same() {
        let day = hostile_day();
        let text = json(&day);
        assert!(!text.contains("4111111111111111"));
        assert!(!text.chars().any(|c| c != '\n' && is_hidden(c)), "hidden characters are escapes");
        assert!(text.len() < 100_000, "{}", text.len());
        let back: Reconciliation = serde_json::from_str(&text).unwrap();
        assert_eq!(back.mismatches[3].reference, day.mismatches[3].reference);
        assert_eq!(back.notes[5], "a\r\nBcc: e@evil.example");
        assert_eq!(back.notes[6], "\u{202e}gpj.exe\u{2066}");
        assert_eq!(back.control, day.control);
    }
}
