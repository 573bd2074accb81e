//! The key protocol: each outcome of a claim, each fenced write, wherever the row is.

use chrono::TimeDelta;
use sha2::{Digest as _, Sha256};
use sqlx::Connection as _;
use uuid::Uuid;

use crate::keys_bed::{ENDPOINT, HASH, KeysBed, refusal};

#[tokio::test]
async fn a_new_key_is_claimed_with_a_lease_and_a_second_claim_waits_outside() {
    let bed = KeysBed::new().await;
    let (mut one, mut two) = (bed.client().await, bed.client().await);
    let claim = one.claim("k").await;
    assert_eq!((claim.outcome.as_str(), claim.epoch, claim.point.as_deref()), ("claimed", Some(1), Some("started")));
    assert_eq!(claim.created_at, Some(bed.noon));

    two.at(bed.noon + TimeDelta::milliseconds(20_500)).await;
    let second = two.claim("k").await;
    assert_eq!((second.outcome.as_str(), second.lease, second.retry_after_s), ("in_progress", None, Some(40)));
}

#[tokio::test]
async fn a_finished_key_is_replayed_byte_for_byte_and_counted() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let body = "{\"b\":1.0,\"a\":\"é\\u00e9\"}\n".as_bytes();
    let claim = client.claim("k").await;
    let done: bool = sqlx::query_scalar("SELECT idem.complete_key('acct', 'k', $1, 201, '{\"x\": 1}', $2)")
        .bind(claim.token())
        .bind(body)
        .fetch_one(&mut client.session)
        .await
        .unwrap();
    assert!(done);
    for hours in [1, 2, 3] {
        client.at(bed.noon + TimeDelta::hours(hours)).await;
        let replay = client.claim("k").await;
        assert_eq!((replay.outcome.as_str(), replay.code, replay.lease), ("replay", Some(201), None));
        assert_eq!(Sha256::digest(replay.body.unwrap()), Sha256::digest(body));
        assert_eq!(replay.created_at, Some(bed.noon));
    }
    let counted = "SELECT replays FROM idem.idempotency_keys
                    WHERE key = 'k' AND last_replay_at - created_at = interval '3 hours'";
    assert_eq!(bed.database.number(&counted.replace("replays FROM", "replays::bigint FROM")).await, 3);
    assert_eq!(bed.database.number("SELECT sum(replays)::bigint FROM idem.key_stats").await, 3);
}

#[tokio::test]
async fn a_lease_that_ran_out_is_taken_over_at_the_recovery_point() {
    let bed = KeysBed::new().await;
    let (mut one, mut two) = (bed.client().await, bed.client().await);
    let first = one.claim("k").await;
    assert!(one.write("checkpoint", "k", first.token(), "'charged', 'ch_1'").await);
    two.at(bed.noon + TimeDelta::seconds(61)).await;
    let second = two.claim("k").await;
    assert_eq!((second.outcome.as_str(), second.epoch), ("resumed", Some(2)));
    assert_eq!((second.point.as_deref(), second.charge.as_deref()), (Some("charged"), Some("ch_1")));
    assert_ne!(first.lease, second.lease);
    assert!(!one.complete("k", first.token()).await, "the slow one must not write any more");
    assert!(two.complete("k", second.token()).await);
}

#[tokio::test]
async fn a_released_and_a_failed_key_are_resumed_at_once() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    for (key, function, more) in
        [("released", "release_key", "interval '1 hour', 'timeout', 'no answer'"), ("failed", "fail_key", "'refused'")]
    {
        let claim = client.claim(key).await;
        assert!(client.write(function, key, claim.token(), more).await);
        let again = client.claim(key).await;
        assert_eq!((again.outcome.as_str(), again.epoch), ("resumed", Some(2)), "{key}");
        let failures = format!("SELECT failures::bigint FROM idem.idempotency_keys WHERE key = '{key}'");
        assert_eq!(bed.database.number(&failures).await, 1, "{key}");
    }
}

