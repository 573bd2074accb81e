//! The way from a file and the environment to settings: parse, lay variables over, decode, resolve.

use std::io::{ErrorKind, Read};
use std::path::Path;

use super::check::place;
use super::decode::{DecodeError, Fault, decode, known_keys};
use super::environment::Environment;
use super::error::{ConfigError, Problem};
use super::file::File;
use super::resolve::resolve;
use super::settings::Settings;
use super::tree::{Node, Origin};

/// Every key with its default and a comment: default, example and reference in one.
pub const REFERENCE: &str = include_str!("../../jobs.toml");

/// The file that is read when none is named, if it is there.
const DEFAULT_FILE: &str = "jobs.toml";
/// Largest configuration, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;
/// How many unknown keys and wrong sorts of values are reported at once.
const PROBLEMS_MAX: usize = 20;

/// The settings out of the file at `path`, or of `./jobs.toml` when it is there, or the built-in ones.
pub fn load(path: Option<&Path>, environment: &Environment) -> Result<Settings, ConfigError> {
    let named = path.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match read(named) {
        Ok(text) => text,
        Err(ConfigError::Unreadable { source, .. }) if path.is_none() && source.kind() == ErrorKind::NotFound => {
            String::new()
        }
        Err(error) => return Err(error),
    };
    load_text(&text, &named.display().to_string(), environment)
}

/// The settings out of a text; `file` is what messages call it.
pub fn load_text(text: &str, file: &str, environment: &Environment) -> Result<Settings, ConfigError> {
    let mut problems = Vec::new();
    let mut root = Node::parse(text, file, environment, &mut problems)?;
    overlay(&mut root, environment, &mut problems);
    let decoded = decode_all(&mut root, file, &mut problems);
    match decoded {
        Some(decoded) if problems.is_empty() => resolve(decoded, &root, file).map_err(ConfigError::Invalid),
        _ => Err(ConfigError::Invalid(problems)),
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(ConfigError::TooLarge { path: path.to_owned(), bytes_max: BYTES_MAX });
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::NotText { path: path.to_owned() })
}

/// Lays variables over the file: `IDEM_SECTION_KEY` for the plain keys of each section, and `DATABASE_URL`, which
/// everybody uses. A `_FILE` behind the name of a secret names a file that holds it.
fn overlay(root: &mut Node, environment: &Environment, problems: &mut Vec<Problem>) {
    let mut variables: Vec<(&str, &str, String)> =
        vec![("DATABASE_URL", "database", "url".to_owned()), ("DATABASE_URL_FILE", "database", "url_file".to_owned())];
    for section in known_keys::<File>() {
        let prefix = format!("IDEM_{}_", section.to_ascii_uppercase());
        for name in environment.names(&prefix).filter(|name| !is_of_kubernetes(&name[prefix.len()..])) {
            variables.push((name, section, name[prefix.len()..].to_ascii_lowercase()));
        }
    }
    // `DATABASE_URL` and its twin first, so that the more exact `IDEM_DATABASE_URL` wins.
    for (name, section, key) in variables {
        match environment.text(name) {
            Ok(Some(text)) => {
                let twin = key.strip_suffix("_file").map_or_else(|| format!("{key}_file"), str::to_owned);
                let other_name = name.strip_suffix("_FILE").map_or_else(|| format!("{name}_FILE"), str::to_owned);
                if environment.raw(&other_name).is_some() && !name.ends_with("_FILE") {
                    problems.push(Problem {
                        place: format!("environment variable {name}"),
                        key: format!("{section}.{key}"),
                        message: format!("{other_name} is set too: keep one of them"),
                    });
                }
                root.set(section, &key, Some(&twin), text, name);
            }
            Ok(None) => {}
            Err(error) => problems.push(Problem {
                place: format!("environment variable {name}"),
                key: format!("{section}.{key}"),
                message: error.to_string(),
            }),
        }
    }
}

/// Whether this is a variable that Kubernetes sets in each pod for a service of such a name (`idem-database`):
/// that is no typing error of the operator's.
fn is_of_kubernetes(end_of_name: &str) -> bool {
    end_of_name == "PORT" || end_of_name.starts_with("PORT_") || end_of_name.starts_with("SERVICE_")
}

/// Decodes; what cannot be decoded is reported, taken out, and the rest is tried again, so that one call shows all.
fn decode_all(root: &mut Node, file: &str, problems: &mut Vec<Problem>) -> Option<File> {
    for _ in 0..PROBLEMS_MAX {
        match decode::<File>(root) {
            Ok(decoded) => return Some(decoded),
            Err(error) => {
                let key = error.path.clone();
                problems.push(problem(error, file));
                if !root.remove(&key) {
                    break;
                }
            }
        }
    }
    None
}

