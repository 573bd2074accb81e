//! Many clients and one key: at most one of them gets it, also across midnight, also while it moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::TimeDelta;
use tokio::sync::Barrier;
use uuid::{NoContext, Timestamp, Uuid};

use crate::keys_bed::{Client, ENDPOINT, HASH, KeysBed, LOCK, refusal};

const CLIENTS: usize = 8;

/// Keys of the race across midnight. `IDEM_TEST_RACE_KEYS=100000` runs it at its full length.
fn race_keys() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the tests' own switch, not the program's")]
    let given = std::env::var("IDEM_TEST_RACE_KEYS");
    given.map_or(20_000, |keys| keys.parse().expect("IDEM_TEST_RACE_KEYS is a number"))
}

/// Two clients, one on either side of midnight, claim each key at the same moment; four such pairs. Returns how many
/// claims each key got.
async fn race_across_midnight(bed: &KeysBed, keys: usize, claim: &'static str) -> BTreeMap<usize, u32> {
    let mut clients = Vec::new();
    for pair in 0..CLIENTS / 2 {
        let barrier = Arc::new(Barrier::new(2));
        for side in [-1, 1] {
            let mut client = bed.client().await;
            client.at(bed.midnight() + TimeDelta::milliseconds(side * 50)).await;
            let barrier = Arc::clone(&barrier);
            clients.push(tokio::spawn(async move {
                let mut claimed = Vec::new();
                for key in (pair..keys).step_by(CLIENTS / 2) {
                    barrier.wait().await;
                    let won: bool = sqlx::query_scalar(claim)
                        .bind(format!("key {key}"))
                        .fetch_one(&mut client.session)
                        .await
                        .unwrap();
                    if won {
                        claimed.push(key);
                    }
                }
                claimed
            }));
        }
    }
    let mut claims = BTreeMap::new();
    for client in clients {
        for key in client.await.unwrap() {
            *claims.entry(key).or_insert(0) += 1;
        }
    }
    claims
}

const CLAIM_KEY: &str = "SELECT outcome = 'claimed' FROM idem.claim_key('acct', $1, 'POST /p', sha256('x'))";
const CLAIM_MESSAGE: &str = "SELECT idem.claim_message('mailer', $1)";