#[tokio::test]
async fn another_request_under_the_same_key_is_a_mismatch_and_blocks_nobody() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let claim = client.claim("k").await;
    client.write("release_key", "k", claim.token(), "").await;
    for (endpoint, hash) in [(ENDPOINT, [8; 32]), ("POST /v1/refunds", HASH)] {
        let other = client.try_claim("k", endpoint, &hash, "1 hour").await.unwrap();
        assert_eq!((other.outcome.as_str(), other.lease), ("mismatch", None));
    }
    let real = client.claim("k").await;
    assert_eq!(real.outcome, "resumed");
    client.complete("k", real.token()).await;
    let late = client.try_claim("k", ENDPOINT, &[8; 32], "1 hour").await.unwrap();
    assert_eq!((late.outcome.as_str(), late.body), ("mismatch", None), "nobody sees another request's answer");
    assert_eq!(bed.database.number("SELECT sum(mismatches)::bigint FROM idem.key_stats").await, 3);
}

#[tokio::test]
async fn a_key_under_review_gives_no_lease() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    client.claim("k").await;
    client
        .sql(
            "UPDATE idem.idempotency_keys SET status = 'needs_review', lease_id = NULL, locked_until = NULL,
                    escalated_at = now(), escalation_reason = 'not_found'",
        )
        .await;
    for hours in [1, 200] {
        client.at(bed.noon + TimeDelta::hours(hours)).await;
        let claim = client.claim("k").await;
        assert_eq!((claim.outcome.as_str(), claim.lease), ("needs_review", None));
    }
}

/// The fenced writes, each with arguments that would work.
const WRITES: [(&str, &str); 5] = [
    ("renew_lease", ""),
    ("checkpoint", "'charged', 'ch_2'"),
    ("complete_key", "201"),
    ("release_key", ""),
    ("fail_key", "'x'"),
];

#[tokio::test]
async fn no_write_of_a_stale_lease_changes_anything_wherever_the_row_is() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let stale = client.claim("k").await.token();
    client.at(bed.noon + TimeDelta::seconds(61)).await;
    let taken = client.claim("k").await.token();
    let image = "SELECT hashtext(concat((SELECT string_agg(k::text, '') FROM idem.idempotency_keys k),
                                        (SELECT string_agg(h::text, '') FROM idem.held_keys h)))::bigint";
    for place in ["in its day", "held"] {
        if place == "held" {
            client.at(bed.noon + TimeDelta::hours(1)).await;
            assert_eq!(bed.hold(&mut client, "k").await, "held");
        }
        let before = bed.database.number(image).await;
        for wrong in [stale, Uuid::new_v4(), Uuid::nil(), Uuid::max()] {
            for (function, more) in WRITES {
                assert!(!client.write(function, "k", wrong, more).await, "{function} {place} with {wrong}");
            }
            assert_eq!(client.send_intent("k", wrong, None).await, "lost", "{place}");
        }
        assert_eq!(bed.database.number(image).await, before, "{place}");
    }
    assert!(client.write("renew_lease", "k", taken, "").await, "the right one still writes, also among the held");
}

#[tokio::test]
async fn after_a_lost_commit_the_same_write_says_false_and_the_claim_replays() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let claim = client.claim("k").await;
    assert!(client.complete("k", claim.token()).await);
    assert!(!client.complete("k", claim.token()).await);
    assert_eq!(client.claim("k").await.outcome, "replay");
}

