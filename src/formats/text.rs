//! From bytes to UTF-8, strictly: a bad byte is an error, never a replacement character.
//!
//! UTF-8 passes through unchanged (records check it row by row); UTF-16 is told by its byte order mark; anything
//! else only when the operator has named it. Nothing here knows CSV.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::error::ReportError;
use super::source::{Bytes, Source};

const CHUNK: usize = 64 << 10;

/// A reader of UTF-8 text.
pub(super) enum Text<'a> {
    /// As it stands in the file.
    Plain(Bytes<'a>),
    /// Converted on the way.
    Converted(Box<Converted<'a>>),
}

/// Text in another encoding, being converted.
pub(super) struct Converted<'a> {
    input: Bytes<'a>,
    decoder: Decoder,
    raw: Vec<u8>,
    raw_at: usize,
    raw_end: usize,
    text: Vec<u8>,
    text_at: usize,
    text_end: usize,
    at_end: bool,
    done: bool,
}

/// Marks the I/O error of text that is not in its encoding.
#[derive(Debug, thiserror::Error)]
#[error("the text is not valid {0}")]
pub(super) struct BadText(&'static str);

/// Which encoding a file is in: by its byte order mark, else as stated, else UTF-8.
pub(super) fn encoding(source: &Source, stated: Option<&str>) -> Result<&'static Encoding, ReportError> {
    let stated = match stated {
        None => UTF_8,
        Some(label) => {
            Encoding::for_label(label.as_bytes()).ok_or_else(|| ReportError::NoSuchEncoding(label.to_owned()))?
        }
    };
    Ok(match source.head()? {
        [0xff, 0xfe, ..] => UTF_16LE,
        [0xfe, 0xff, ..] => UTF_16BE,
        [0xef, 0xbb, 0xbf, _] => UTF_8,
        // What is stated is for files that are not UTF-8: read as another one, UTF-8 would become wrong text silently.
        _ if stated != UTF_8 && source.is_utf8()? => UTF_8,
        _ => stated,
    })
}

impl<'a> Text<'a> {
    /// Reads `source` from its beginning.
    pub(super) fn new(source: &'a Source, encoding: &'static Encoding) -> Self {
        let input = source.reader();
        if encoding == UTF_8 {
            return Self::Plain(input);
        }
        Self::Converted(Box::new(Converted {
            input,
            decoder: encoding.new_decoder_without_bom_handling(),
            raw: vec![0; CHUNK],
            raw_at: 0,
            raw_end: 0,
            text: vec![0; CHUNK * 3],
            text_at: 0,
            text_end: 0,
            at_end: false,
            done: false,
        }))
    }
}

impl Read for Text<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bytes) => bytes.read(out),
            Self::Converted(converted) => converted.read(out),
        }
    }
}

impl Read for Converted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.text_at == self.text_end && !self.done {
            self.convert()?;
        }
        let ready = &self.text[self.text_at..self.text_end];
        let taken = ready.len().min(out.len());
        out[..taken].copy_from_slice(&ready[..taken]);
        self.text_at += taken;
        Ok(taken)
    }
}

impl Converted<'_> {
    fn convert(&mut self) -> io::Result<()> {
        if self.raw_at == self.raw_end && !self.at_end {
            self.raw_at = 0;
            self.raw_end = self.input.read(&mut self.raw)?;
            self.at_end = self.raw_end == 0;
        }
        let raw = &self.raw[self.raw_at..self.raw_end];
        let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(raw, &mut self.text, self.at_end);
        self.raw_at += read;
        (self.text_at, self.text_end) = (0, written);
        match result {
            DecoderResult::InputEmpty => self.done = self.at_end,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => {
                return Err(io::Error::other(BadText(self.decoder.encoding().name())));
            }
        }
        Ok(())
    }
}
