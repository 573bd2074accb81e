//! What can be wrong with the configuration, in words that name the place, the key and what was expected.

use std::fmt;
use std::path::PathBuf;

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// `--config` names a file that cannot be read, or `./jobs.toml` is there and cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is larger than any configuration.
    #[error("the configuration {} is larger than {} KiB", path.display(), bytes_max / 1024)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How large it may be.
        bytes_max: u64,
    },
    /// The file is not UTF-8.
    #[error("the configuration {} is not UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML.
    #[error("{file}:{line}:{column}: not TOML: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// From 1, in letters.
        column: usize,
        /// What the parser said.
        message: String,
    },
    /// Keys or values are wrong: all that could be found at once, at least one.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

/// One wrong key or value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `jobs.toml:12` or `environment variable IDEM_RECONCILE_GRACE`.
    pub place: String,
    /// `reconcile.local[0].table`, counted from 0.
    pub key: String,
    /// What is wrong and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.key, self.message)
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
