//! What can go wrong between us and the database, one variant for each thing that an operator would do about it.
//!
//! Never here: the password, and the "at line N" of the driver's display, which is a line of the server's own source.

use std::fmt;

use sqlx::postgres::PgDatabaseError;

/// What the server said when it refused a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was tried.
    pub what: String,
    /// The server's code.
    pub sqlstate: String,
    /// Its sentence.
    pub message: String,
    /// The constraint that was violated, if one was.
    pub constraint: Option<String>,
    /// Its second sentence, if it gave one.
    pub detail: Option<String>,
    /// Its advice, if it gave one.
    pub hint: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (SQLSTATE {}", self.what, self.message, self.sqlstate)?;
        for (name, text) in [("constraint", &self.constraint), ("detail", &self.detail), ("hint", &self.hint)] {
            if let Some(text) = text {
                write!(f, "; {name}: {text}")?;
            }
        }
        f.write_str(")")
    }
}

/// A failure of the store. Each message says what was tried, what the server said and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The connection string cannot be read.
    #[error("the database address is not a connection string: {reason} (expected postgres://user@host:5432/database)")]
    Address {
        /// What the parser said.
        reason: String,
    },
    /// Nobody answers there, or the conversation cannot be started.
    #[error("cannot reach the database at {place}: {reason}")]
    Unreachable {
        /// Host and port, or socket folder.
        place: String,
        /// What the operating system or the driver said.
        reason: String,
    },
    /// The server answered and refused the credentials.
    #[error("the database at {place} refused user \"{user}\": {message} (SQLSTATE {sqlstate})")]
    Auth {
        /// Host and port, or socket folder.
        place: String,
        /// User that we came as.
        user: String,
        /// The server's sentence.
        message: String,
        /// Its code.
        sqlstate: String,
    },
    /// The server answered and has no such database.
    #[error("the server at {place} has no database \"{database}\"")]
    NoDatabase {
        /// Host and port, or socket folder.
        place: String,
        /// Name that we asked for.
        database: String,
    },
    /// The server is older than what we support.
    #[error("the server is PostgreSQL {found}; 14 or newer is needed")]
    ServerTooOld {
        /// Version as the server prints it.
        found: String,
    },
    /// The schema `idem` has never been created here.
    #[error("the schema \"idem\" does not exist in this database: run `idem-jobs migrate`")]
    SchemaMissing,
    /// The schema is there, and some of our migrations are not applied.
    #[error("the schema \"idem\" is at version {found}, this program needs {needed}: run `idem-jobs migrate`")]
    SchemaOld {
        /// Highest version applied; 0 for none.
        found: i64,
        /// Highest version that we know.
        needed: i64,
    },
    /// A newer program has migrated this database, or a migration was changed after it was applied.
    #[error("the schema \"idem\" is not one that this program knows: {reason}")]
    SchemaUnknown {
        /// Which version, and how it differs.
        reason: String,
    },
    /// The server is a replica.
    #[error("the server is a standby in recovery; the jobs write and need the primary")]
    NotPrimary,
    /// Sessions are not ours alone.
    #[error("a connection pooler stands between us and the server: {reason}; the jobs need a direct connection")]
    Pooler {
        /// How it was noticed.
        reason: String,
    },
    /// Writing is switched off for this role, database or server.
    #[error("the database takes no writes from us: default_transaction_read_only is on, or it has become a standby")]
    ReadOnly,
    /// Another session holds what we need, longer than we wait.
    #[error("{what}: another session holds a lock that we need ({message}, SQLSTATE {sqlstate}); try again later")]
    Contended {
        /// What was tried.
        what: String,
        /// The server's sentence.
        message: String,
        /// Its code.
        sqlstate: String,
    },
    /// The server refused a statement.
    #[error("{0}")]
    Query(Box<Refusal>),
    /// The connection broke in the middle; what was not committed is gone.
    #[error("{what}: the connection to the database was lost: {reason}")]
    Lost {
        /// What was tried.
        what: String,
        /// What the driver said.
        reason: String,
    },
    /// The configured table or query of the local charges cannot be used.
    #[error("the local charges cannot be read: {reason}")]
    LocalSource {
        /// What is wrong and what was expected.
        reason: String,
    },
    /// One local charge cannot be used, and leaving it out would falsify the comparison.
    #[error("local charge \"{charge_id}\": column {column}: {reason}")]
    LocalRow {
        /// Its id; empty when that is what is missing.
        charge_id: String,
        /// Column as in `idem.charges`.
        column: &'static str,
        /// What stands there and what was expected.
        reason: String,
    },
    /// What we wanted to write breaks one of our own rules, or what we read back does.
    #[error("{what}: {reason}")]
    Corrupt {
        /// Which of our records.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// Turns the driver's error of a statement into ours.
    pub(super) fn query(what: impl Into<String>, error: &sqlx::Error) -> Self {
        let what = what.into();
        match error {
            sqlx::Error::Database(database) => match database.try_downcast_ref::<PgDatabaseError>() {
                Some(error) => Self::from_server(what, error),
                None => Self::Lost { what, reason: database.message().to_owned() },
            },
            sqlx::Error::Io(error) => Self::Lost { what, reason: error.to_string() },
            sqlx::Error::PoolTimedOut => Self::Lost { what, reason: "no connection could be had in time".to_owned() },
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound => {
                Self::Corrupt { what, reason: error.to_string() }
            }
            other => Self::Lost { what, reason: other.to_string() },
        }
    }

    fn from_server(what: String, error: &PgDatabaseError) -> Self {
        let (sqlstate, message) = (error.code().to_owned(), error.message().to_owned());
        match error.code() {
            // lock_not_available
            "55P03" => return Self::Contended { what, message, sqlstate },
            // read_only_sql_transaction: the server was demoted under us.
            "25006" => return Self::ReadOnly,
            // duplicate_prepared_statement, invalid_sql_statement_name: statements that we prepared, or did not, in a
            // server session that somebody else was given meanwhile.
            "42P05" | "26000" => return Self::Pooler { reason: format!("{message} (SQLSTATE {sqlstate})") },
            // admin_shutdown, crash_shutdown, idle_in_transaction_session_timeout
            "57P01" | "57P02" | "25P03" => {
                return Self::Lost { what, reason: format!("{message} (SQLSTATE {sqlstate})") };
            }
            _ => {}
        }
        let own = |text: Option<&str>| text.map(str::to_owned);
        let (constraint, detail, hint) = (own(error.constraint()), own(error.detail()), own(error.hint()));
        Self::Query(Box::new(Refusal { what, sqlstate, message, constraint, detail, hint }))
    }

    /// SQLSTATE, where a server gave one.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Query(refusal) => Some(&refusal.sqlstate),
            Self::Contended { sqlstate, .. } | Self::Auth { sqlstate, .. } => Some(sqlstate),
            _ => None,
        }
    }
}
