//! The environment, read once. Nothing else reads a variable.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

/// A snapshot of the environment's variables. `Debug` shows how many there are, since some are secrets.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
}

impl Environment {
    /// The variables of this process. Variables whose names are not UTF-8 cannot be ours and are left out.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn of_process() -> Self {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Self { variables: std::env::vars_os().filter_map(named).collect() }
    }

    /// A made-up environment, for tests and for the demo.
    pub fn from_pairs<N: Into<String>, V: Into<OsString>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        Self { variables: pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// The variable as the system has it. An empty one counts as not set, since that is how shells and
    /// container files "remove" one.
    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The variable as text: `Ok(None)` when it is not set, an error when it is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&str>, NotUtf8> {
        self.raw(name).map(|value| value.to_str().ok_or(NotUtf8)).transpose()
    }

    /// Names of the variables that are set and begin with `prefix`, in order.
    pub fn names(&self, prefix: &str) -> impl Iterator<Item = &str> {
        let set = self.variables.iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, _)| name.as_str()).filter(move |name| name.starts_with(prefix))
    }

    /// Where programs are looked for.
    pub fn path(&self) -> Option<&OsStr> {
        self.raw("PATH")
    }

    /// The folder of PostgreSQL's server binaries that the operator insists on.
    pub fn postgres_bin(&self) -> Option<&OsStr> {
        self.raw("IDEM_POSTGRES_BIN")
    }

    /// Log filter directives (`IDEM_LOG`), which override `-v` and `-q`.
    pub fn log_filter(&self) -> Option<&str> {
        self.raw("IDEM_LOG").and_then(OsStr::to_str)
    }

    /// Whether programs are asked to print without colour (no-color.org, and terminals that cannot).
    pub fn no_color(&self) -> bool {
        self.raw("NO_COLOR").is_some() || self.raw("TERM").is_some_and(|term| term == "dumb")
    }
}

/// A variable's bytes are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not UTF-8")]
pub struct NotUtf8;

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_not_set_and_no_value_is_printed() {
        let environment = Environment::from_pairs([("DATABASE_URL", ""), ("IDEM_LOG", "debug"), ("X", "secret")]);
        assert_eq!(environment.text("DATABASE_URL"), Ok(None));
        assert_eq!(environment.log_filter(), Some("debug"));
        assert_eq!(environment.names("IDEM_").collect::<Vec<_>>(), ["IDEM_LOG"]);
        assert_eq!(format!("{environment:?}"), "Environment(3 variables)");
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_not_text_are_an_error_and_not_a_missing_variable() {
        use std::os::unix::ffi::OsStringExt;
        let environment = Environment::from_pairs([("DATABASE_URL", OsString::from_vec(vec![0xff]))]);
        assert_eq!(environment.text("DATABASE_URL"), Err(NotUtf8));
    }
}
