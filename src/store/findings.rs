//! The mismatches of one run: how each stands against what is known, and the writing of all of them in bulk.
//!
//! Read, decide, apply; everything inside the transaction of the run. Never here: closing what was not seen again.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Row, types::Json};

use crate::domain::mismatch::{Mismatch, Severity, SideView, Standing, State};
use crate::domain::run::RunHead;

use super::chain::{Hash, Link, START};
use super::{StoreError, storable};

/// Rows of one bulk statement: a few megabytes.
const BATCH_ROWS_MAX: usize = 5_000;

/// Who a run's events are by.
const ACTOR: &str = "reconcile";

/// What makes a mismatch "changed", and what its events tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Facts {
    local_minor: Option<i64>,
    local_currency: Option<String>,
    local_status: Option<String>,
    provider_minor: Option<i64>,
    provider_currency: Option<String>,
    provider_status: Option<String>,
    at_risk_minor: i64,
    currency: Option<String>,
}

impl Facts {
    fn of(mismatch: &Mismatch) -> Self {
        let side = |side: &Option<SideView>| {
            let side = side.as_ref();
            (
                side.and_then(|s| s.amount_minor),
                side.and_then(|s| s.currency).map(|c| c.to_string()),
                side.and_then(|s| s.status.as_deref()).map(|status| storable(status).into_owned()),
            )
        };
        let (local_minor, local_currency, local_status) = side(&mismatch.local);
        let (provider_minor, provider_currency, provider_status) = side(&mismatch.provider);
        Self {
            local_minor,
            local_currency,
            local_status,
            provider_minor,
            provider_currency,
            provider_status,
            at_risk_minor: mismatch.at_risk_minor,
            currency: mismatch.currency.map(|c| c.to_string()),
        }
    }
}

/// A mismatch as earlier runs and people left it.
#[derive(Clone, Debug)]
struct Known {
    state: State,
    severity: Severity,
    facts: Facts,
    events: i32,
    head: Hash,
}

/// What becomes of one mismatch of the run.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// How it stands against earlier runs.
    pub(super) standing: Standing,
    /// Its state from now on.
    pub(super) state: State,
    /// End of its chain from now on.
    pub(super) head: Hash,
    facts: Facts,
    /// Events in its chain from now on.
    events: i32,
    event: Option<Event>,
}

#[derive(Clone, Debug)]
struct Event {
    name: &'static str,
    payload: String,
    prev: Hash,
}

#[derive(Serialize)]
struct Payload<'a> {
    before: Option<View<'a>>,
    after: View<'a>,
}

#[derive(Serialize)]
struct View<'a> {
    state: State,
    severity: Severity,
    #[serde(flatten)]
    facts: &'a Facts,
}

/// The rule: what is closed comes back, what differs has changed, what is worse was raised. A person's state (assigned,
/// explained, waiting for approval) survives a run that sees the same break again.
fn standing(known: Option<&Known>, mismatch: &Mismatch, facts: &Facts) -> (Standing, State) {
    let Some(known) = known else { return (Standing::New, mismatch.state) };
    let state = match known.state {
        State::Resolved | State::AutoResolved | State::Ignored => return (Standing::Reopened, mismatch.state),
        State::Pending | State::Open => mismatch.state,
        State::Assigned | State::Explained | State::PendingApproval => known.state,
    };
    let standing = if known.facts != *facts {
        Standing::Changed
    } else if mismatch.severity < known.severity {
        // Ordered worst first.
        Standing::Raised
    } else {
        Standing::StillOpen
    };
    (standing, state)
}