#[tokio::test]
async fn every_function_works_on_a_held_key() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    client.claim("k").await;
    let later = bed.noon + TimeDelta::days(2);
    client.at(later).await;
    assert_eq!(bed.hold(&mut client, "k").await, "held");
    assert_eq!(bed.hold(&mut client, "k").await, "gone");
    assert_eq!(bed.database.number("SELECT count(*) FROM idem.idempotency_keys").await, 0);

    let claim = client.claim("k").await;
    assert_eq!((claim.outcome.as_str(), claim.epoch, claim.created_at), ("resumed", Some(2), Some(bed.noon)));
    assert_eq!(client.claim("k").await.outcome, "in_progress");
    assert_eq!(client.try_claim("k", ENDPOINT, &[8; 32], "1 hour").await.unwrap().outcome, "mismatch");
    let lease = claim.token();
    assert!(client.write("renew_lease", "k", lease, "interval '10 minutes'").await);
    assert_eq!(client.send_intent("k", lease, Some("24 hours")).await, "ok");
    assert!(client.write("release_key", "k", lease, "").await);
    let lease = client.claim("k").await.token();
    assert!(client.write("fail_key", "k", lease, "'declined', NULL, 'definitive'").await);
    let lease = client.claim("k").await.token();
    assert!(client.write("checkpoint", "k", lease, "'charged', 'ch_1'").await);
    assert!(client.complete("k", lease).await);
    let replay = client.claim("k").await;
    assert_eq!((replay.outcome.as_str(), replay.code), ("replay", Some(201)));
    assert_eq!(bed.database.number("SELECT replays::bigint FROM idem.held_keys").await, 1);

    client.at(later + TimeDelta::hours(72)).await;
    let anew = client.claim("k").await;
    assert_eq!((anew.outcome.as_str(), anew.epoch), ("claimed", Some(1)), "expired: used anew, in today's day");
    assert_eq!(bed.database.number("SELECT count(*) FROM idem.held_keys").await, 0);
    assert_eq!(bed.rows("k").await, 1);
}

#[tokio::test]
async fn holding_a_key_respects_its_lease_and_its_expiry() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let claim = client.claim_for("k", "4 hours").await;
    assert_eq!(bed.hold(&mut client, "k").await, "live_lease");
    assert_eq!(bed.hold(&mut client, "never seen").await, "gone");
    client.complete("k", claim.token()).await;
    client.at(bed.noon + TimeDelta::hours(4)).await;
    assert_eq!(bed.hold(&mut client, "k").await, "gone", "finished and expired: the day may take it along");
    client.at(bed.noon + TimeDelta::hours(4) - TimeDelta::seconds(1)).await;
    assert_eq!(bed.hold(&mut client, "k").await, "held", "finished, but a client may still ask");
    assert_eq!(client.claim("k").await.outcome, "replay");
}

#[tokio::test]
async fn a_holder_whose_key_was_held_meanwhile_can_still_finish_it() {
    let bed = KeysBed::new().await;
    let (mut slow, mut night) = (bed.client().await, bed.client().await);
    let lease = slow.claim("k").await.token();
    night.at(bed.noon + TimeDelta::minutes(5)).await;
    assert_eq!(bed.hold(&mut night, "k").await, "held");
    assert!(slow.complete("k", lease).await, "nobody took over: the work counts");
    assert_eq!(night.claim("k").await.outcome, "replay");
}

#[tokio::test]
async fn past_the_providers_window_no_retry_may_call_it_again() {
    let bed = KeysBed::new().await;
    // 10 % of the window count as over.
    for (window, last_moment) in [(Some("24 hours"), 24 * 3_600 * 9 / 10), (Some("30 minutes"), 30 * 60 * 9 / 10)] {
        let key = format!("window {window:?}");
        let mut client = bed.client().await;
        let lease = client.claim(&key).await.token();
        assert_eq!(client.send_intent(&key, lease, window).await, "ok");
        // It died after the charge. Until the window is over a retry may send the same key again.
        client.at(bed.noon + TimeDelta::seconds(last_moment - 1)).await;
        let resumed = client.claim(&key).await;
        assert_eq!(resumed.outcome, "resumed", "{key}");
        assert_eq!(client.send_intent(&key, resumed.token(), Some("100 days")).await, "ok", "{key}");
        // The holder's own lease goes on past the window: it is told.
        client.write("renew_lease", &key, resumed.token(), "interval '2 minutes'").await;
        client.at(bed.noon + TimeDelta::seconds(last_moment)).await;
        assert_eq!(client.send_intent(&key, resumed.token(), Some("100 days")).await, "window_over", "{key}");
        assert!(client.write("release_key", &key, resumed.token(), "").await);
        let mut calls = 0;
        for hours in [0, 1, 24, 71] {
            client.at(bed.noon + TimeDelta::seconds(last_moment) + TimeDelta::hours(hours)).await;
            let retry = client.claim(&key).await;
            assert_eq!((retry.outcome.as_str(), retry.lease), ("in_progress", None), "{key} after {hours} h");
            assert!(retry.retry_after_s.is_some_and(|s| (1..=300).contains(&s)), "{retry:?}");
            calls += i32::from(retry.lease.is_some());
        }
        assert_eq!(calls, 0);
    }
}

