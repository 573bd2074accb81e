//! How a session is opened: settings that every one of them has, and what a refusal means.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgDatabaseError};
use sqlx::{ConnectOptions, Connection};

use crate::config::Secret;

use super::StoreError;

/// How long a session may take to open.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a closing session may take to say goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// What every session starts with. The keepalives make the server notice a machine that went away, so that its locks
/// do not outlive it by hours.
const SETTINGS: [(&str, &str); 10] = [
    // Nobody's object can be found in place of ours.
    ("search_path", ""),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "60s"),
    // Rather give up than queue in front of the application.
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "5min"),
    ("default_transaction_isolation", "read committed"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "30000"),
];

/// Reads the address and adds our settings.
pub(super) fn options(url: &Secret) -> Result<PgConnectOptions, StoreError> {
    // The driver reads any scheme as its own.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.expose().starts_with(scheme)) {
        return Err(StoreError::Address { reason: "it does not begin with postgres://".to_owned() });
    }
    let options: PgConnectOptions =
        url.expose().parse().map_err(|error: sqlx::Error| StoreError::Address { reason: address_reason(&error) })?;
    Ok(options
        .application_name("idem-jobs")
        // A setting that poolers refuse and that we, without floats, do not need.
        .extra_float_digits(None)
        .options(SETTINGS)
        .disable_statement_logging())
}

/// What is wrong with an address, without the address: it may hold the password.
fn address_reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Configuration(inner) => inner.to_string(),
        _ => "not readable".to_owned(),
    }
}

/// Opens one session, or says which of the known reasons stands against it.
pub(super) async fn open(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    match tokio::time::timeout(CONNECT_TIMEOUT, options.connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(refusal(options, &error)),
        Err(_) => Err(StoreError::Unreachable {
            place: place(options),
            reason: format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        }),
    }
}

/// Ends a session in good order. The server ends it anyway when the socket closes, so a failure means nothing.
pub(super) async fn close(connection: PgConnection) {
    if let Ok(Err(error)) = tokio::time::timeout(CLOSE_TIMEOUT, connection.close()).await {
        tracing::debug!(%error, "a session did not end in good order");
    }
}

/// Host and port, or the socket, for people.
fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(folder) => format!("{} (socket, port {})", folder.display(), options.get_port()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

fn refusal(options: &PgConnectOptions, error: &sqlx::Error) -> StoreError {
    let place = place(options);
    let sqlx::Error::Database(database) = error else {
        let reason = match error {
            sqlx::Error::Io(error) => error.to_string(),
            sqlx::Error::Tls(error) => format!("TLS: {error}"),
            other => other.to_string(),
        };
        return StoreError::Unreachable { place, reason };
    };
    let message = database.message().to_owned();
    let sqlstate = database.code().unwrap_or_default().into_owned();
    match sqlstate.as_str() {
        // invalid_authorization_specification, invalid_password, insufficient_privilege (no CONNECT)
        "28000" | "28P01" | "42501" => {
            StoreError::Auth { place, user: options.get_username().to_owned(), message, sqlstate }
        }
        // invalid_catalog_name
        "3D000" => StoreError::NoDatabase { place, database: options.get_database().unwrap_or_default().to_owned() },
        // protocol_violation: PgBouncer's word for a start-up parameter that it does not pass on.
        "08P01" if message.contains("startup parameter") => StoreError::Pooler { reason: message },
        _ => {
            let hint = database.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::hint);
            let hint = hint.map_or_else(String::new, |hint| format!("; hint: {hint}"));
            StoreError::Unreachable { place, reason: format!("{message} (SQLSTATE {sqlstate}{hint})") }
        }
    }
}
