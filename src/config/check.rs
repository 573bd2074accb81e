//! Reads keys of the mirror as checked values and collects what is wrong with them, each with its place.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::error::Problem;
use super::tree::{Node, Origin};
use super::value::{Secret, print_span, span};

/// Longest part of a value that a message repeats, in characters.
const SHOWN_CHARS_MAX: usize = 80;
/// Largest file that holds a secret, in bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// The place of a node, in words.
pub(super) fn place(origin: &Origin, file: &str) -> String {
    match origin {
        Origin::Line(line) => format!("{file}:{line}"),
        Origin::Variable(name) => format!("environment variable {name}"),
    }
}

/// Collects problems while values are read.
pub(super) struct Check<'a> {
    pub(super) root: &'a Node,
    pub(super) file: &'a str,
    pub(super) problems: Vec<Problem>,
}

impl Check<'_> {
    /// Says that something is wrong with a key.
    pub(super) fn problem(&mut self, key: &str, message: impl Display) {
        let place = place(&self.root.nearest(key).origin, self.file);
        self.problems.push(Problem { place, key: key.to_owned(), message: message.to_string() });
    }

    /// Says that a value is wrong, and repeats it unless it came out of a variable.
    fn wrong(&mut self, key: &str, value: &dyn std::fmt::Debug, expected: impl Display) {
        let value = format!("{value:?}");
        let shown = if self.root.nearest(key).hidden {
            "the value (from a variable) is wrong".to_owned()
        } else if value.chars().count() > SHOWN_CHARS_MAX {
            value.chars().take(SHOWN_CHARS_MAX).chain("...".chars()).collect()
        } else {
            value
        };
        self.problem(key, format!("{shown}: {expected}"));
    }

    /// A text with a reader of its own.
    pub(super) fn text<T>(
        &mut self,
        key: &str,
        text: Option<&String>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match read(text?) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.wrong(key, text?, expected);
                None
            }
        }
    }

    /// A text that must be there.
    pub(super) fn needed<T: Default>(
        &mut self,
        key: &str,
        text: Option<&String>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        if text.is_none() {
            self.problem(key, "this key is needed");
        }
        self.text(key, text, read).unwrap_or_default()
    }

    /// A span of time within a range.
    pub(super) fn span(
        &mut self,
        key: &str,
        text: Option<&String>,
        default: Duration,
        range: &RangeInclusive<Duration>,
    ) -> Duration {
        let within = |text: &str| {
            let (from, to) = (print_span(*range.start()), print_span(*range.end()));
            let allowed = format!("allowed is {from} to {to}");
            let length = span(text).map_err(|expected| format!("{expected}; {allowed}"))?;
            if range.contains(&length) { Ok(length) } else { Err(allowed) }
        };
        self.text(key, text, within).unwrap_or(default)
    }

    /// A whole number within a range.
    pub(super) fn count(&mut self, key: &str, number: Option<i64>, default: u64, range: &RangeInclusive<u64>) -> u64 {
        let Some(number) = number else { return default };
        u64::try_from(number).ok().filter(|number| range.contains(number)).unwrap_or_else(|| {
            self.wrong(key, &number, format!("allowed is {} to {}", range.start(), range.end()));
            default
        })
    }

    /// A table of words: the report's or the local side's on the left (kept as `left` makes them), ours on the right.
    pub(super) fn words<T>(
        &mut self,
        key: &str,
        words: &BTreeMap<String, String>,
        left: impl Fn(&str) -> String,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> BTreeMap<String, T> {
        let mut read_words = BTreeMap::new();
        for (word, ours) in words {
            let at = format!("{key}.{word}");
            if let Some(value) = self.text(&at, Some(ours), &read)
                && read_words.insert(left(word), value).is_some()
            {
                self.problem(&at, "this word stands twice, in another case");
            }
        }
        read_words
    }

    /// A secret, given in place or as the name of a file that holds it. One line end behind it is not part of it.
    pub(super) fn secret(&mut self, key: &str, given: Option<Secret>, file: Option<&String>) -> Option<Secret> {
        let key_file = format!("{key}_file");
        let Some(file) = file else { return given };
        if given.is_some() {
            self.problem(&key_file, format!("{key} is given too: keep one of them"));
            return None;
        }
        match read_secret(Path::new(file)) {
            Ok(secret) => Some(secret),
            Err(message) => {
                self.problem(&key_file, format!("{file}: {message}"));
                None
            }
        }
    }
}

fn read_secret(path: &Path) -> Result<Secret, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("is not a file".to_owned());
    }
    if metadata.len() > SECRET_BYTES_MAX {
        return Err(format!("is larger than {} KiB", SECRET_BYTES_MAX / 1024));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(Secret::new(text)) }
}