#[tokio::test]
async fn a_provider_whose_window_is_unknown_is_called_once() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let lease = client.claim("k").await.token();
    assert_eq!(client.send_intent("k", lease, None).await, "ok");
    assert_eq!(
        client.send_intent("k", lease, Some("24 hours")).await,
        "window_over",
        "the first intent's window counts"
    );
    client.write("release_key", "k", lease, "").await;
    assert_eq!(client.claim("k").await.outcome, "in_progress");
}

#[tokio::test]
async fn a_lease_that_has_run_out_starts_no_call() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let lease = client.claim("k").await.token();
    client.at(bed.noon + TimeDelta::seconds(60)).await;
    assert_eq!(client.send_intent("k", lease, Some("24 hours")).await, "lost");
    assert!(client.write("renew_lease", "k", lease, "").await, "nobody took it: it may be prolonged");
    assert_eq!(client.send_intent("k", lease, Some("24 hours")).await, "ok");
}

#[tokio::test]
async fn one_key_is_sent_to_one_provider_under_one_provider_key() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let lease = client.claim("k").await.token();
    client.send_intent("k", lease, Some("24 hours")).await;
    for (provider, provider_key) in [("stripe", "another"), ("adyen", "ik_k")] {
        let refused = client.try_send_intent("k", lease, provider, provider_key, Some("24 hours")).await;
        let (message, state) = refusal(refused.unwrap_err());
        assert_eq!(
            (message.as_str(), state.as_str()),
            ("this key was sent to stripe as ik_k, it cannot be sent as another one", "22023")
        );
    }
    assert!(client.write("checkpoint", "k", lease, "'charged', 'ch_1'").await);
    let (message, _) = refusal(client.try_write("checkpoint", "k", lease, "'charged', 'ch_2'").await.unwrap_err());
    assert_eq!(message, "this key has the charge ch_1 already, it cannot have ch_2 too");
    let sent = client.try_send_intent("k", lease, "stripe", "ik_k", Some("24 hours")).await;
    assert_eq!(
        refusal(sent.unwrap_err()).0,
        "the provider's answer ch_1 is recorded already: there is nothing left to send"
    );
}

#[tokio::test]
async fn what_may_have_been_charged_is_neither_failed_nor_called_a_success() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let lease = client.claim("k").await.token();
    client.send_intent("k", lease, Some("24 hours")).await;
    let (message, state) = refusal(client.try_write("fail_key", "k", lease, "'timeout'").await.unwrap_err());
    assert_eq!(message, "a call to stripe was begun and may have succeeded: release the key instead");
    assert_eq!(state, "55000");
    let (message, _) = refusal(client.try_write("complete_key", "k", lease, "201").await.unwrap_err());
    assert_eq!(message, "a call to stripe was begun and its result is not recorded: call idem.checkpoint before a 201");
    assert!(client.write("complete_key", "k", lease, "402, NULL, 'declined'").await, "a decline is an answer");
}