fn decide(head: &RunHead, at: DateTime<Utc>, known: Option<&Known>, mismatch: &Mismatch) -> Finding {
    let facts = Facts::of(mismatch);
    let (standing, state) = standing(known, mismatch, &facts);
    let (events, prev) = known.map_or((0, START), |known| (known.events, known.head));
    let name = match standing {
        Standing::New => "found",
        Standing::Changed => "changed",
        Standing::Raised => "raised",
        Standing::Reopened => "reopened",
        Standing::StillOpen => return Finding { standing, state, head: prev, facts, events, event: None },
    };
    let before = known.map(|known| View { state: known.state, severity: known.severity, facts: &known.facts });
    let after = View { state, severity: mismatch.severity, facts: &facts };
    let payload = serde_json::to_string(&Payload { before, after }).expect("plain fields always serialise");
    let link = Link {
        fingerprint: &mismatch.fingerprint,
        seq: events + 1,
        event: name,
        run_id: Some(&head.id),
        actor: ACTOR,
        at,
        payload: &payload,
    };
    let hash = link.hash(&prev);
    let event = Some(Event { name, payload, prev });
    Finding { standing, state, head: hash, facts, events: events + 1, event }
}

/// Reads what is known and decides for each mismatch, in the run's order. Writes nothing, but locks what it read.
pub(super) async fn judge(
    connection: &mut PgConnection,
    head: &RunHead,
    at: DateTime<Utc>,
    mismatches: &[Mismatch],
) -> Result<Vec<Finding>, StoreError> {
    let mut seen = HashSet::with_capacity(mismatches.len());
    if let Some(twice) = mismatches.iter().find(|mismatch| !seen.insert(mismatch.fingerprint.as_str())) {
        return Err(StoreError::Corrupt {
            what: format!("writing the mismatches of run {}", head.id),
            reason: format!("{} ({}) stands there twice", twice.id, twice.kind.as_str()),
        });
    }
    let known = known(connection, mismatches).await?;
    Ok(mismatches.iter().map(|mismatch| decide(head, at, known.get(&mismatch.fingerprint), mismatch)).collect())
}

async fn known(connection: &mut PgConnection, mismatches: &[Mismatch]) -> Result<HashMap<String, Known>, StoreError> {
    let failed = |error: sqlx::Error| StoreError::query("reading the known mismatches", &error);
    let mut known = HashMap::new();
    for batch in mismatches.chunks(BATCH_ROWS_MAX) {
        let fingerprints: Vec<&str> = batch.iter().map(|mismatch| mismatch.fingerprint.as_str()).collect();
        let rows = sqlx::query(
            "/* store::known_mismatches */
             SELECT fingerprint, state, severity, local_minor, local_currency, local_status, provider_minor,
                    provider_currency, provider_status, at_risk_minor, currency, events, head_hash
               FROM idem.mismatches WHERE fingerprint = ANY ($1)
              ORDER BY fingerprint FOR UPDATE",
        )
        .bind(&fingerprints)
        .fetch_all(&mut *connection)
        .await
        .map_err(failed)?;
        for row in rows {
            let (fingerprint, one) = read_known(&row).map_err(failed)?;
            known.insert(fingerprint, one);
        }
    }
    Ok(known)
}

fn read_known(row: &PgRow) -> Result<(String, Known), sqlx::Error> {
    let unknown = |word: &str| sqlx::Error::Decode(format!("unknown word {word:?}").into());
    let (state, severity): (&str, &str) = (row.try_get("state")?, row.try_get("severity")?);
    let known = Known {
        state: State::parse(state).ok_or_else(|| unknown(state))?,
        severity: parse_severity(severity).ok_or_else(|| unknown(severity))?,
        facts: Facts {
            local_minor: row.try_get("local_minor")?,
            local_currency: row.try_get("local_currency")?,
            local_status: row.try_get("local_status")?,
            provider_minor: row.try_get("provider_minor")?,
            provider_currency: row.try_get("provider_currency")?,
            provider_status: row.try_get("provider_status")?,
            at_risk_minor: row.try_get("at_risk_minor")?,
            currency: row.try_get("currency")?,
        },
        events: row.try_get("events")?,
        head: row.try_get("head_hash")?,
    };
    Ok((row.try_get("fingerprint")?, known))
}

fn parse_severity(word: &str) -> Option<Severity> {
    [Severity::Critical, Severity::High, Severity::Medium, Severity::Info].into_iter().find(|s| s.as_str() == word)
}