/// Asserts that no key was given twice, then takes the lock away and asserts that this race can find such a key.
async fn exactly_once(bed: &KeysBed, claim: &'static str, table: &str, name: &str) {
    let doubles =
        format!("SELECT count(*) FROM (SELECT 1 FROM idem.{table} GROUP BY {name} HAVING count(*) > 1) twice");
    let keys = race_keys();
    let claims = race_across_midnight(bed, keys, claim).await;
    assert_eq!(claims.len(), keys, "each was given");
    assert_eq!(claims.values().filter(|claims| **claims != 1).count(), 0, "and to one client only");
    assert_eq!(bed.database.number(&doubles).await, 0);
    let days = format!("SELECT count(DISTINCT day) FROM idem.{table}");
    assert_eq!(bed.database.number(&days).await, 2, "both sides of midnight won some");

    bed.database.sql(&format!("TRUNCATE idem.{table}")).await.unwrap();
    assert!(bed.rewrite(LOCK, "(").await >= 1);
    let claims = race_across_midnight(bed, keys.min(4_000), claim).await;
    let twice = claims.values().filter(|claims| **claims > 1).count();
    assert!(twice > 0, "without the lock this race shows nothing");
    assert_eq!(bed.database.number(&doubles).await, i64::try_from(twice).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_claimed_once_across_midnight_and_without_the_lock_it_is_not() {
    let bed = KeysBed::new().await;
    exactly_once(&bed, CLAIM_KEY, "idempotency_keys", "account_id, key").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_claimed_once_across_midnight_and_without_the_lock_it_is_not() {
    let bed = KeysBed::new().await;
    exactly_once(&bed, CLAIM_MESSAGE, "processed_messages", "consumer, message_id").await;
}

#[tokio::test]
async fn an_older_snapshot_is_refused_in_words() {
    let bed = KeysBed::with_real_clock().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for function in ["claim_key", "claim_message"] {
            let call = match function {
                "claim_key" => "claim_key('acct', 'k', 'POST /p', sha256('x'))",
                _ => "claim_message('mailer', 'k')",
            };
            let statements = format!("BEGIN ISOLATION LEVEL {level}; SELECT idem.{call}");
            let (message, state) = refusal(bed.database.sql(&statements).await.unwrap_err());
            assert_eq!(message, format!("{function} needs READ COMMITTED, this transaction is {level}"));
            assert_eq!(state, "25000");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_uuidv7_key_is_claimed_once_at_every_isolation_level() {
    let bed = KeysBed::new().await;
    let on = format!("UPDATE idem.settings SET uuidv7_since = '{{\"{ENDPOINT}\": \"-infinity\"}}'");
    bed.database.sql(&on).await.unwrap();
    let midnight = bed.midnight();
    let seconds = u64::try_from(midnight.timestamp()).unwrap() - 1;
    let keys: Arc<Vec<String>> =
        Arc::new((0..2_000).map(|_| Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, 0)).to_string()).collect());
    let barrier = Arc::new(Barrier::new(CLIENTS));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = bed.client().await;
        client.at(midnight + TimeDelta::milliseconds(if number % 2 == 0 { -50 } else { 50 })).await;
        let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][number % 3];
        client.sql(&format!("SET default_transaction_isolation = '{level}'")).await;
        let (barrier, keys) = (Arc::clone(&barrier), Arc::clone(&keys));
        clients.push(tokio::spawn(async move {
            let mut claimed = 0;
            for key in keys.iter() {
                barrier.wait().await;
                claimed += usize::from(claim_until_answered(&mut client, key).await == "claimed");
            }
            claimed
        }));
    }
    let mut claimed = 0;
    for client in clients {
        claimed += client.await.unwrap();
    }
    assert_eq!(claimed, keys.len());
    assert_eq!(bed.database.number("SELECT count(*) FROM idem.idempotency_keys").await, 2_000);
}

/// A claim as a client of an older snapshot must make it: again after a serialization failure, at most 100 times.
async fn claim_until_answered(client: &mut Client, key: &str) -> String {
    for _ in 0..100 {
        match client.try_claim(key, ENDPOINT, &HASH, "72 hours").await {
            Ok(claim) => return claim.outcome,
            Err(error) => assert_eq!(refusal(error).1, "40001"),
        }
    }
    panic!("no answer to 100 claims");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_second_past_every_ttl_eight_clients_get_one_claim_at_most() {
    // What the key went through before, as calls after the claim, and what the one winner gets.
    let states: [(&str, &[&'static str], Option<&str>); 9] = [
        ("completed", &["SELECT idem.complete_key('acct', $1, $2, 201)"], Some("claimed")),
        ("failed", &["SELECT idem.fail_key('acct', $1, $2, 'refused')"], Some("claimed")),
        (
            "failed after an intent",
            &[
                "SELECT idem.send_intent('acct', $1, $2, 'stripe', 'ik', '30 days')",
                "SELECT idem.fail_key('acct', $1, $2, 'declined', NULL, 'definitive')",
            ],
            Some("resumed"),
        ),
        (
            "failed after an intent, window over",
            &[
                "SELECT idem.send_intent('acct', $1, $2, 'stripe', 'ik', '1 hour')",
                "SELECT idem.fail_key('acct', $1, $2, 'declined', NULL, 'definitive')",
            ],
            None,
        ),
        ("released", &["SELECT idem.release_key('acct', $1, $2)"], Some("resumed")),
        ("in progress", &[], Some("resumed")),
        (
            "in progress after an intent",
            &["SELECT idem.send_intent('acct', $1, $2, 'stripe', 'ik', '30 days')"],
            Some("resumed"),
        ),
        (
            "in progress after an intent, window over",
            &["SELECT idem.send_intent('acct', $1, $2, 'stripe', 'ik', '1 hour')"],
            None,
        ),
        (
            "needs review",
            &["UPDATE idem.idempotency_keys SET status = 'needs_review', lease_id = NULL, locked_until = NULL
                WHERE key = $1 AND lease_id = $2"],
            None,
        ),
    ];
    let bed = KeysBed::new().await;
    let mut worker = bed.client().await;
    for (ttl, hours) in [("4 hours", 4), ("12 hours", 12), ("72 hours", 72)] {
        for place in ["in its day", "held"] {
            for (state, calls, winner) in states {
                let key = format!("{state}, {ttl}, {place}");
                worker.at(bed.noon).await;
                let lease = worker.claim_for(&key, ttl).await.token();
                for call in calls {
                    sqlx::query(*call).bind(&key).bind(lease).execute(&mut worker.session).await.unwrap();
                }
                if place == "held" {
                    worker.at(bed.noon + TimeDelta::minutes(2)).await;
                    assert_eq!(bed.hold(&mut worker, &key).await, "held", "{key}");
                }
                let mut claims = Vec::new();
                for _ in 0..CLIENTS {
                    let (mut client, key) = (bed.client().await, key.clone());
                    client.at(bed.noon + TimeDelta::hours(hours) + TimeDelta::seconds(1)).await;
                    claims.push(tokio::spawn(async move { client.claim_for(&key, ttl).await }));
                }
                let mut winners = Vec::new();
                for claim in claims {
                    let claim = claim.await.unwrap();
                    assert_eq!(claim.lease.is_some(), ["claimed", "resumed"].contains(&claim.outcome.as_str()));
                    winners.extend(claim.lease.map(|_| claim.outcome));
                }
                assert_eq!(winners, winner.into_iter().collect::<Vec<_>>(), "{key}");
                assert_eq!(bed.rows(&key).await, 1, "{key}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_move_among_the_held_while_clients_retry_them_are_neither_lost_nor_given_twice() {
    const KEYS: usize = 400;
    let bed = KeysBed::new().await;
    let mut worker = bed.client().await;
    for key in 0..KEYS {
        let lease = worker.claim(&format!("key {key}")).await.token();
        match key % 3 {
            0 => assert!(worker.write("fail_key", &format!("key {key}"), lease, "'refused'").await),
            1 => assert!(worker.write("release_key", &format!("key {key}"), lease, "").await),
            _ => {}
        }
    }
    let later = bed.noon + TimeDelta::hours(1);
    let barrier = Arc::new(Barrier::new(CLIENTS + 1));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let (mut client, barrier) = (bed.client().await, Arc::clone(&barrier));
        client.at(later).await;
        clients.push(tokio::spawn(async move {
            let mut won = Vec::new();
            for key in 0..KEYS {
                if key % 20 == 0 {
                    barrier.wait().await;
                }
                let claim = client.claim(&format!("key {key}")).await;
                assert!(["resumed", "in_progress"].contains(&claim.outcome.as_str()), "key {key}: {claim:?}");
                won.extend(claim.lease.map(|_| key));
            }
            won
        }));
    }
    worker.at(later).await;
    let mut held = 0;
    for key in 0..KEYS {
        if key % 20 == 0 {
            barrier.wait().await;
        }
        let answer = bed.hold(&mut worker, &format!("key {key}")).await;
        assert!(["held", "live_lease"].contains(&answer.as_str()), "key {key}: {answer}");
        held += i64::from(answer == "held");
    }
    let mut won: Vec<usize> = Vec::new();
    for client in clients {
        won.extend(client.await.unwrap());
    }
    won.sort_unstable();
    assert_eq!(won, (0..KEYS).collect::<Vec<_>>(), "each key went to exactly one of the eight");
    let count = |table: &str| format!("SELECT count(*) FROM idem.{table}");
    assert_eq!(bed.database.number(&count("held_keys")).await, held);
    assert_eq!(bed.database.number(&count("idempotency_keys")).await, i64::try_from(KEYS).unwrap() - held);
    assert!(held > 0, "the race held nothing");
}