#[tokio::test]
async fn the_request_is_kept_while_it_may_be_needed_and_cleared_with_the_answer() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    client
        .sql(
            "SELECT idem.claim_key('acct', 'k', 'POST /p', sha256('x'), 'POST', '/p?x=1', '{\"a\": \"b\"}', 'body',
                                   lease => '1 second', owner => 'pod-1')",
        )
        .await;
    let kept = "SELECT count(*) FROM idem.idempotency_keys WHERE request_method = 'POST' AND request_path = '/p?x=1'
                   AND request_headers->>'a' = 'b' AND request_body = 'body' AND lease_owner = 'pod-1'";
    assert_eq!(bed.database.number(kept).await, 1);
    client.sql("SELECT idem.complete_key('acct', 'k', lease_id, 200) FROM idem.idempotency_keys").await;
    let cleared = "SELECT count(*) FROM idem.idempotency_keys
                    WHERE status = 'completed'
                      AND num_nonnulls(request_method, request_path, request_headers, request_body) = 0";
    assert_eq!(bed.database.number(cleared).await, 1);
}

#[tokio::test]
async fn a_wrong_call_is_refused_in_words() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    let long = "k".repeat(256);
    let table = [
        ("k", ENDPOINT, &HASH[..], "73 hours", "a ttl of 73:00:00 is not between 0 and the retention of 72:00:00"),
        ("k", ENDPOINT, &HASH[..], "0", "a ttl of 00:00:00 is not between 0 and the retention of 72:00:00"),
        ("", ENDPOINT, &HASH[..], "1 hour", "a length is out of range: key 0 bytes (1 to 255)"),
        (&long, ENDPOINT, &HASH[..], "1 hour", "a length is out of range: key 256 bytes (1 to 255)"),
        (
            "k",
            "",
            &HASH[..],
            "1 hour",
            "a length is out of range: key 1 bytes (1 to 255), account 4 (at most 255), endpoint 0",
        ),
        (
            "k",
            ENDPOINT,
            &HASH[..8],
            "1 hour",
            "a length is out of range: key 1 bytes (1 to 255), account 4 (at most 255), endpoint 17 (1 to 255), request_hash 8",
        ),
    ];
    for (key, endpoint, hash, ttl, wanted) in table {
        let (message, state) = client.refused(key, endpoint, hash, ttl).await;
        assert!(message.starts_with(wanted), "{message}");
        assert_eq!(state, "22023");
    }
    for (call, wanted) in [
        (
            "claim_key(NULL, 'k', 'e', sha256(''))",
            "account, key, endpoint, request_hash, ttl and lease must not be NULL",
        ),
        (
            "claim_key('a', 'k', 'e', sha256(''), lease => '0')",
            "a lease of 00:00:00 is not between 1 second and 1 hour",
        ),
        (
            "claim_key('a', 'k', 'e', sha256(''), lease => '2 days')",
            "a lease of 2 days is not between 1 second and 1 hour",
        ),
        ("claim_message('c', '')", "claim_message needs a consumer and a message_id of 1 to 255 bytes each"),
        (
            "renew_lease('a', 'k', gen_random_uuid(), '2 hours')",
            "a lease of 02:00:00 is not between 1 second and 1 hour",
        ),
        (
            "checkpoint('a', 'k', gen_random_uuid(), 'done')",
            "a checkpoint has a name of 1 to 64 bytes other than started and done, not \"done\"",
        ),
        (
            "complete_key('a', 'k', gen_random_uuid(), 42)",
            "an answer has a code from 100 to 599, a body of at most 1 MiB and headers of at most 64 KiB, not 42 with 0 and 0 bytes",
        ),
        (
            "fail_key('a', 'k', gen_random_uuid(), NULL)",
            "fail_key needs an error class, and a provider_answer that is unknown or definitive",
        ),
    ] {
        let error = bed.database.sql(&format!("SELECT idem.{call}")).await.unwrap_err();
        assert_eq!(refusal(error).0, wanted, "{call}");
    }
    assert_eq!(bed.database.number("SELECT count(*) FROM idem.idempotency_keys").await, 0);
}

#[tokio::test]
async fn a_day_without_partition_fails_the_claim_loudly() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    client.at(bed.noon + TimeDelta::days(6)).await;
    let (message, state) = client.refused("k", ENDPOINT, &HASH, "1 hour").await;
    assert_eq!(
        (message.as_str(), state.as_str()),
        ("no partition of relation \"idempotency_keys\" found for row", "23514")
    );
}