/// Writes the mismatches, their events and their place in the run.
pub(super) async fn write(
    connection: &mut PgConnection,
    head: &RunHead,
    at: DateTime<Utc>,
    mismatches: &[Mismatch],
    findings: &[Finding],
) -> Result<(), StoreError> {
    for (start, (batch, findings)) in
        (0..).step_by(BATCH_ROWS_MAX).zip(mismatches.chunks(BATCH_ROWS_MAX).zip(findings.chunks(BATCH_ROWS_MAX)))
    {
        let failed = |error: sqlx::Error| StoreError::query("writing the mismatches", &error);
        let numbers = upsert(connection, head, batch, findings).await.map_err(failed)?;
        insert_events(connection, head, at, &numbers, findings).await.map_err(failed)?;
        insert_places(connection, head, start, batch, &numbers, findings).await.map_err(failed)?;
    }
    Ok(())
}

/// A row of `idem.mismatches` on its way there, under the columns' names.
#[derive(Serialize)]
struct Projection<'a> {
    position: usize,
    fingerprint: &'a str,
    id: &'a str,
    kind: &'a str,
    severity: Severity,
    state: State,
    idempotency_key: Option<Cow<'a, str>>,
    merchant_reference: Option<Cow<'a, str>>,
    provider_ids: Vec<Cow<'a, str>>,
    local_charge_ids: Vec<Cow<'a, str>>,
    #[serde(flatten)]
    facts: &'a Facts,
    occurred_at: Option<DateTime<Utc>>,
    reopened: i32,
    events: i32,
    head_hash: String,
}

/// Inserts or updates, and returns each row's number in the order of `mismatches`.
async fn upsert(
    connection: &mut PgConnection,
    head: &RunHead,
    mismatches: &[Mismatch],
    findings: &[Finding],
) -> Result<Vec<i64>, sqlx::Error> {
    let rows: Vec<Projection<'_>> = mismatches
        .iter()
        .zip(findings)
        .enumerate()
        .map(|(position, (mismatch, finding))| Projection {
            position,
            fingerprint: &mismatch.fingerprint,
            id: &mismatch.id,
            kind: mismatch.kind.as_str(),
            severity: mismatch.severity,
            state: finding.state,
            idempotency_key: mismatch.idempotency_key.as_deref().map(storable),
            merchant_reference: mismatch.reference.as_deref().map(storable),
            provider_ids: mismatch.provider_ids.iter().map(|id| storable(id)).collect(),
            local_charge_ids: mismatch.local.iter().flat_map(|side| &side.ids).map(|id| storable(id)).collect(),
            facts: &finding.facts,
            occurred_at: mismatch.occurred_at,
            reopened: i32::from(finding.standing == Standing::Reopened),
            events: finding.events,
            head_hash: format!("\\x{}", super::chain::hex(&finding.head)),
        })
        .collect();
    let written: Vec<(String, i64)> = sqlx::query_as(
        "/* store::upsert_mismatches */
         INSERT INTO idem.mismatches AS known
                (fingerprint, id, kind, severity, state, provider, account, idempotency_key, merchant_reference,
                 provider_ids, local_charge_ids, local_minor, local_currency, local_status, provider_minor,
                 provider_currency, provider_status, at_risk_minor, currency, occurred_at, first_seen_run,
                 last_seen_run, events, head_hash, reopen_count)
         SELECT fingerprint, id, kind, severity, state, $2, $3, idempotency_key, merchant_reference,
                provider_ids, local_charge_ids, local_minor, local_currency, local_status, provider_minor,
                provider_currency, provider_status, at_risk_minor, currency, occurred_at, $4,
                $4, events, head_hash, reopened
           FROM jsonb_to_recordset($1) AS found
                (position integer, fingerprint text, id text, kind text, severity text, state text,
                 idempotency_key text, merchant_reference text, provider_ids text[], local_charge_ids text[],
                 local_minor bigint, local_currency text, local_status text, provider_minor bigint,
                 provider_currency text, provider_status text, at_risk_minor bigint, currency text,
                 occurred_at timestamptz, reopened integer, events integer, head_hash bytea)
          ORDER BY fingerprint
             ON CONFLICT (fingerprint) DO UPDATE
            SET kind = excluded.kind, severity = excluded.severity, state = excluded.state,
                idempotency_key = excluded.idempotency_key, merchant_reference = excluded.merchant_reference,
                provider_ids = excluded.provider_ids, local_charge_ids = excluded.local_charge_ids,
                local_minor = excluded.local_minor, local_currency = excluded.local_currency,
                local_status = excluded.local_status, provider_minor = excluded.provider_minor,
                provider_currency = excluded.provider_currency, provider_status = excluded.provider_status,
                at_risk_minor = excluded.at_risk_minor, currency = excluded.currency,
                occurred_at = excluded.occurred_at, last_seen_run = excluded.last_seen_run,
                seen_count = known.seen_count + 1, reopen_count = known.reopen_count + excluded.reopen_count,
                events = excluded.events, head_hash = excluded.head_hash
         RETURNING fingerprint, mismatch_no",
    )
    .bind(Json(&rows))
    .bind(&head.provider)
    .bind(&head.account)
    .bind(&head.id)
    .fetch_all(connection)
    .await?;
    let numbers: HashMap<String, i64> = written.into_iter().collect();
    let number = |mismatch: &Mismatch| numbers.get(&mismatch.fingerprint).copied().ok_or(sqlx::Error::RowNotFound);
    mismatches.iter().map(number).collect()
}

