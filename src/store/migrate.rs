//! Applies `migrations/`, forward only, beside a live application.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::postgres::PgConnection;

use super::lock::LockKey;
use super::{Store, StoreError, lock, session};

/// The migrations that this program knows.
pub static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| sqlx::migrate!());

/// Where the database keeps which of them it has.
const TABLE: &str = "idem.schema_migrations";

/// How long to wait for another process that migrates.
const LOCK_WAIT: Duration = Duration::from_mins(1);

/// One migration, and whether it stands in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationStep {
    /// Number at the front of its file's name.
    pub version: i64,
    /// The words of its file's name.
    pub description: String,
    /// Whether it was there before this call.
    pub was_applied: bool,
}

impl Store {
    /// Applies what is pending, each migration in its own transaction, and returns every migration that we know.
    /// With `dry_run` nothing is written.
    ///
    /// Waits a minute for another process that migrates, and five seconds for each lock on a table; then it gives up
    /// with [`StoreError::Contended`], and what was applied so far stays.
    pub async fn migrate(&self, dry_run: bool) -> Result<Vec<MigrationStep>, StoreError> {
        let mut connection = session::open(&self.options).await?;
        let steps = migrate_on(&mut connection, dry_run).await;
        // Ends the session and with it the lock, whatever happened.
        session::close(connection).await;
        steps
    }
}

async fn migrate_on(connection: &mut PgConnection, dry_run: bool) -> Result<Vec<MigrationStep>, StoreError> {
    if !dry_run && !lock::poll(connection, LockKey::migrate(), LOCK_WAIT).await? {
        return Err(StoreError::Contended {
            what: "migrating".to_owned(),
            message: "another process is migrating this database".to_owned(),
            sqlstate: "55P03".to_owned(),
        });
    }
    let applied = applied(connection).await?;
    if let Some(applied) = &applied {
        check_known(applied)?;
    }
    let steps: Vec<MigrationStep> = MIGRATOR
        .iter()
        .map(|migration| MigrationStep {
            version: migration.version,
            description: migration.description.to_string(),
            was_applied: applied.as_ref().is_some_and(|applied| applied.contains_key(&migration.version)),
        })
        .collect();
    if dry_run || steps.iter().all(|step| step.was_applied) {
        return Ok(steps);
    }
    if applied.is_none() {
        create_list(connection).await?;
    }
    for (migration, step) in MIGRATOR.iter().zip(&steps) {
        if !step.was_applied {
            let what = format!("applying migration {} \"{}\"", migration.version, migration.description);
            connection.apply(TABLE, migration).await.map_err(|error| failed(&what, &error))?;
            tracing::info!(version = migration.version, description = %migration.description, "migration applied");
        }
    }
    Ok(steps)
}

/// Version and checksum of what the database has; `None` where nothing was ever migrated.
async fn applied(connection: &mut PgConnection) -> Result<Option<BTreeMap<i64, Vec<u8>>>, StoreError> {
    let what = "reading the schema's version";
    let exists: bool =
        sqlx::query_scalar("/* store::schema_exists */ SELECT to_regclass('idem.schema_migrations') IS NOT NULL")
            .fetch_one(&mut *connection)
            .await
            .map_err(|error| StoreError::query(what, &error))?;
    if !exists {
        return Ok(None);
    }
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(
        "/* store::schema_versions */ SELECT version, checksum FROM idem.schema_migrations WHERE success",
    )
    .fetch_all(connection)
    .await
    .map_err(|error| StoreError::query(what, &error))?;
    Ok(Some(rows.into_iter().collect()))
}

/// Refuses a database that has a step which we do not have, or have with another text.
fn check_known(applied: &BTreeMap<i64, Vec<u8>>) -> Result<(), StoreError> {
    for (version, checksum) in applied {
        match MIGRATOR.iter().find(|migration| migration.version == *version) {
            None => {
                return Err(StoreError::SchemaUnknown {
                    reason: format!(
                        "it has migration {version}, this program knows up to {}: use a newer program",
                        version_known()
                    ),
                });
            }
            Some(migration) if *migration.checksum != **checksum => {
                return Err(StoreError::SchemaUnknown {
                    reason: format!("migration {version} differs from the one that was applied"),
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn version_known() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Requires that the database has exactly our migrations.
pub(super) async fn check_schema(connection: &mut PgConnection) -> Result<(), StoreError> {
    let Some(applied) = applied(connection).await? else {
        return Err(StoreError::SchemaMissing);
    };
    check_known(&applied)?;
    let needed = version_known();
    match applied.last_key_value() {
        None => Err(StoreError::SchemaMissing),
        Some((found, _)) if applied.len() < MIGRATOR.iter().count() => {
            Err(StoreError::SchemaOld { found: *found, needed })
        }
        Some(_) => Ok(()),
    }
}

/// The schema and the list of migrations in it. Both in one transaction: half of it would look like a foreign schema.
async fn create_list(connection: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::raw_sql(
        "/* store::create_list */
         DO $$ BEGIN
             IF to_regnamespace('idem') IS NULL THEN
                 CREATE SCHEMA idem;
             END IF;
             CREATE TABLE idem.schema_migrations (
                 version        bigint      PRIMARY KEY,
                 description    text        NOT NULL,
                 installed_on   timestamptz NOT NULL DEFAULT now(),
                 success        boolean     NOT NULL,
                 checksum       bytea       NOT NULL,
                 execution_time bigint      NOT NULL
             );
         END $$",
    )
    .execute(connection)
    .await
    .map_err(|error| StoreError::query("creating the schema \"idem\"", &error))?;
    Ok(())
}

fn failed(what: &str, error: &MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => StoreError::query(what, error),
        other => StoreError::Corrupt { what: what.to_owned(), reason: other.to_string() },
    }
}