#[tokio::test]
async fn the_home_day_is_utc_in_every_session() {
    let bed = KeysBed::new().await;
    for (at, zone) in ["Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"].into_iter().enumerate() {
        let mut client = bed.client().await;
        client.sql(&format!("SET TIME ZONE '{zone}'; SET DateStyle = 'SQL, DMY'; SET search_path = ''")).await;
        client.at(bed.midnight() - TimeDelta::milliseconds(1)).await;
        let claim = client.claim(&format!("before {at}")).await;
        // A day's ttl is 24 hours, also where the clocks are turned.
        client.complete(&format!("before {at}"), claim.token()).await;
        client.at(bed.midnight()).await;
        client.claim(&format!("after {at}")).await;
    }
    let first = bed.noon.date_naive();
    let days = format!(
        "SELECT count(*) FROM idem.idempotency_keys
                         WHERE (day = '{first}') = (key LIKE 'before%') AND day <= date '{first}' + 1"
    );
    assert_eq!(bed.database.number(&days).await, 6);
    let lives = "SELECT count(DISTINCT extract(epoch FROM expires_at - completed_at))::bigint
                   FROM idem.idempotency_keys WHERE status = 'completed'";
    assert_eq!(bed.database.number(lives).await, 1);
}

#[tokio::test]
async fn a_claim_looks_at_the_days_up_to_today_only() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    client.at(bed.midnight() + TimeDelta::hours(12)).await;
    client.sql("BEGIN").await;
    client.claim("k").await;
    let looked_at: Vec<String> = sqlx::query_scalar(
        "SELECT relname::text FROM pg_stat_xact_user_tables
          WHERE relname LIKE 'idempotency_keys_y%' AND (idx_scan > 0 OR seq_scan > 0) ORDER BY 1",
    )
    .fetch_all(&mut client.session)
    .await
    .unwrap();
    client.sql("ROLLBACK").await;
    let suffix = |days| (bed.noon + TimeDelta::days(days)).format("idempotency_keys_y%Ym%md%d").to_string();
    assert_eq!(looked_at, [suffix(0), suffix(1)]);
}

#[tokio::test]
async fn a_second_claim_waits_for_the_first_ones_transaction_and_then_sees_its_end() {
    let bed = KeysBed::new().await;
    for (end, wanted) in [("COMMIT", "replay"), ("ROLLBACK", "claimed")] {
        let (mut one, mut two) = (bed.client().await, bed.client().await);
        // Opened before midnight, still open after it.
        one.at(bed.midnight() - TimeDelta::minutes(10)).await;
        two.at(bed.midnight() + TimeDelta::minutes(10)).await;
        one.sql("BEGIN").await;
        let claim = one.claim(end).await;
        one.complete(end, claim.token()).await;
        let waiting = tokio::spawn(async move { two.claim(end).await });
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        while bed.database.number(waits).await == 0 {
            assert!(!waiting.is_finished(), "the second claim did not wait");
        }
        one.sql(end).await;
        assert_eq!(waiting.await.unwrap().outcome, wanted, "{end}");
    }
}

#[tokio::test]
async fn counting_an_answer_waits_for_nobody() {
    let bed = KeysBed::new().await;
    let mut holder = bed.client().await;
    holder.claim("k").await;
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut client = bed.client().await;
        client.sql("SET lock_timeout = '2s'; BEGIN").await;
        assert_eq!(client.try_claim("k", "POST /other", &HASH, "1 hour").await.unwrap().outcome, "mismatch");
        // The advisory lock is the key's; end the claim's hold on it but keep the count's row locked.
        client.sql("COMMIT; BEGIN; SELECT idem.count_answer(current_date, 'POST /other', 'replay')").await;
        open.push(client);
    }
    for client in &mut open {
        client.sql("COMMIT").await;
    }
    assert_eq!(bed.database.number("SELECT sum(replays + mismatches)::bigint FROM idem.key_stats").await, 8);
}