async fn insert_events(
    connection: &mut PgConnection,
    head: &RunHead,
    at: DateTime<Utc>,
    numbers: &[i64],
    findings: &[Finding],
) -> Result<(), sqlx::Error> {
    let (mut nos, mut seqs, mut names, mut payloads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut prevs, mut hashes): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    for (number, finding) in numbers.iter().zip(findings) {
        if let Some(event) = &finding.event {
            nos.push(*number);
            seqs.push(finding.events);
            names.push(event.name);
            payloads.push(event.payload.as_str());
            prevs.push(&event.prev);
            hashes.push(&finding.head);
        }
    }
    sqlx::query(
        "/* store::insert_events */
         INSERT INTO idem.mismatch_events (mismatch_no, seq, event, run_id, actor, at, payload, prev_hash, hash)
         SELECT no, seq, event, $7, $8, $9, payload::json, prev_hash, hash
           FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::bytea[], $6::bytea[])
                AS new (no, seq, event, payload, prev_hash, hash)",
    )
    .bind(nos)
    .bind(seqs)
    .bind(names)
    .bind(payloads)
    .bind(prevs)
    .bind(hashes)
    .bind(&head.id)
    .bind(ACTOR)
    .bind(at)
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes what this run saw, whole, so that its report renders the same for ever.
async fn insert_places(
    connection: &mut PgConnection,
    head: &RunHead,
    start: i32,
    mismatches: &[Mismatch],
    numbers: &[i64],
    findings: &[Finding],
) -> Result<(), sqlx::Error> {
    let positions: Vec<i32> = (start..).take(mismatches.len()).collect();
    let standings: Vec<&str> = findings.iter().map(|finding| finding.standing.as_str()).collect();
    let heads: Vec<&[u8]> = findings.iter().map(|finding| finding.head.as_slice()).collect();
    let snapshots: Vec<String> = mismatches
        .iter()
        .zip(findings)
        .map(|(mismatch, finding)| {
            let seen = Mismatch { state: finding.state, seen: finding.standing, ..mismatch.clone() };
            serde_json::to_string(&seen).expect("plain fields always serialise")
        })
        .collect();
    sqlx::query(
        "/* store::insert_run_mismatches */
         INSERT INTO idem.run_mismatches (run_id, position, mismatch_no, standing, head_hash, mismatch)
         SELECT $6, position, no, standing, head_hash, mismatch::json
           FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::bytea[], $5::text[])
                AS new (position, no, standing, head_hash, mismatch)",
    )
    .bind(positions)
    .bind(numbers)
    .bind(standings)
    .bind(heads)
    .bind(snapshots)
    .bind(&head.id)
    .execute(connection)
    .await?;
    Ok(())
}
