//! Session advisory locks, each on a direct connection of its own: the lock lives exactly as long as its session.
//!
//! Never here: leases on rows. A lock says "one at a time", not "whose turn".

use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnection;
use tokio::time::{Instant, sleep, timeout};

use crate::config::Secret;

use super::{StoreError, session};

/// Pause between two tries.
const POLL: Duration = Duration::from_millis(250);

/// How long the proof that we still hold it may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// What is locked: a 64-bit hash of length-prefixed words, so that no two names share a key by concatenation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockKey(i64);

impl LockKey {
    /// One reconciliation at a time for a provider and merchant account.
    pub fn reconcile(provider: &str, account: &str) -> Self {
        Self::of(&["reconcile", provider, account])
    }

    /// One migration at a time for a database.
    pub fn migrate() -> Self {
        Self::of(&["migrate"])
    }

    /// One run of partition maintenance at a time for a database.
    pub fn partitions() -> Self {
        Self::of(&["partitions"])
    }

    /// Commits of runs of one provider and account follow each other, also where nobody holds the job's lock.
    pub(super) fn commit(provider: &str, account: &str) -> Self {
        Self::of(&["commit", provider, account])
    }

    fn of(words: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for word in ["idem-jobs"].iter().chain(words) {
            hash.update((word.len() as u64).to_be_bytes());
            hash.update(word.as_bytes());
        }
        let bytes: [u8; 32] = hash.finalize().into();
        Self(i64::from_be_bytes(*bytes.first_chunk().expect("32 bytes have a first 8")))
    }

    /// The number that PostgreSQL locks.
    pub fn number(self) -> i64 {
        self.0
    }
}

/// A lock that is held.
#[derive(Debug)]
pub struct Lock {
    key: LockKey,
    connection: PgConnection,
}

impl Lock {
    /// Takes the lock, trying every 250 ms until `wait` is over. `None` when another session kept it.
    pub async fn acquire(url: &Secret, key: LockKey, wait: Duration) -> Result<Option<Self>, StoreError> {
        let mut connection = session::open(&session::options(url)?).await?;
        match poll(&mut connection, key, wait).await {
            Ok(true) => Ok(Some(Self { key, connection })),
            Ok(false) => {
                session::close(connection).await;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Proves that the session, and with it the lock, is still there. Call it before each batch of writes.
    pub async fn check(&mut self) -> Result<(), StoreError> {
        let what = "checking our lock";
        // A 64-bit advisory lock stands in pg_locks as two halves; objsubid 1 marks that kind.
        let query = sqlx::query_scalar(
            "/* store::lock_check */
             SELECT EXISTS (SELECT FROM pg_locks
                             WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND objsubid = 1
                               AND (classid::bigint << 32 | objid::bigint) = $1)",
        )
        .bind(self.key.0)
        .fetch_one(&mut self.connection);
        match timeout(CHECK_TIMEOUT, query).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(StoreError::Lost { what: what.to_owned(), reason: "it is not held".to_owned() }),
            Ok(Err(error)) => Err(StoreError::query(what, &error)),
            Err(_) => Err(StoreError::Lost {
                what: what.to_owned(),
                reason: format!("no answer within {} s", CHECK_TIMEOUT.as_secs()),
            }),
        }
    }

    /// The lock's own session, for those whose every statement must end with the lock.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Gives the lock back and ends the session.
    pub async fn release(mut self) -> Result<(), StoreError> {
        sqlx::query("/* store::unlock */ SELECT pg_advisory_unlock($1)")
            .bind(self.key.0)
            .execute(&mut self.connection)
            .await
            .map_err(|error| StoreError::query("giving our lock back", &error))?;
        session::close(self.connection).await;
        Ok(())
    }
}

/// Tries until the lock is ours or `wait` is over. Trying, not waiting in the server: a waiting statement would hold a
/// snapshot and run into the statement timeout.
pub(super) async fn poll(connection: &mut PgConnection, key: LockKey, wait: Duration) -> Result<bool, StoreError> {
    let started = Instant::now();
    loop {
        let taken: bool = sqlx::query_scalar("/* store::try_lock */ SELECT pg_try_advisory_lock($1)")
            .bind(key.0)
            .fetch_one(&mut *connection)
            .await
            .map_err(|error| StoreError::query("taking a lock", &error))?;
        if taken {
            return Ok(true);
        }
        let left = wait.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        sleep(POLL.min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_read_the_same_when_joined_have_different_keys() {
        assert_ne!(LockKey::reconcile("ab", "c"), LockKey::reconcile("a", "bc"));
        assert_ne!(LockKey::reconcile("a", "b"), LockKey::commit("a", "b"));
    }

    #[test]
    fn keys_never_change_or_two_versions_would_not_exclude_each_other() {
        insta::assert_snapshot!(LockKey::reconcile("stripe", "acct_1").number(), @"6126355625405724787");
    }
}
