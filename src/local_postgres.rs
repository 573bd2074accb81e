//! The private PostgreSQL that serves when no database is configured: `demo`, the tests, `--local-postgres DIR`.
//!
//! It runs the server binaries that the machine already has, in a folder of ours, on a unix socket only, and ends with
//! us: by [`LocalPostgres::stop`], on drop, or within moments of our being killed. Nothing here downloads anything,
//! reads the environment (the caller passes [`Environment`]), listens on a network or contains SQL.
//!
//! `binaries` finds the server, `account` decides whom it runs as, `folder` claims and sweeps folders, `child` starts a
//! process that cannot outlive us, `server` makes a data folder and brings it up, `stale` ends what a crash left.
//!
//! Everything blocks: from async code call `start` and `stop` through `spawn_blocking`.

mod account;
mod binaries;
mod child;
mod error;
mod folder;
mod server;
mod stale;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sqlx::migrate::MigrateDatabase as _;

use account::Account;
use folder::Folder;
use server::{PORT, Server};

pub use error::LocalPostgresError;

/// The superuser of a private server. Authentication is by access to the socket's folder, which is its owner's alone.
const SUPERUSER: &str = "postgres";

/// What the private server takes from the environment of the process.
#[derive(Clone, Debug)]
pub struct Environment {
    /// `IDEM_POSTGRES_BIN`: the folder that holds `initdb` and `postgres`; when given, no other is looked at.
    pub postgres_bin: Option<PathBuf>,
    /// `PATH`, in which `pg_config` and `initdb` are looked for.
    pub search_path: Option<OsString>,
    /// The folder for temporary files, `std::env::temp_dir()`.
    pub temp_dir: PathBuf,
}

/// What must survive a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    /// A folder that the user named: every commit.
    Crash,
    /// A temporary folder: nothing, so nothing waits for the disk.
    Nothing,
}

/// A running private server. Dropping it stops it; [`LocalPostgres::stop`] does the same and says what went wrong.
#[derive(Debug)]
pub struct LocalPostgres {
    /// `None` once stopped.
    server: Option<Server>,
    folder: Folder,
    major: u32,
}

impl LocalPostgres {
    /// Starts the server whose data lives in `dir`, which is made when it is missing; recovers what a crash left there.
    ///
    /// `dir` becomes the server's own: mode 0700 and, when root starts it, property of `postgres` or `nobody`. A folder
    /// that is neither empty nor marked as ours is refused, and so is one that another run uses. The data survive.
    pub fn start(dir: &Path, env: &Environment) -> Result<Self, LocalPostgresError> {
        let folder = Folder::claim(dir)?;
        Self::start_in(folder, env, Durability::Crash)
    }

    /// Starts a server in a fresh temporary folder that is removed when it stops, also when we are killed.
    ///
    /// Folders that earlier runs had to leave behind are removed first. Such a server waits for no disk: a power cut
    /// loses it.
    pub fn start_temporary(env: &Environment) -> Result<Self, LocalPostgresError> {
        folder::sweep(&env.temp_dir, Account::for_new_folder()?.as_ref());
        let folder = Folder::claim_temporary(&env.temp_dir)?;
        Self::start_in(folder, env, Durability::Nothing)
    }

    fn start_in(folder: Folder, env: &Environment, durability: Durability) -> Result<Self, LocalPostgresError> {
        match Self::bring_up(&folder, env, durability) {
            Ok((server, major)) => Ok(Self { server: Some(server), folder, major }),
            Err(error) => {
                folder.leave_or_warn();
                Err(error)
            }
        }
    }

    fn bring_up(
        folder: &Folder,
        env: &Environment,
        durability: Durability,
    ) -> Result<(Server, u32), LocalPostgresError> {
        let account = folder.account()?;
        folder.hand_over_to(account.as_ref())?;
        let binaries = binaries::find(env, account.as_ref(), folder.data_major()?)?;
        let server = Server::start(folder, &binaries, account.as_ref(), durability)?;
        Ok((server, binaries.major))
    }

    /// The connection string of a database of this server, for sqlx and psql alike.
    pub fn url(&self, database: &str) -> String {
        let socket_dir = self.folder.socket_dir();
        format!(
            "postgres://{SUPERUSER}@localhost:{PORT}/{}?host={}&sslmode=disable",
            percent_encoded(database.as_bytes()),
            percent_encoded(socket_dir.as_os_str().as_encoded_bytes()),
        )
    }

    /// Creates the database unless it is there, and returns its connection string.
    pub async fn create_database(&self, database: &str) -> Result<String, LocalPostgresError> {
        let url = self.url(database);
        let failed = |source| LocalPostgresError::CreateDatabase { database: database.to_owned(), source };
        if !sqlx::Postgres::database_exists(&url).await.map_err(failed)? {
            sqlx::Postgres::create_database(&url).await.map_err(failed)?;
        }
        Ok(url)
    }

    /// The server's major version, 14 or newer.
    pub const fn major(&self) -> u32 {
        self.major
    }

    /// The folder that holds the data and `server.log`.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Stops the server, waits until it has gone, and removes a temporary folder.
    pub fn stop(mut self) -> Result<(), LocalPostgresError> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), LocalPostgresError> {
        let Some(server) = self.server.take() else { return Ok(()) };
        server.stop(self.folder.path())?;
        self.folder.leave()
    }
}

impl Drop for LocalPostgres {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            tracing::warn!(%error, dir = %self.folder.path().display(), "the private PostgreSQL did not stop cleanly");
        }
    }
}

/// Percent-encodes everything but unreserved characters (RFC 3986).
fn percent_encoded(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::percent_encoded;

    #[test]
    fn a_path_in_a_connection_string_keeps_nothing_that_a_parser_could_take_for_syntax() {
        assert_eq!(percent_encoded("/tmp/a b?c&d=é%".as_bytes()), "%2Ftmp%2Fa%20b%3Fc%26d%3D%C3%A9%25");
    }
}
