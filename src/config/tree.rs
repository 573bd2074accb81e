//! `jobs.toml` as a tree in which each value knows where it was written.
//!
//! Variables are put in here: `${NAME}` inside strings, and `IDEM_SECTION_KEY` over whole keys. What keys mean is
//! not known here.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::error::{ConfigError, Problem};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// On this line of the file, from 1.
    Line(usize),
    /// In this variable.
    Variable(String),
}

/// A value and its origin.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) origin: Origin,
    /// Whether a variable stands in the text: then it may be a secret, and messages must not repeat it.
    pub(super) hidden: bool,
}

/// The sorts of values. Dates of TOML are kept as text.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Node {
    /// A file with nothing in it.
    pub(super) fn empty() -> Self {
        Self { value: Value::Table(BTreeMap::new()), origin: Origin::Line(1), hidden: false }
    }

    /// Reads TOML. Problems with variables go to `problems`, a syntax error ends it.
    pub(super) fn parse(
        text: &str,
        file: &str,
        environment: &Environment,
        problems: &mut Vec<Problem>,
    ) -> Result<Self, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| {
            let (line, column) = error.span().map_or((1, 1), |span| place(text, span.start));
            ConfigError::Syntax { file: file.to_owned(), line, column, message: error.message().to_owned() }
        })?;
        let mut reader = Reader { text, file, environment, problems };
        Ok(Self { value: reader.table(table.get_ref(), ""), origin: Origin::Line(1), hidden: false })
    }

    /// Sets a key of a section from a variable; what the file said there is gone, `replaced` included.
    pub(super) fn set(&mut self, section: &str, key: &str, replaced: Option<&str>, text: &str, variable: &str) {
        let origin = Origin::Variable(variable.to_owned());
        let Value::Table(root) = &mut self.value else { unreachable!("the root of a file is a table") };
        let section = root.entry(section.to_owned()).or_insert_with(Self::empty);
        // A section that is no table is refused when it is decoded.
        if let Value::Table(keys) = &mut section.value {
            if let Some(replaced) = replaced {
                keys.remove(replaced);
            }
            keys.insert(key.to_owned(), Self { value: Value::Text(text.to_owned()), origin, hidden: true });
        }
    }

    /// The node at the end of a path as [`super::error::Problem`] prints it (`reconcile.local[0].table`), or the
    /// nearest one above it, for keys that are not written.
    pub(super) fn nearest(&self, path: &str) -> &Self {
        let mut node = self;
        for step in path.split(['.', '[']) {
            let below = match &node.value {
                Value::Table(keys) => keys.get(step),
                Value::List(nodes) => step.trim_end_matches(']').parse().ok().and_then(|at: usize| nodes.get(at)),
                _ => None,
            };
            match below {
                Some(below) => node = below,
                None => break,
            }
        }
        node
    }

    /// Takes a key out of the tree, so that what is left can be judged without it.
    pub(super) fn remove(&mut self, path: &str) -> bool {
        let path = path.rfind('[').filter(|_| path.ends_with(']')).map_or(path, |at| &path[..at]);
        let mut node = self;
        let mut steps = path.split(['.', '[']).peekable();
        while let Some(step) = steps.next() {
            let below = match &mut node.value {
                Value::Table(keys) if steps.peek().is_none() => return keys.remove(step).is_some(),
                Value::Table(keys) => keys.get_mut(step),
                Value::List(nodes) => step.trim_end_matches(']').parse().ok().and_then(|at: usize| nodes.get_mut(at)),
                _ => None,
            };
            match below {
                Some(below) => node = below,
                None => return false,
            }
        }
        false
    }
}

/// Line and column, both from 1, of a byte.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..byte.min(text.len())];
    let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let line = before.split(|&b| b == b'\n').count();
    (line, 1 + String::from_utf8_lossy(&before[start..]).chars().count())
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    environment: &'a Environment,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, at: &str) -> Value {
        let node = |(key, value): (&toml::Spanned<_>, &toml::Spanned<_>)| {
            let key_text: &std::borrow::Cow<'_, str> = key.get_ref();
            let path = if at.is_empty() { key_text.to_string() } else { format!("{at}.{key_text}") };
            (key_text.to_string(), self.node(value, key.span().start, &path))
        };
        Value::Table(table.iter().map(node).collect())
    }

    fn node(&mut self, value: &toml::Spanned<DeValue<'_>>, byte: usize, path: &str) -> Node {
        let line = place(self.text, byte).0;
        let mut hidden = false;
        let value = match value.get_ref() {
            DeValue::String(text) => match expand(text, self.environment) {
                Ok((text, variable)) => {
                    hidden = variable;
                    Value::Text(text)
                }
                Err(message) => {
                    let place = format!("{}:{line}", self.file);
                    self.problems.push(Problem { place, key: path.to_owned(), message });
                    Value::Text(String::new())
                }
            },
            // Beyond 64 bits nothing of ours is in range: the text says so better than a wrapped number.
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::Text(number.as_str().to_owned()), Value::Integer),
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(time) => Value::Text(time.to_string()),
            DeValue::Array(values) => Value::List(
                (values.iter().enumerate())
                    .map(|(i, value)| self.node(value, value.span().start, &format!("{path}[{i}]")))
                    .collect(),
            ),
            DeValue::Table(table) => self.table(table, path),
        };
        Node { value, origin: Origin::Line(line), hidden }
    }
}

/// Puts variables into a text: `${NAME}`; `$${` stands for `${` itself. Says whether there was one.
fn expand(text: &str, environment: &Environment) -> Result<(String, bool), String> {
    let mut expanded = String::new();
    let mut any = false;
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = &from[2..];
            continue;
        }
        expanded.push_str(before);
        let named = from[2..].split_once('}').filter(|(name, _)| is_variable_name(name));
        let (name, after) = named.ok_or("`${` begins a variable such as ${NAME}; write `$${` for the text itself")?;
        match environment.text(name) {
            Ok(Some(value)) => expanded.push_str(value),
            Ok(None) => return Err(format!("the environment variable {name} is not set")),
            Err(error) => return Err(format!("the environment variable {name} {error}")),
        }
        any = true;
        rest = after;
    }
    expanded.push_str(rest);
    Ok((expanded, any))
}

fn is_variable_name(name: &str) -> bool {
    let letters = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(letters) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_inside_a_text() {
        let environment = Environment::from_pairs([("A", "x"), ("B_2", "${A}")]);
        let table: &[(&str, Result<&str, &str>)] = &[
            ("plain $from $1 $$ {A}", Ok("plain $from $1 $$ {A}")),
            ("${A}", Ok("x")),
            ("<${A}-${A}>", Ok("<x-x>")),
            // A value is not looked into again, so that nobody can smuggle a variable into another.
            ("${B_2}", Ok("${A}")),
            ("$${A}", Ok("${A}")),
            ("é$${", Ok("é${")),
            ("${MISSING}", Err("MISSING is not set")),
            ("${", Err("begins a variable")),
            ("${}", Err("begins a variable")),
            ("${1A}", Err("begins a variable")),
            ("${A B}", Err("begins a variable")),
        ];
        for (text, expected) in table {
            match (expand(text, &environment), expected) {
                (Ok((found, _)), Ok(expected)) => assert_eq!(found, *expected, "{text}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_place_counts_lines_and_letters_from_one() {
        let text = "a = 1\né = ?\n";
        assert_eq!(place(text, 0), (1, 1));
        assert_eq!(place(text, text.find('?').unwrap()), (2, 5));
        assert_eq!(place("", 7), (1, 1));
    }
}
