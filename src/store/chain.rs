//! The hash chain of a mismatch's events, and the proof that nobody rewrote it.
//!
//! Each event's hash covers the hash before it, so a changed, swapped or missing event breaks every later link. A tail
//! that was cut off breaks no link: that is why the mismatch keeps its head, and each run a hash over its heads, which
//! also stands in the mail that left the house.

use std::fmt;

use chrono::{DateTime, Utc};
use futures_util::TryStreamExt;
use sha2::{Digest, Sha256};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::{Store, StoreError};

/// A link's hash.
pub(super) type Hash = [u8; 32];

/// What stands before the first link.
pub(super) const START: Hash = [0; 32];

/// Faults that one verification lists at most; the first says enough.
const FAULTS_MAX: usize = 1_000;

/// What one link says. All of it is hashed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link<'a> {
    pub(super) fingerprint: &'a str,
    /// Number in its chain, from 1.
    pub(super) seq: i32,
    pub(super) event: &'a str,
    pub(super) run_id: Option<&'a str>,
    pub(super) actor: &'a str,
    pub(super) at: DateTime<Utc>,
    /// JSON, hashed as it is written.
    pub(super) payload: &'a str,
}

impl Link<'_> {
    /// SHA-256 over the hash before and each part with its length in front.
    pub(super) fn hash(&self, prev: &Hash) -> Hash {
        let mut hash = Sha256::new();
        hash.update(prev);
        let (seq, at) = (self.seq.to_be_bytes(), self.at.timestamp_micros().to_be_bytes());
        let parts: [&[u8]; 7] = [
            self.fingerprint.as_bytes(),
            &seq,
            self.event.as_bytes(),
            self.run_id.unwrap_or_default().as_bytes(),
            self.actor.as_bytes(),
            &at,
            self.payload.as_bytes(),
        ];
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// The hash over the heads of a run's mismatches, in the run's order.
pub(super) fn over_heads(heads: impl IntoIterator<Item = Hash>) -> Hash {
    heads.into_iter().fold(Sha256::new(), Sha256::chain_update).finalize().into()
}

/// Lower-case hex.
pub(super) fn hex(hash: &Hash) -> String {
    use fmt::Write;
    hash.iter().fold(String::with_capacity(64), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a String cannot fail");
        hex
    })
}

/// A place where history does not agree with itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFault {
    /// The mismatch's id, or the run's.
    pub of: String,
    /// Number of the event, where it is one event's fault.
    pub seq: Option<i32>,
    /// What does not agree.
    pub reason: &'static str,
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "{}, event {seq}: {}", self.of, self.reason),
            None => write!(f, "{}: {}", self.of, self.reason),
        }
    }
}

impl Store {
    /// Recomputes every chain and every run's heads. Empty when all agree; else the first thousand faults.
    pub async fn verify_chains(&self) -> Result<Vec<ChainFault>, StoreError> {
        let mut faults = self.verify_events().await?;
        faults.extend(self.verify_heads().await?);
        faults.truncate(FAULTS_MAX);
        Ok(faults)
    }

    async fn verify_events(&self) -> Result<Vec<ChainFault>, StoreError> {
        let what = "verifying the events";
        let mut rows = sqlx::query(
            "/* store::verify_events */
             SELECT m.fingerprint, m.id, m.events, m.head_hash,
                    e.seq, e.event, e.run_id, e.actor, e.at, e.payload::text, e.prev_hash, e.hash
               FROM idem.mismatches m LEFT JOIN idem.mismatch_events e USING (mismatch_no)
              ORDER BY m.mismatch_no, e.seq",
        )
        .fetch(&self.pool);
        let (mut faults, mut walk) = (Vec::new(), None::<Walk>);
        while let Some(row) = rows.try_next().await.map_err(|error| StoreError::query(what, &error))? {
            let read = |error: sqlx::Error| StoreError::query(what, &error);
            let fingerprint: String = row.try_get("fingerprint").map_err(read)?;
            if walk.as_ref().is_none_or(|walk| walk.fingerprint != fingerprint) {
                faults.extend(walk.take().and_then(Walk::end));
                walk = Some(Walk::begin(fingerprint, &row).map_err(read)?);
            }
            let walk = walk.as_mut().expect("set just above");
            faults.extend(walk.step(&row).map_err(read)?);
            if faults.len() >= FAULTS_MAX {
                return Ok(faults);
            }
        }
        faults.extend(walk.and_then(Walk::end));
        Ok(faults)
    }

