//! What can go wrong with the private server, each with what the operator can do about it.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// Why the private server did not start or stop.
#[derive(Debug, thiserror::Error)]
pub enum LocalPostgresError {
    /// No usable server binaries on this machine.
    #[error(
        "no PostgreSQL server {wanted} found on this machine ({looked_at}); \
         install it (Debian, Ubuntu: `apt-get install postgresql`; Fedora: `dnf install postgresql-server`; \
         macOS: `brew install postgresql@17`; elsewhere: the package that holds `initdb` and `postgres`), \
         or set IDEM_POSTGRES_BIN to the folder that holds `initdb` and `postgres`, \
         or configure a database instead (DATABASE_URL)"
    )]
    NoBinaries {
        /// Which versions would do.
        wanted: String,
        /// What was there instead.
        looked_at: String,
    },
    /// `IDEM_POSTGRES_BIN` names a folder that does not do.
    #[error("IDEM_POSTGRES_BIN={} cannot be used: {reason}; it must be the folder that holds `initdb` and `postgres`, version {wanted}", bin.display())]
    Override {
        /// The folder as given.
        bin: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// Which versions would do.
        wanted: String,
    },
    /// Root started us and there is nobody to run the server as.
    #[error(
        "PostgreSQL refuses to run as root, and this machine has neither a user `postgres` nor `nobody`; \
         create one of them or start as an ordinary user"
    )]
    NoAccount,
    /// The server's user cannot get to the folder.
    #[error("user {user} cannot enter {}, so PostgreSQL cannot use {} as that user; choose a folder outside of it, for example below /var/tmp", closed.display(), dir.display())]
    Unreachable {
        /// The folder of the server.
        dir: PathBuf,
        /// The folder above it that is closed.
        closed: PathBuf,
        /// Whom the server would run as.
        user: String,
    },
    /// The folder holds something of somebody else.
    #[error("{} is neither empty nor a folder of a private PostgreSQL, so nothing was touched; choose an empty or a new folder", dir.display())]
    NotOurs {
        /// The folder.
        dir: PathBuf,
    },
    /// Another run holds the folder.
    #[error("{} is in use by another run; wait until it has ended or choose another folder", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// A server that a crash left behind does not end.
    #[error("the PostgreSQL server {pid} that an earlier run left in {} does not stop; end it with `kill -QUIT {pid}`", dir.display())]
    StillRunning {
        /// Its process id.
        pid: i32,
        /// Its data folder.
        dir: PathBuf,
    },
    /// `initdb` failed.
    #[error("initdb could not make a data folder in {}: {log}", dir.display())]
    Init {
        /// The folder.
        dir: PathBuf,
        /// The end of its output.
        log: String,
    },
    /// The server ended before it was ready.
    #[error("the PostgreSQL server in {} ended before it was ready: {log}", dir.display())]
    Start {
        /// The folder.
        dir: PathBuf,
        /// The end of its log.
        log: String,
    },
    /// A step took too long.
    #[error("{doing} in {} took more than {limit_s} s and was stopped; see server.log there", dir.display())]
    Timeout {
        /// The step.
        doing: &'static str,
        /// The folder.
        dir: PathBuf,
        /// Its limit in seconds.
        limit_s: u64,
    },
    /// A database could not be created.
    #[error("could not create the database {database:?} on the private server: {source}")]
    CreateDatabase {
        /// Its name.
        database: String,
        /// Why.
        source: sqlx::Error,
    },
    /// The operating system refused.
    #[error("could not {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file, folder or program.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl LocalPostgresError {
    /// For `map_err`: what was tried, and with what.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    /// As [`Self::io`], for calls of nix.
    pub(super) fn errno(doing: &'static str, path: &Path) -> impl FnOnce(Errno) -> Self {
        let wrap = Self::io(doing, path);
        move |errno| wrap(errno.into())
    }
}
