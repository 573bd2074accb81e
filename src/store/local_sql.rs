//! Text of the statements on the local side. COPY takes no parameters, so here, and only here, values become text:
//! each through a function that cannot let it end its literal, each name through a type that cannot let it end its
//! quotes.
//!
//! Never here: a connection.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};

/// Bytes of a name in PostgreSQL; a longer one would be cut without a word.
const IDENTIFIER_BYTES_MAX: usize = 63;

/// The name of a schema, table or column, as the operator wrote it; its `Display` is quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identifier(String);

impl Identifier {
    /// Takes any name that PostgreSQL can have: 1 to 63 bytes without NUL. The error says what is wrong.
    pub(super) fn new(name: &str) -> Result<Self, String> {
        if name.is_empty() || name.len() > IDENTIFIER_BYTES_MAX || name.contains('\0') {
            return Err(format!("the name {name:?} is not 1 to {IDENTIFIER_BYTES_MAX} bytes without NUL"));
        }
        Ok(Self(name.to_owned()))
    }

    /// Whether this is the name that the server gives a column.
    pub(super) fn is(&self, column: &str) -> bool {
        self.0 == column
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

/// A value that stands in a statement's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    /// Text. Has no NUL: [`Literal::text`] saw to it.
    Text(String),
    /// An instant.
    Instant(DateTime<Utc>),
    /// Before every instant.
    Ever,
    /// After every instant.
    Never,
}

impl Literal {
    /// Text that PostgreSQL can hold. The error says what is wrong.
    pub(super) fn text(value: &str) -> Result<Self, String> {
        if value.contains('\0') {
            return Err(format!("the value {value:?} contains NUL, which PostgreSQL cannot hold"));
        }
        Ok(Self::Text(value.to_owned()))
    }
}

impl fmt::Display for Literal {
    /// As an escape string whenever there is a backslash: right whatever standard_conforming_strings is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(value) => {
                let escapes = if value.contains('\\') { " E" } else { "" };
                write!(f, "{escapes}'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
            }
            Self::Instant(at) => {
                write!(f, "'{}'::pg_catalog.timestamptz", at.to_rfc3339_opts(SecondsFormat::Micros, true))
            }
            Self::Ever => f.write_str("'-infinity'::pg_catalog.timestamptz"),
            Self::Never => f.write_str("'infinity'::pg_catalog.timestamptz"),
        }
    }
}

/// Puts values in place of `$name` in the operator's query, outside of its strings, quoted names and comments.
/// The error names a place-holder that is none of `values`.
pub(super) fn fill(query: &str, values: &[(&str, Literal)]) -> Result<String, String> {
    let mut filled = String::with_capacity(query.len() + 128);
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let opaque = opaque_length(rest, filled.chars().next_back());
        if opaque > 0 {
            filled.push_str(&rest[..opaque]);
            rest = &rest[opaque..];
            continue;
        }
        if first == '$' && !filled.chars().next_back().is_some_and(is_word) {
            let name: &str = &rest[1..];
            let name = &name[..name.find(|c| !is_word(c)).unwrap_or(name.len())];
            let Some((_, value)) = values.iter().find(|(known, _)| *known == name) else {
                let known: Vec<String> = values.iter().map(|(name, _)| format!("${name}")).collect();
                return Err(format!("the query has the place-holder ${name}; known are {}", known.join(", ")));
            };
            filled.push_str(&value.to_string());
            rest = &rest[1 + name.len()..];
            continue;
        }
        filled.push(first);
        rest = &rest[first.len_utf8()..];
    }
    Ok(filled)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || !c.is_ascii()
}

/// Length of the string, quoted name or comment at the front of `text`; 0 when there is none. An unclosed one goes to
/// the end: the server will refuse it.
fn opaque_length(text: &str, before: Option<char>) -> usize {
    let bytes = text.as_bytes();
    match bytes {
        [b'\'', ..] => quoted_length(bytes, b'\'', matches!(before, Some('e' | 'E'))),
        [b'"', ..] => quoted_length(bytes, b'"', false),
        [b'-', b'-', ..] => text.find('\n').unwrap_or(text.len()),
        [b'/', b'*', ..] => comment_length(bytes),
        [b'$', ..] if !before.is_some_and(is_word) => dollar_quoted_length(text),
        _ => 0,
    }
}

/// A doubled quote inside is part of it; with `escapes`, so is whatever follows a backslash.
fn quoted_length(bytes: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    bytes.len()
}

/// Comments of this kind nest in PostgreSQL.
fn comment_length(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `$$...$$` or `$tag$...$tag$`; a place-holder has no second dollar.
fn dollar_quoted_length(text: &str) -> usize {
    let inner = &text[1..];
    let tag = inner.find(|c| !is_word(c)).unwrap_or(inner.len());
    if !inner[tag..].starts_with('$') || inner.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    let mark = &text[..tag + 2];
    text[mark.len()..].find(mark).map_or(text.len(), |end| mark.len() + end + mark.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(query: &str) -> Result<String, String> {
        let at = DateTime::from_timestamp(1_777_593_600, 250_000_000).unwrap();
        fill(
            query,
            &[
                ("from", Literal::Instant(at)),
                ("to", Literal::Never),
                ("provider", Literal::text("o'brien\\").unwrap()),
                ("account", Literal::text("").unwrap()),
            ],
        )
    }

    #[test]
    fn place_holders_become_typed_literals() {
        insta::assert_snapshot!(
            filled("SELECT * FROM s.c WHERE p=$provider AND a = $account AND t >= $from AND t < $to").unwrap(),
            @r"SELECT * FROM s.c WHERE p= E'o''brien\\' AND a = '' AND t >= '2026-05-01T00:00:00.250000Z'::pg_catalog.timestamptz AND t < 'infinity'::pg_catalog.timestamptz"
        );
    }

    #[test]
    fn strings_names_and_comments_are_left_alone() {
        for query in [
            "SELECT '$provider', 'it''s $to'",
            r"SELECT E'\'$provider'",
            "SELECT \"$provider\" FROM \"a\"\"$to\"",
            "SELECT 1 -- $provider",
            "SELECT 1 /* $provider /* $to */ $from */",
            "SELECT $$ $provider $$, $x$ $to $$ $x$",
            "SELECT 'ünclosed $provider",
            "SELECT a$provider FROM t",
        ] {
            assert_eq!(filled(query).unwrap(), query);
        }
    }

    #[test]
    fn an_unknown_place_holder_is_named() {
        for query in ["SELECT $until", "SELECT $1", "SELECT $", "SELECT $fromx"] {
            assert!(filled(query).unwrap_err().contains("known are $from, $to, $provider, $account"), "{query}");
        }
    }

    #[test]
    fn a_quote_in_a_name_stays_in_the_name() {
        assert_eq!(Identifier::new("a\"; DROP TABLE x; --").unwrap().to_string(), "\"a\"\"; DROP TABLE x; --\"");
        for name in ["", "a\0b", &"x".repeat(64)] {
            assert!(Identifier::new(name).is_err());
        }
    }
}
