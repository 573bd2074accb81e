//! Reconciliation runs: written whole or not at all, found again by what they compared.
//!
//! Never here: what a break is, and how it stands against earlier runs (`findings`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::{PgConnection, PgRow, Postgres};
use sqlx::{Row, Transaction};

use crate::domain::mismatch::{Kind, Mismatch, Standing};
use crate::domain::run::{KindCount, Reconciliation, RunHead};

use super::findings::{self, Finding};
use super::lock::LockKey;
use super::outbox::{self, OutboxMessage};
use super::{Store, StoreError, chain, storable};

/// Budgets of the transaction that writes a run: one that waits behind another's, and one large statement.
const COMMIT_LOCK_TIMEOUT: &str = "60s";
const COMMIT_STATEMENT_TIMEOUT: &str = "5min";

/// A run as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// What was found, with the states and the counts of new findings that the database gave it.
    pub reconciliation: Reconciliation,
    /// SHA-256, hex, over the heads of the event chains of this run's mismatches.
    pub chain_heads: String,
}

/// Either the run is there already, or it is written but not yet committed.
#[derive(Debug)]
pub enum Begun {
    /// The same identity was reconciled before (perhaps a moment ago by another process): nothing was written.
    Already(Box<StoredRun>),
    /// Everything but the mail is written; dropping it leaves nothing.
    New(RunTx),
}

/// A run in its transaction.
#[derive(Debug)]
pub struct RunTx {
    transaction: Transaction<'static, Postgres>,
    stored: Box<StoredRun>,
}

impl RunTx {
    /// The run as it will stand: what the mail and the reports are rendered from.
    pub fn stored(&self) -> &StoredRun {
        &self.stored
    }

    /// Adds the mail, if there is one, and commits run, mismatches, events and mail together.
    ///
    /// After [`StoreError::Lost`] nobody knows whether it was committed: begin again, and [`Begun`] tells.
    pub async fn commit(mut self, outbox: Option<&OutboxMessage>) -> Result<StoredRun, StoreError> {
        if let Some(message) = outbox {
            outbox::insert(&mut self.transaction, message).await?;
        }
        let what = format!("committing run {}", self.stored.reconciliation.run.id);
        self.transaction.commit().await.map_err(|error| StoreError::query(what, &error))?;
        Ok(*self.stored)
    }
}

/// What [`Store::commit`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Whether this call wrote the run; `false` when it was there.
    pub is_new: bool,
    /// The run as the database has it.
    pub run: StoredRun,
}

impl Store {
    /// The run that compared exactly this, if there is one; the last, if it was repeated.
    pub async fn find_by_identity(&self, identity: &str) -> Result<Option<StoredRun>, StoreError> {
        let failed = |error: sqlx::Error| StoreError::query("looking for an earlier run", &error);
        let mut connection = self.pool.acquire().await.map_err(failed)?;
        load(&mut connection, identity).await
    }

    /// Writes a run up to the mail, whose text needs to know what was new. See [`Begun`].
    ///
    /// Commits of one provider and account follow each other; a second one waits up to a minute.
    pub async fn begin_commit(&self, found: &Reconciliation) -> Result<Begun, StoreError> {
        let head = &found.run;
        let mut transaction = self.begin_writing(head).await?;
        if let Some(stored) = load(&mut transaction, &head.identity).await? {
            return Ok(Begun::Already(Box::new(stored)));
        }
        let at = decided_at(head);
        let findings = findings::judge(&mut transaction, head, at, &found.mismatches).await?;
        let heads = chain::over_heads(findings.iter().map(|finding| finding.head));
        let stored = StoredRun { reconciliation: as_stored(found, &findings), chain_heads: chain::hex(&heads) };
        insert_run(&mut transaction, &stored.reconciliation, &heads).await?;
        insert_reports(&mut transaction, head).await?;
        findings::write(&mut transaction, head, at, &found.mismatches, &findings).await?;
        Ok(Begun::New(RunTx { transaction, stored: Box::new(stored) }))
    }

    /// [`Store::begin_commit`] and [`RunTx::commit`] in one, for a message that is known beforehand.
    pub async fn commit(
        &self,
        found: &Reconciliation,
        outbox: Option<&OutboxMessage>,
    ) -> Result<Committed, StoreError> {
        match self.begin_commit(found).await? {
            Begun::Already(run) => Ok(Committed { is_new: false, run: *run }),
            Begun::New(run) => Ok(Committed { is_new: true, run: run.commit(outbox).await? }),
        }
    }