fn problem(error: DecodeError, file: &str) -> Problem {
    let message = match &error.fault {
        Fault::Unknown(known) => {
            let key = error.path.rsplit('.').next().unwrap_or_default();
            nearest(key, known).map_or_else(
                || format!("unknown key; known here are {}", known.join(", ")),
                |nearest| format!("unknown key; did you mean `{nearest}`?"),
            )
        }
        other => other.to_string(),
    };
    Problem { place: place(error.origin.as_ref().unwrap_or(&Origin::Line(1)), file), key: error.path, message }
}

/// The known key that was most likely meant.
fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |other: &str| strsim::jaro_winkler(&key.to_lowercase(), other);
    known.iter().copied().filter(|other| likeness(other) > 0.8).max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::settings::LocalSource;
    use super::super::tree::Value;
    use super::*;

    /// The reference with all its commented keys and examples in use.
    fn reference_in_use() -> String {
        let uncomment = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        };
        REFERENCE.lines().map(uncomment).collect::<Vec<_>>().join("\n")
    }

    fn node(value: Value) -> Node {
        Node { value, ..Node::empty() }
    }

    /// A tree with `value` at the end of the path; `[]` behind a step makes it a list of one.
    fn tree_with(path: &[String], value: Node) -> Node {
        path.iter().rev().fold(value, |below, step| {
            let (key, below) = match step.strip_suffix("[]") {
                Some(key) => (key, node(Value::List(vec![below]))),
                None => (step.as_str(), below),
            };
            node(Value::Table(BTreeMap::from([(key.to_owned(), below)])))
        })
    }

    /// All keys of the mirror, found by asking it: a struct answers an impossible key with those that it knows.
    fn keys_of_the_mirror(path: &[String], found: &mut Vec<Vec<String>>) {
        let impossible = tree_with(&["?".to_owned()], node(Value::Flag(true)));
        match decode::<File>(&tree_with(path, impossible)) {
            Err(DecodeError { fault: Fault::Unknown(keys), .. }) => {
                for key in keys {
                    let mut below = path.to_vec();
                    below.push((*key).to_owned());
                    keys_of_the_mirror(&below, found);
                }
            }
            _ if path.last().is_some_and(|step| step.ends_with("[]")) => {
                let mut plain = path.to_vec();
                let last = plain.last_mut().expect("it has just been looked at");
                last.truncate(last.len() - "[]".len());
                found.push(plain);
            }
            _ => {
                let mut list = path.to_vec();
                if let Some(last) = list.last_mut() {
                    last.push_str("[]");
                }
                keys_of_the_mirror(&list, found);
            }
        }
    }

    fn stands(path: &[String], node: &Node) -> bool {
        match (&node.value, path) {
            (Value::List(nodes), _) if !path.is_empty() => nodes.iter().any(|node| stands(path, node)),
            (_, []) => true,
            (Value::Table(keys), [step, rest @ ..]) => {
                keys.get(step.trim_end_matches("[]")).is_some_and(|node| stands(rest, node))
            }
            _ => false,
        }
    }

    #[test]
    fn every_key_stands_in_the_reference() {
        let mut keys = Vec::new();
        keys_of_the_mirror(&[], &mut keys);
        assert!(keys.len() > 50, "the walk finds the nested tables too: {}", keys.len());

        let environment = Environment::from_pairs([("DATABASE_URL", "postgres://db/x")]);
        let mut problems = Vec::new();
        let written = Node::parse(&reference_in_use(), "jobs.toml", &environment, &mut problems).unwrap();
        assert_eq!(problems, []);
        let missing: Vec<_> = keys.iter().filter(|path| !stands(path, &written)).collect();
        assert!(missing.is_empty(), "not in jobs.toml: {missing:?}");
    }

    #[test]
    fn the_reference_is_sound_with_every_example_in_use() {
        let environment = Environment::from_pairs([("PGURL", "postgres://db/x")]);
        let text = reference_in_use()
            .replace("url = \"${DATABASE_URL}\"", "url = \"${PGURL}\"")
            .replace("url_file = \"/run/secrets/database-url\"", "");
        let settings = load_text(&text, "jobs.toml", &environment).unwrap();
        let defaults = Settings::default();

        assert_eq!(settings.reconcile.local.len(), 3);
        assert_eq!(settings.partitions.tables.len(), 3, "ours are always among them");
        assert_eq!(settings.reconcile.local[2], LocalSource::idem_charges(), "the last example is the default");
        let without_examples = Settings {
            database_url: None,
            reconcile: super::super::ReconcileSettings {
                local: vec![LocalSource::idem_charges()],
                providers: Vec::new(),
                generic: Vec::new(),
                ..settings.reconcile
            },
            partitions: super::super::PartitionSettings {
                tables: defaults.partitions.tables.clone(),
                ..settings.partitions
            },
            ..settings
        };
        assert_eq!(without_examples, defaults);
    }

    #[test]
    fn the_key_that_was_meant() {
        let table =
            [("grce", Some("grace")), ("Slack", Some("slack")), ("settlement", Some("settlement_lag")), ("x", None)];
        for (typed, meant) in table {
            assert_eq!(nearest(typed, known_keys::<super::super::file::Reconcile>()), meant, "{typed}");
        }
    }
}
