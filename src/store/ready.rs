//! Whether the server can be used for the jobs.

use sqlx::Connection;
use sqlx::Row;
use sqlx::postgres::PgConnection;

use super::{Store, StoreError, migrate, session};

/// The oldest server that we support, as `server_version_num`.
const SERVER_VERSION_MIN: i32 = 140_000;

impl Store {
    /// Checks that the server is ours to use: 14 or newer, primary, writable, no transaction pooler between,
    /// schema at exactly the version that we know.
    pub async fn require_ready(&self) -> Result<(), StoreError> {
        let mut connection = session::open(&self.options).await?;
        let checked = self.check(&mut connection).await;
        session::close(connection).await;
        checked
    }

    async fn check(&self, connection: &mut PgConnection) -> Result<(), StoreError> {
        check_server(connection).await?;
        self.check_pooler(connection).await?;
        migrate::check_schema(connection).await
    }

    /// A pooler that lends a server session for one transaction gives our idle session away as soon as another client
    /// asks for one. So another client asks, keeps it, and we look whether ours is still the same.
    async fn check_pooler(&self, ours: &mut PgConnection) -> Result<(), StoreError> {
        let what = "looking for a connection pooler";
        let failed = |error: sqlx::Error| StoreError::query(what, &error);
        let before = mark(ours).await.map_err(failed)?;
        let mut other = session::open(&self.options).await?;
        let mut taken = other.begin().await.map_err(failed)?;
        let theirs = seen(&mut taken).await.map_err(failed)?;
        let after = seen(ours).await.map_err(failed)?;
        taken.rollback().await.map_err(failed)?;
        session::close(other).await;
        if theirs.0 == before {
            return Err(StoreError::Pooler { reason: "two of our sessions share one server process".to_owned() });
        }
        if after != (before, Some("set".to_owned())) {
            return Err(StoreError::Pooler { reason: "our session's server process or settings changed".to_owned() });
        }
        Ok(())
    }
}

async fn check_server(connection: &mut PgConnection) -> Result<(), StoreError> {
    let row = sqlx::query(
        "/* store::check_server */
         SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
                current_setting('default_transaction_read_only')::bool",
    )
    .fetch_one(connection)
    .await
    .map_err(|error| StoreError::query("reading the server's state", &error))?;
    let (number, version): (i32, String) = (row.get(0), row.get(1));
    if number < SERVER_VERSION_MIN {
        return Err(StoreError::ServerTooOld { found: version });
    }
    if row.get(2) {
        return Err(StoreError::NotPrimary);
    }
    if row.get(3) {
        return Err(StoreError::ReadOnly);
    }
    Ok(())
}

/// Leaves a mark in the session and tells its server process.
async fn mark(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    let row =
        sqlx::query("/* store::mark */ SELECT pg_backend_pid(), set_config('idem_jobs.pooler_probe', 'set', false)")
            .persistent(false)
            .fetch_one(connection)
            .await?;
    Ok(row.get(0))
}

/// The session's server process, and the mark if it is there.
async fn seen(connection: &mut PgConnection) -> Result<(i32, Option<String>), sqlx::Error> {
    let row = sqlx::query("/* store::seen */ SELECT pg_backend_pid(), current_setting('idem_jobs.pooler_probe', true)")
        .persistent(false)
        .fetch_one(connection)
        .await?;
    Ok((row.get(0), row.get(1)))
}