    /// Records that a report was refused, once for each identity, with its mail. No run result, no mismatch.
    /// Returns whether this call wrote it.
    pub async fn commit_refused(
        &self,
        head: &RunHead,
        reason: &str,
        outbox: Option<&OutboxMessage>,
    ) -> Result<bool, StoreError> {
        let failed = |error: sqlx::Error| StoreError::query(format!("writing refused run {}", head.id), &error);
        let mut transaction = self.begin_writing(head).await?;
        let done = sqlx::query(
            "/* store::insert_refused_run */
             INSERT INTO idem.reconciliation_runs
                    (run_id, state, identity, provider, account, schema_name, head, window_from, window_to, started_at,
                     duration_ms, refusal)
             VALUES ($1, 'refused', $2, $3, $4, $5, $6::json, $7, $8, $9, $10, $11)
                 ON CONFLICT (identity, state, attempt) DO NOTHING",
        )
        .bind(&head.id)
        .bind(&head.identity)
        .bind(&head.provider)
        .bind(&head.account)
        .bind(crate::domain::run::SCHEMA)
        .bind(json(head))
        .bind(head.window_from)
        .bind(head.window_to)
        .bind(head.started_at)
        .bind(milliseconds(head))
        .bind(storable(reason))
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        insert_reports(&mut transaction, head).await?;
        if let Some(message) = outbox {
            outbox::insert(&mut transaction, message).await?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(true)
    }

    /// A transaction in which this provider and account are ours to write. READ COMMITTED is what makes the statements
    /// after the lock see what the last holder committed.
    async fn begin_writing(&self, head: &RunHead) -> Result<Transaction<'static, Postgres>, StoreError> {
        let failed = |error: sqlx::Error| StoreError::query(format!("beginning to write run {}", head.id), &error);
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        sqlx::query(
            "/* store::commit_limits */
             SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)",
        )
        .bind(COMMIT_LOCK_TIMEOUT)
        .bind(COMMIT_STATEMENT_TIMEOUT)
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
        sqlx::query("/* store::commit_lock */ SELECT pg_advisory_xact_lock($1)")
            .bind(LockKey::commit(&head.provider, &head.account).number())
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        Ok(transaction)
    }
}

/// The instant of a run's events: when it had decided, in the microseconds that the database keeps.
fn decided_at(head: &RunHead) -> DateTime<Utc> {
    let at = head.started_at + TimeDelta::milliseconds(milliseconds(head));
    at.duration_trunc(TimeDelta::microseconds(1)).unwrap_or(at)
}

fn milliseconds(head: &RunHead) -> i64 {
    i64::try_from(head.duration_ms).unwrap_or(i64::MAX).min(TimeDelta::days(365).num_milliseconds())
}

/// The run with the states and standings that its mismatches really have, and the number of new ones of each kind.
fn as_stored(found: &Reconciliation, findings: &[Finding]) -> Reconciliation {
    let mut stored = found.clone();
    let mut new: BTreeMap<Kind, u64> = BTreeMap::new();
    for (mismatch, finding) in stored.mismatches.iter_mut().zip(findings) {
        mismatch.state = finding.state;
        mismatch.seen = finding.standing;
        *new.entry(mismatch.kind).or_default() += u64::from(finding.standing == Standing::New);
    }
    for (kind, count) in &mut stored.counts {
        // Kinds that are only counted have no rows that could have been seen before.
        if let Some(new) = new.get(kind) {
            count.new = *new;
        }
    }
    stored
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain fields always serialise")
}

async fn insert_run(
    connection: &mut PgConnection,
    run: &Reconciliation,
    heads: &chain::Hash,
) -> Result<(), StoreError> {
    let head = &run.run;
    sqlx::query(
        "/* store::insert_run */
         INSERT INTO idem.reconciliation_runs
                (run_id, state, identity, provider, account, schema_name, head, window_from, window_to, started_at,
                 duration_ms, control, money, non_charge, counts, refused_rows, notes, chain_heads)
         VALUES ($1, 'done', $2, $3, $4, $5, $6::json, $7, $8, $9, $10, $11::json, $12::json, $13::json, $14::json,
                 $15::json, $16::json, $17)",
    )
    .bind(&head.id)
    .bind(&head.identity)
    .bind(&head.provider)
    .bind(&head.account)
    .bind(&run.schema)
    .bind(json(head))
    .bind(head.window_from)
    .bind(head.window_to)
    .bind(head.started_at)
    .bind(milliseconds(head))
    .bind(json(&run.control))
    .bind(json(&run.money))
    .bind(json(&run.non_charge))
    .bind(json(&run.counts))
    .bind(json(&run.refused))
    .bind(json(&run.notes))
    .bind(heads.as_slice())
    .execute(connection)
    .await
    .map_err(|error| StoreError::query(format!("writing run {}", head.id), &error))?;
    Ok(())
}