    async fn verify_heads(&self) -> Result<Vec<ChainFault>, StoreError> {
        let what = "verifying the runs' heads";
        let mut rows = sqlx::query(
            "/* store::verify_heads */
             SELECT r.run_id, r.chain_heads,
                    coalesce(array_agg(m.head_hash ORDER BY m.position) FILTER (WHERE m.run_id IS NOT NULL), '{}'),
                    count(m.run_id) FILTER (WHERE NOT EXISTS
                        (SELECT FROM idem.mismatch_events e
                          WHERE e.mismatch_no = m.mismatch_no AND e.hash = m.head_hash))
               FROM idem.reconciliation_runs r LEFT JOIN idem.run_mismatches m USING (run_id)
              WHERE r.state = 'done'
              GROUP BY r.run_id
              ORDER BY r.run_id",
        )
        .fetch(&self.pool);
        let mut faults = Vec::new();
        while let Some(row) = rows.try_next().await.map_err(|error| StoreError::query(what, &error))? {
            let read = |error: sqlx::Error| StoreError::query(what, &error);
            let (of, stored): (String, Hash) = (row.try_get(0).map_err(read)?, row.try_get(1).map_err(read)?);
            let heads: Vec<Hash> = row.try_get(2).map_err(read)?;
            let missing: i64 = row.try_get(3).map_err(read)?;
            if over_heads(heads) != stored {
                faults.push(ChainFault { of, seq: None, reason: "the hash over its mismatches' heads differs" });
            } else if missing > 0 {
                faults.push(ChainFault { of, seq: None, reason: "an event that this run was committed on is gone" });
            }
            if faults.len() >= FAULTS_MAX {
                break;
            }
        }
        Ok(faults)
    }
}

/// One chain while it is walked.
struct Walk {
    fingerprint: String,
    id: String,
    events: i32,
    head: Hash,
    seq: i32,
    prev: Hash,
    faulty: bool,
}

impl Walk {
    fn begin(fingerprint: String, row: &PgRow) -> Result<Self, sqlx::Error> {
        let (id, events, head) = (row.try_get("id")?, row.try_get("events")?, row.try_get("head_hash")?);
        Ok(Self { fingerprint, id, events, head, seq: 0, prev: START, faulty: false })
    }

    /// Checks one event. After a chain's first fault the rest of it says nothing.
    fn step(&mut self, row: &PgRow) -> Result<Option<ChainFault>, sqlx::Error> {
        let Some(seq) = row.try_get::<Option<i32>, _>("seq")? else { return Ok(None) };
        if self.faulty {
            return Ok(None);
        }
        let (prev, hash): (Hash, Hash) = (row.try_get("prev_hash")?, row.try_get("hash")?);
        let link = Link {
            fingerprint: &self.fingerprint,
            seq,
            event: row.try_get("event")?,
            run_id: row.try_get("run_id")?,
            actor: row.try_get("actor")?,
            at: row.try_get("at")?,
            payload: row.try_get("payload")?,
        };
        let reason = if seq != self.seq + 1 {
            "an event before it is missing"
        } else if prev != self.prev {
            "it does not follow on the event before it"
        } else if link.hash(&prev) != hash {
            "it was changed"
        } else {
            (self.seq, self.prev) = (seq, hash);
            return Ok(None);
        };
        self.faulty = true;
        Ok(Some(ChainFault { of: self.id.clone(), seq: Some(seq), reason }))
    }

    /// Checks that the chain ends where the mismatch says.
    fn end(self) -> Option<ChainFault> {
        let agrees = self.seq == self.events && self.prev == self.head;
        (!self.faulty && !agrees).then_some(ChainFault {
            of: self.id,
            seq: None,
            reason: "its chain does not end where it should",
        })
    }
}
