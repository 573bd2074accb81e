//! From the tree to the mirror: a deserializer that keeps path and origin of what is wrong.
//!
//! The toml crate's own errors give neither the path of a key nor the keys that were expected, and it cannot read
//! numbers and lists out of variables.

use std::collections::btree_map;
use std::fmt;

use serde::de::value::SeqDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::de::{Error as _, Expected, Unexpected};
use serde::forward_to_deserialize_any;

use super::tree::{Node, Origin, Value};

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct DecodeError {
    /// `reconcile.local[0].table`
    pub(super) path: String,
    pub(super) origin: Option<Origin>,
    pub(super) fault: Fault,
}

/// What is wrong.
#[derive(Debug)]
pub(super) enum Fault {
    /// No such key; these are known there.
    Unknown(&'static [&'static str]),
    /// Another sort of value was expected.
    Sort { found: String, expected: String },
    /// Anything else.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(_) => f.write_str("unknown key"),
            Self::Sort { found, expected } => write!(f, "found {found}, expected {expected}"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.fault)
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: String::new(), origin: None, fault: Fault::Other(message.to_string()) }
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self { path: String::new(), origin: None, fault: Fault::Unknown(expected) }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // In the words of the file, not of the program.
        let found = match found {
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a table".to_owned(),
            other => other.to_string(),
        };
        let expected = expected.to_string();
        let expected = match expected.as_str() {
            "i64" => "a whole number".to_owned(),
            "a sequence" => "a list".to_owned(),
            table if table == "a map" || table.starts_with("struct ") => "a table".to_owned(),
            _ => expected,
        };
        Self { path: String::new(), origin: None, fault: Fault::Sort { found, expected } }
    }
}

impl DecodeError {
    /// Adds a step in front of the path; the innermost node gives the origin.
    fn below(mut self, step: &str, node: &Node) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{step}{joint}{}", self.path);
        if self.origin.is_none() {
            self.origin = Some(node.origin.clone());
            if let (true, Fault::Sort { found, .. }) = (node.hidden, &mut self.fault) {
                "a value that comes from a variable".clone_into(found);
            }
        }
        self
    }
}

/// Decodes a whole tree.
pub(super) fn decode<T: DeserializeOwned>(root: &Node) -> Result<T, DecodeError> {
    T::deserialize(root)
}

/// The keys that a struct of the mirror knows.
pub(super) fn known_keys<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut root = Node::empty();
    if let Value::Table(keys) = &mut root.value {
        keys.insert("?".to_owned(), Node::empty());
    }
    match decode::<T>(&root) {
        Err(DecodeError { fault: Fault::Unknown(keys), .. }) => keys,
        _ => unreachable!("each struct of the mirror refuses unknown keys"),
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Flag(flag) => visitor.visit_bool(*flag),
            Value::List(nodes) => visitor.visit_seq(Elements { nodes: nodes.iter().enumerate() }),
            Value::Table(keys) => visitor.visit_map(Keys { rest: keys.iter(), now: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match (&self.value, &self.origin) {
            (Value::Text(text), Origin::Variable(_)) => match text.trim().parse() {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => Err(DecodeError::invalid_type(Unexpected::Str(text), &visitor)),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match (&self.value, &self.origin) {
            (Value::Text(text), Origin::Variable(_)) => match text.trim() {
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                _ => Err(DecodeError::invalid_type(Unexpected::Str(text), &visitor)),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    /// A variable holds a list as texts with commas between them.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match (&self.value, &self.origin) {
            (Value::Text(text), Origin::Variable(_)) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                visitor.visit_seq(SeqDeserializer::new(parts.map(Part)))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Keys<'de> {
    rest: btree_map::Iter<'de, String, Node>,
    now: Option<(&'de str, &'de Node)>,
}

impl<'de> MapAccess<'de> for Keys<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some((key, node)) = self.rest.next() else { return Ok(None) };
        self.now = Some((key, node));
        let key_reader = IntoDeserializer::<DecodeError>::into_deserializer(key.as_str());
        seed.deserialize(key_reader).map(Some).map_err(|error| error.below(key, node))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        let (key, node) = self.now.take().ok_or_else(|| DecodeError::custom("a value was asked for before its key"))?;
        seed.deserialize(node).map_err(|error| error.below(key, node))
    }
}

struct Elements<'de> {
    nodes: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = DecodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeError> {
        let Some((at, node)) = self.nodes.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|error| error.below(&format!("[{at}]"), node))
    }
}

/// One text of a list that stands in a variable.
struct Part<'de>(&'de str);

impl<'de> IntoDeserializer<'de, DecodeError> for Part<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Part<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0.parse() {
            Ok(number) => visitor.visit_i64(number),
            Err(_) => Err(DecodeError::invalid_type(Unexpected::Str(self.0), &visitor)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