async fn insert_reports(connection: &mut PgConnection, head: &RunHead) -> Result<(), StoreError> {
    let positions: Vec<i32> = (0..).take(head.files.len()).collect();
    let names: Vec<Cow<'_, str>> = head.files.iter().map(|file| storable(&file.name)).collect();
    let bytes: Vec<i64> = head.files.iter().map(|file| i64::try_from(file.bytes).unwrap_or(i64::MAX)).collect();
    let hashes: Vec<&str> = head.files.iter().map(|file| file.sha256.as_str()).collect();
    sqlx::query(
        "/* store::insert_reports */
         INSERT INTO idem.provider_reports
                (run_id, position, provider, account, format, file_name, bytes, sha256, period_from, period_to, read_at)
         SELECT $5, position, $6, $7, $8, file_name, bytes, sha256, $9, $10, $11
           FROM unnest($1::integer[], $2::text[], $3::bigint[], $4::text[]) AS new (position, file_name, bytes, sha256)",
    )
    .bind(positions)
    .bind(names)
    .bind(bytes)
    .bind(hashes)
    .bind(&head.id)
    .bind(&head.provider)
    .bind(&head.account)
    .bind(&head.format)
    .bind(head.window_from)
    .bind(head.window_to)
    .bind(head.started_at)
    .execute(connection)
    .await
    .map_err(|error| StoreError::query(format!("writing the files of run {}", head.id), &error))?;
    Ok(())
}

/// Reads back what was committed, to the digit.
async fn load(connection: &mut PgConnection, identity: &str) -> Result<Option<StoredRun>, StoreError> {
    let failed = |error: sqlx::Error| StoreError::query("reading an earlier run", &error);
    let row = sqlx::query(
        "/* store::load_run */
         SELECT run_id, schema_name, head::text, control::text, money::text, non_charge::text, counts::text,
                refused_rows::text, notes::text, chain_heads
           FROM idem.reconciliation_runs
          WHERE identity = $1 AND state = 'done'
          ORDER BY attempt DESC LIMIT 1",
    )
    .bind(identity)
    .fetch_optional(&mut *connection)
    .await
    .map_err(failed)?;
    let Some(row) = row else { return Ok(None) };
    let run_id: String = row.try_get("run_id").map_err(failed)?;
    let rows = sqlx::query(
        "/* store::load_run_mismatches */
         SELECT mismatch::text FROM idem.run_mismatches WHERE run_id = $1 ORDER BY position",
    )
    .bind(&run_id)
    .fetch_all(connection)
    .await
    .map_err(failed)?;
    let mismatches = rows.iter().map(|row| part::<Mismatch>(&run_id, row, "mismatch")).collect::<Result<_, _>>()?;
    let reconciliation = Reconciliation {
        schema: row.try_get("schema_name").map_err(failed)?,
        run: part(&run_id, &row, "head")?,
        control: part(&run_id, &row, "control")?,
        money: part(&run_id, &row, "money")?,
        non_charge: part(&run_id, &row, "non_charge")?,
        counts: part::<BTreeMap<Kind, KindCount>>(&run_id, &row, "counts")?,
        mismatches,
        refused: part(&run_id, &row, "refused_rows")?,
        notes: part(&run_id, &row, "notes")?,
    };
    let heads: chain::Hash = row.try_get("chain_heads").map_err(failed)?;
    Ok(Some(StoredRun { reconciliation, chain_heads: chain::hex(&heads) }))
}

fn part<T: DeserializeOwned>(run_id: &str, row: &PgRow, column: &str) -> Result<T, StoreError> {
    let what = || format!("reading {column} of run {run_id}");
    let text: &str = row.try_get(column).map_err(|error| StoreError::query(what(), &error))?;
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt { what: what(), reason: error.to_string() })
}
