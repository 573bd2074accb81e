//! The fast path: keys that carry their home day need no lock and work at every isolation level.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use uuid::{NoContext, Timestamp, Uuid};

use crate::keys_bed::{Client, ENDPOINT, HASH, KeysBed};

/// A bed where the endpoint's keys are UUIDv7 since ever.
async fn bed() -> KeysBed {
    let bed = KeysBed::new().await;
    let on = format!("UPDATE idem.settings SET uuidv7_since = '{{\"{ENDPOINT}\": \"-infinity\"}}'");
    bed.database.sql(&on).await.unwrap();
    bed
}

fn key(made: DateTime<Utc>) -> String {
    let seconds = u64::try_from(made.timestamp()).unwrap();
    Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, made.timestamp_subsec_nanos())).to_string()
}

async fn day_of(client: &mut Client, key: &str) -> NaiveDate {
    sqlx::query_scalar("SELECT day FROM idem.idempotency_keys WHERE key = $1")
        .bind(key)
        .fetch_one(&mut client.session)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_key_lives_in_the_day_it_was_made_whatever_the_claims_clock_says() {
    let bed = bed().await;
    let mut client = bed.client().await;
    let key = key(bed.midnight() - TimeDelta::milliseconds(1));
    client.at(bed.midnight() + TimeDelta::hours(1)).await;
    let claim = client.claim(&key).await;
    assert_eq!(claim.outcome, "claimed");
    assert_eq!(day_of(&mut client, &key).await, bed.noon.date_naive());
    assert!(client.complete(&key, claim.token()).await);
    client.at(bed.midnight() + TimeDelta::days(1)).await;
    assert_eq!(client.claim(&key).await.outcome, "replay");
}

#[tokio::test]
async fn it_takes_no_lock_and_serves_every_isolation_level() {
    let bed = bed().await;
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let mut client = bed.client().await;
        client.sql(&format!("BEGIN ISOLATION LEVEL {level}")).await;
        let key = key(bed.noon);
        let claim = client.claim(&key).await;
        assert_eq!(claim.outcome, "claimed", "{level}");
        let locks: i64 =
            sqlx::query_scalar("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
                .fetch_one(&mut client.session)
                .await
                .unwrap();
        assert_eq!(locks, 0, "{level}");
        assert!(client.complete(&key, claim.token()).await, "{level}");
        assert_eq!(client.claim(&key).await.outcome, "replay", "{level}");
        client.sql("COMMIT").await;
    }
}

#[tokio::test]
async fn a_key_older_than_the_window_is_stale_and_one_of_the_future_is_refused() {
    let bed = bed().await;
    let mut client = bed.client().await;
    // The day may be removed 72 hours after its end; claims stop an hour before that.
    let stale_from = bed.midnight() + TimeDelta::hours(71);
    let key_of_today = key(bed.noon);
    client.at(stale_from - TimeDelta::seconds(1)).await;
    assert_eq!(client.claim(&key_of_today).await.outcome, "claimed");
    client.at(stale_from).await;
    let refused = client.claim(&key(bed.noon)).await;
    assert_eq!((refused.outcome.as_str(), refused.lease), ("stale", None));
    assert_eq!(client.claim(&key_of_today).await.outcome, "in_progress", "what is there is answered");

    client.at(bed.noon).await;
    assert_eq!(client.claim(&key(bed.noon + TimeDelta::minutes(5))).await.outcome, "claimed");
    let refusal = client.refused(&key(bed.noon + TimeDelta::seconds(301)), ENDPOINT, &HASH, "1 hour").await;
    assert_eq!((refusal.0.as_str(), refusal.1.as_str()), ("the UUIDv7 key was made 00:05:01 in the future", "22023"));
}

#[tokio::test]
async fn a_stale_key_among_the_held_ones_is_found() {
    let bed = bed().await;
    let mut client = bed.client().await;
    let key = key(bed.noon);
    client.claim(&key).await;
    client.at(bed.noon + TimeDelta::days(5)).await;
    assert_eq!(bed.hold(&mut client, &key).await, "held");
    let claim = client.claim(&key).await;
    assert_eq!((claim.outcome.as_str(), claim.epoch), ("resumed", Some(2)));
    assert!(client.complete(&key, claim.token()).await);
    client.at(bed.noon + TimeDelta::days(9)).await;
    assert_eq!(client.claim(&key).await.outcome, "stale", "expired, and too old to be used anew");
}

#[tokio::test]
async fn a_held_key_counts_also_while_its_day_still_takes_new_rows() {
    let bed = bed().await;
    let mut client = bed.client().await;
    let key = key(bed.noon);
    client.claim(&key).await;
    client.at(bed.noon + TimeDelta::minutes(2)).await;
    assert_eq!(bed.hold(&mut client, &key).await, "held");
    let claim = client.claim(&key).await;
    assert_eq!((claim.outcome.as_str(), claim.epoch), ("resumed", Some(2)));
    assert_eq!(bed.rows(&key).await, 1);
}

#[tokio::test]
async fn an_expired_key_is_used_anew_in_its_home_day() {
    let bed = bed().await;
    let mut client = bed.client().await;
    let key = key(bed.noon);
    let claim = client.claim_for(&key, "4 hours").await;
    client.complete(&key, claim.token()).await;
    client.at(bed.midnight() + TimeDelta::hours(1)).await;
    let anew = client.claim_for(&key, "4 hours").await;
    assert_eq!((anew.outcome.as_str(), anew.epoch), ("claimed", Some(1)));
    assert_eq!(day_of(&mut client, &key).await, bed.noon.date_naive());
    assert_eq!(bed.rows(&key).await, 1);
}

#[tokio::test]
async fn keys_made_before_the_switch_and_other_keys_take_the_other_path() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let on =
        format!("UPDATE idem.settings SET uuidv7_since = '{{\"{ENDPOINT}\": \"{}\"}}'", bed.midnight().to_rfc3339());
    bed.database.sql(&on).await.unwrap();
    client.at(bed.midnight() + TimeDelta::hours(1)).await;
    let tomorrow = bed.midnight().date_naive();
    let old = key(bed.midnight() - TimeDelta::seconds(1));
    for other in
        [old.as_str(), "order-1", "8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-73dd-cc93-6894a57f9324"]
    {
        assert_eq!(client.claim(other).await.outcome, "claimed");
        assert_eq!(day_of(&mut client, other).await, tomorrow, "{other}: by the claim's clock");
    }
    client.sql("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    let (message, _) = client.refused(&old, ENDPOINT, &HASH, "1 hour").await;
    assert_eq!(message, "claim_key needs READ COMMITTED, this transaction is REPEATABLE READ");
}
