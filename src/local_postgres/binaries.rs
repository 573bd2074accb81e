//! Finds the server binaries of the machine: the highest major version, 14 or newer. Never downloads any.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::Account;
use super::{Environment, LocalPostgresError};

/// The oldest major version that the schema works with.
const MAJOR_MIN: u32 = 14;

/// Where distributions put the binaries: a folder, the beginning of its children's names, the way on from there.
const PLACES: [(&str, &str, &str); 10] = [
    ("/usr/lib/postgresql", "", "bin"),                      // Debian, Ubuntu
    ("/usr", "pgsql-", "bin"),                               // PostgreSQL's own packages for Fedora and RHEL
    ("/usr/lib", "postgresql", "bin"),                       // openSUSE
    ("/usr/lib64", "postgresql-", "bin"),                    // Gentoo
    ("/usr/libexec", "postgresql", ""),                      // Alpine
    ("/opt/homebrew/opt", "postgresql", "bin"),              // Homebrew on Apple silicon
    ("/usr/local/opt", "postgresql", "bin"),                 // Homebrew on Intel
    ("/home/linuxbrew/.linuxbrew/opt", "postgresql", "bin"), // Homebrew on Linux
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
    ("/Library/PostgreSQL", "", "bin"), // the graphical installer on macOS
];

/// Children of one place that are looked at.
const CHILDREN_MAX: usize = 1_000;

/// A usable pair of `initdb` and `postgres`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) major: u32,
    dir: PathBuf,
}

impl Binaries {
    pub(super) fn initdb(&self) -> PathBuf {
        self.dir.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.dir.join("postgres")
    }
}

/// The best binaries for a folder: of exactly the version that made its data, else the highest.
pub(super) fn find(
    env: &Environment,
    account: Option<&Account>,
    data_major: Option<u32>,
) -> Result<Binaries, LocalPostgresError> {
    let wanted = data_major.map_or_else(
        || format!("{MAJOR_MIN} or newer"),
        |major| format!("{major} (which made the data in this folder)"),
    );
    let fits = |major: u32| data_major.map_or(major >= MAJOR_MIN, |data_major| major == data_major);
    let judge = |dir: &Path| match inspect(dir, account) {
        Ok(major) if fits(major) => Ok(Binaries { major, dir: dir.to_owned() }),
        Ok(major) => Err(format!("version {major}")),
        Err(reason) => Err(reason),
    };

    if let Some(bin) = &env.postgres_bin {
        // The server starts in another folder than ours, so a relative path would lead it astray.
        let real = fs::canonicalize(bin).map_err(LocalPostgresError::io("find IDEM_POSTGRES_BIN,", bin))?;
        return judge(&real).map_err(|reason| LocalPostgresError::Override { bin: bin.clone(), reason, wanted });
    }
    let mut best: Option<Binaries> = None;
    let mut refused = Vec::new();
    for dir in candidates(env) {
        match judge(&dir) {
            Ok(found) if best.as_ref().is_none_or(|best| found.major > best.major) => best = Some(found),
            Ok(_) => {}
            Err(reason) => refused.push(format!("{}: {reason}", dir.display())),
        }
    }
    let looked_at = || if refused.is_empty() { "nothing was there".to_owned() } else { refused.join("; ") };
    best.ok_or_else(|| LocalPostgresError::NoBinaries { wanted, looked_at: looked_at() })
}

/// Folders that hold an `initdb`, each once, in the order of preference among equal versions.
fn candidates(env: &Environment) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    let mut add = |dir: PathBuf| {
        if dir.join("initdb").exists() && !dirs.contains(&dir) {
            dirs.push(dir);
        }
    };
    if let Some(dir) = on_search_path(env, "pg_config").and_then(|pg_config| bindir(&pg_config)) {
        add(dir);
    }
    for (parent, prefix, rest) in PLACES {
        // A place that cannot be listed is a place without binaries: most machines lack most of them.
        let Ok(children) = fs::read_dir(parent) else { continue };
        let mut names: Vec<_> = children.take(CHILDREN_MAX).flatten().map(|child| child.file_name()).collect();
        names.sort();
        for name in names.iter().filter(|name| name.to_string_lossy().starts_with(prefix)) {
            add(Path::new(parent).join(name).join(rest));
        }
    }
    // A link on PATH leads to the real folder, where `postgres` stands beside it.
    if let Some(real) = on_search_path(env, "initdb").and_then(|initdb| fs::canonicalize(initdb).ok())
        && let Some(dir) = real.parent()
    {
        add(dir.to_owned());
    }
    dirs
}

fn on_search_path(env: &Environment, program: &str) -> Option<PathBuf> {
    let search_path = env.search_path.as_ref()?;
    std::env::split_paths(search_path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// What `pg_config --bindir` says; `None` when it says nothing usable.
fn bindir(pg_config: &Path) -> Option<PathBuf> {
    let output = Command::new(pg_config).arg("--bindir").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next().filter(|_| output.status.success())?;
    Some(PathBuf::from(line.trim()))
}

/// The major version of the server in `dir`, asked of the server itself as the account that will run it.
fn inspect(dir: &Path, account: Option<&Account>) -> Result<u32, String> {
    if !dir.join("initdb").is_file() {
        return Err("it has no initdb".to_owned());
    }
    let mut command = Command::new(dir.join("postgres"));
    command.arg("--version").stdin(Stdio::null()).current_dir("/");
    Account::apply(account, &mut command);
    let output = command.output().map_err(|error| {
        let user = account.map_or_else(String::new, |account| format!(" as user {}", account.name));
        format!("postgres cannot be run{user}: {error}")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    major_of(&text).ok_or_else(|| format!("`postgres --version` says {:?}", text.trim()))
}

/// The major version in `postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)`, also `18beta1`.
fn major_of(version: &str) -> Option<u32> {
    let (_, rest) = version.split_once("(PostgreSQL) ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{find, major_of};
    use crate::local_postgres::Environment;

    #[test]
    fn without_binaries_the_message_says_which_are_wanted_and_how_to_get_them() {
        let env = Environment { postgres_bin: None, search_path: None, temp_dir: "/tmp".into() };
        let text = find(&env, None, Some(99)).unwrap_err().to_string();
        let expected =
            ["server 99 (which made the data", "apt-get install", "dnf install", "brew install", "IDEM_POSTGRES_BIN"];
        for part in expected {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_major_version_is_read_from_every_spelling_of_the_version_line() {
        let rows = [
            ("postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)\n", Some(15)),
            ("postgres (PostgreSQL) 18beta1\n", Some(18)),
            ("postgres (PostgreSQL) 19devel", Some(19)),
            ("postgres (PostgreSQL) 9.6.24", Some(9)),
            ("postgres (EnterpriseDB) 15.1", None),
            ("", None),
        ];
        for (line, expected) in rows {
            assert_eq!(major_of(line), expected, "{line}");
        }
    }
}