#[tokio::test]
async fn the_provider_key_is_derived_from_account_key_and_step_alone() {
    let bed = KeysBed::with_real_clock().await;
    let mut session = bed.database.session().await;
    let mut seen = std::collections::BTreeSet::new();
    for (account, key, step) in [
        ("ab", "c", "charge"),
        ("a", "bc", "charge"),
        ("a", "b", "refund:1"),
        ("a", "b", "refund:2"),
        ("é", "ß", "charge"),
    ] {
        let found: String = sqlx::query_scalar("SELECT idem.provider_key($1, $2, $3)")
            .bind(account)
            .bind(key)
            .bind(step)
            .fetch_one(&mut session)
            .await
            .unwrap();
        let mut hash = Sha256::new();
        for part in [account, key] {
            hash.update(u32::try_from(part.len()).unwrap().to_be_bytes());
            hash.update(part);
        }
        hash.update(step);
        let bytes: [u8; 16] = hash.finalize()[..16].try_into().unwrap();
        assert_eq!(found, format!("ik1_{:032x}", u128::from_be_bytes(bytes)));
        assert_eq!(found.len(), 36);
        assert!(seen.insert(found));
    }
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_key_with_and_without_quotes_is_one_key() {
    let bed = KeysBed::with_real_clock().await;
    let mut session = bed.database.session().await;
    for (header, wanted) in [
        ("abc", Ok("abc")),
        ("\"abc\"", Ok("abc")),
        (" \t\"abc\" ", Ok("abc")),
        (r#""a\"b\\c""#, Ok(r#"a"b\c"#)),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", Ok("8e03978e-40d5-43dd-bc93-6894a57f9324")),
        ("\"", Ok("\"")),
        ("", Err("the request carries no idempotency key")),
        ("\"\"", Err("the request carries no idempotency key")),
        ("é", Err("the idempotency key holds characters outside of printable ASCII")),
        ("a\nb", Err("the idempotency key holds characters outside of printable ASCII")),
    ] {
        let found: Result<String, _> =
            sqlx::query_scalar("SELECT idem.key_from_header($1)").bind(header).fetch_one(&mut session).await;
        match (found, wanted) {
            (Ok(found), wanted) => assert_eq!(Ok(found.as_str()), wanted, "{header:?}"),
            (Err(error), wanted) => {
                let (message, state) = refusal(error);
                assert_eq!((Err(message.as_str()), state.as_str()), (wanted, "22023"), "{header:?}");
            }
        }
    }
    session.close().await.unwrap();
}

#[tokio::test]
async fn no_function_is_everybodys() {
    let bed = KeysBed::with_real_clock().await;
    let open = "SELECT count(*) FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                 WHERE p.pronamespace = 'idem'::regnamespace AND a.grantee = 0";
    assert_eq!(bed.database.number(open).await, 0);
    let loose = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'idem'::regnamespace AND prosecdef
                    AND NOT coalesce(proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], false)";
    assert_eq!(bed.database.number(loose).await, 0, "SECURITY DEFINER without a fixed search_path");
    let clocks = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'idem'::regnamespace
                    AND (prosrc ~* '\\mnow\\(\\)|current_timestamp|idem_test' OR prosrc ~ 'statement_timestamp')";
    assert_eq!(bed.database.number(clocks).await, 0, "one clock, and no other way to set it");
}

#[tokio::test]
async fn an_odd_key_is_a_key_like_any_other() {
    let bed = KeysBed::new().await;
    let mut client = bed.client().await;
    for key in ["'; DROP TABLE x --", "$1", "é", " ", "%", "\u{1F4B8}", "NULL"] {
        let claim = client.claim(key).await;
        assert_eq!(claim.outcome, "claimed", "{key:?}");
        assert!(client.complete(key, claim.token()).await, "{key:?}");
        assert_eq!(client.claim(key).await.outcome, "replay", "{key:?}");
    }
    assert_eq!(client.claim("É").await.outcome, "claimed", "keys compare byte by byte");
    assert_eq!(bed.database.number("SELECT count(*) FROM idem.idempotency_keys").await, 8);
}
