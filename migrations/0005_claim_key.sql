-- The claim: at most one holder of (account, key) at any moment, across midnight, without a unique index that could say so.
--
-- Two claims of one key must not both find nothing and insert into two days. So a claim takes a transaction lock on a
-- hash of (account, key), in a statement of its own; reads the clock after it; looks into every live day and among the
-- held keys; and only then inserts. Each of these statements sees what was committed before it began: that needs a
-- VOLATILE function at READ COMMITTED, and the function refuses any other level rather than charge twice.

-- What a claim answers. `outcome` is claimed, resumed, replay, in_progress, mismatch, needs_review or stale.
CREATE TYPE idem.claim AS (
    outcome                text,
    lease_id               uuid,
    lease_epoch            bigint,
    locked_until           timestamptz,
    -- With in_progress: after how many seconds it is worth asking again.
    retry_after_s          integer,
    recovery_point         text,
    response_code          integer,
    response_headers       jsonb,
    response_body          bytea,
    -- When the key was first claimed.
    created_at             timestamptz,
    provider               text,
    provider_key           text,
    provider_ref           text,
    provider_charge_id     text,
    provider_first_sent_at timestamptz
);

-- The key inside an Idempotency-Key header. The header is a structured field, so `"abc"` is the string abc; many
-- clients send abc bare. Both are one key, or a proxy that adds the quotes would make a second charge.
CREATE FUNCTION idem.key_from_header(header text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    key text := btrim(header, E' \t');
BEGIN
    IF key ~ '^".*"$' AND length(key) >= 2 THEN
        key := regexp_replace(substr(key, 2, length(key) - 2), '\\(["\\])', '\1', 'g');
    END IF;
    IF key IS NULL OR key = '' THEN
        RAISE EXCEPTION 'the request carries no idempotency key' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(key) > 255 THEN
        RAISE EXCEPTION 'the idempotency key has % bytes, at most 255 are allowed', octet_length(key)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF key !~ '^[\x20-\x7e]+$' THEN
        RAISE EXCEPTION 'the idempotency key holds characters outside of printable ASCII'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN key;
END
$$;

-- The key for the provider: SHA-256 over lengths and bytes, so that no two (account, key) pairs can share one, and the
-- same pair has the same one for ever, also after its row is gone. 36 characters: fits a provider's 64.
-- Steps: charge, refund:1, refund:2 ...
CREATE FUNCTION idem.provider_key(account text, key text, step text DEFAULT 'charge') RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    account_bytes bytea := convert_to(account, 'UTF8');
    key_bytes     bytea := convert_to(key, 'UTF8');
BEGIN
    RETURN 'ik1_' || encode(substr(sha256(
        int4send(octet_length(account_bytes)) || account_bytes ||
        int4send(octet_length(key_bytes))     || key_bytes     ||
        convert_to(step, 'UTF8')), 1, 16), 'hex');
END
$$;

-- An interval in seconds only: '1 day' added to an instant may be 23 or 25 hours, by the session's time zone.
CREATE FUNCTION idem.in_seconds(span interval) RETURNS interval
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT make_interval(secs => date_part('epoch', span)) $$;

-- When a UUIDv7 was made, by its first 48 bits; NULL for any other text.
CREATE FUNCTION idem.uuidv7_stamp(key text) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$
    SELECT CASE WHEN key ~* '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
                THEN to_timestamp(('x0000' || substr(key, 1, 8) || substr(key, 10, 4))::bit(64)::bigint / 1000.0) END
$$;

-- Counts an answer in a row that no other transaction holds, so that nobody waits for a count.
CREATE FUNCTION idem.count_answer(day date, endpoint text, outcome text) RETURNS void
    LANGUAGE plpgsql VOLATILE AS
$$
DECLARE
    is_replay   integer := (outcome = 'replay')::integer;
    is_busy     integer := (outcome IN ('in_progress', 'needs_review'))::integer;
    is_mismatch integer := (outcome = 'mismatch')::integer;
    free_slot   uuid;
BEGIN
    -- On an older snapshot a counter that somebody moved meanwhile is an error, so there we only ever add rows.
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        SELECT s.slot INTO free_slot FROM idem.key_stats s
         WHERE s.day = count_answer.day AND s.endpoint = count_answer.endpoint
         LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF free_slot IS NULL THEN
        INSERT INTO idem.key_stats (day, endpoint, replays, in_progress, mismatches)
        VALUES (count_answer.day, count_answer.endpoint, is_replay, is_busy, is_mismatch);
    ELSE
        UPDATE idem.key_stats s
           SET replays = s.replays + is_replay, in_progress = s.in_progress + is_busy,
               mismatches = s.mismatches + is_mismatch
         WHERE s.day = count_answer.day AND s.endpoint = count_answer.endpoint AND s.slot = free_slot;
    END IF;
END
$$;

-- Whether the provider may have forgotten our key: from then on only a look at its books can tell what happened. An
-- unknown window is 0, so that it is over at once.
CREATE FUNCTION idem.is_window_over(first_sent_at timestamptz, key_window interval, at timestamptz) RETURNS boolean
    LANGUAGE plpgsql STABLE AS
$$
DECLARE
    margin_percent integer;
BEGIN
    IF first_sent_at IS NULL THEN
        RETURN false;
    END IF;
    SELECT s.window_margin_percent INTO STRICT margin_percent FROM idem.settings s;
    RETURN first_sent_at + coalesce(key_window, interval '0') * ((100 - margin_percent) / 100.0) <= at;
END
$$;

-- What a row that is there means for who asks. Outcome NULL: the row is gone (it had expired and was removed here, or
-- somebody else removed it), look again. `may_replace` is false where an expired row must not make room.
CREATE FUNCTION idem.answer_claim(account text, key text, day date, is_held boolean, endpoint text, request_hash bytea,
                                  lease interval, owner text, may_replace boolean, at timestamptz) RETURNS idem.claim
    LANGUAGE plpgsql VOLATILE AS
$$
DECLARE
    found_row record;
    answer    idem.claim;
BEGIN
    IF is_held THEN
        SELECT h.status, h.endpoint, h.request_hash, h.lease_id, h.locked_until, h.next_attempt_at, h.expires_at,
               h.created_at, h.provider_first_sent_at, h.provider_key_window INTO found_row
          FROM idem.held_keys h
         WHERE h.account_id = answer_claim.account AND h.key = answer_claim.key FOR UPDATE;
    ELSE
        SELECT k.status, k.endpoint, k.request_hash, k.lease_id, k.locked_until, k.next_attempt_at, k.expires_at,
               k.created_at, k.provider_first_sent_at, k.provider_key_window INTO found_row
          FROM idem.idempotency_keys k
         WHERE k.account_id = answer_claim.account AND k.key = answer_claim.key AND k.day = answer_claim.day FOR UPDATE;
    END IF;
    IF NOT FOUND THEN
        RETURN answer;
    END IF;

    -- Only finished work has an expiry (the table checks that), so unfinished work never makes room for a second one.
    IF found_row.expires_at <= at THEN
        IF NOT may_replace THEN
            answer.outcome := 'stale';
        ELSIF is_held THEN
            DELETE FROM idem.held_keys h WHERE h.account_id = answer_claim.account AND h.key = answer_claim.key;
        ELSE
            DELETE FROM idem.idempotency_keys k
             WHERE k.account_id = answer_claim.account AND k.key = answer_claim.key AND k.day = answer_claim.day;
        END IF;
        RETURN answer;
    END IF;

    answer.created_at := found_row.created_at;
    IF found_row.endpoint <> answer_claim.endpoint OR found_row.request_hash <> answer_claim.request_hash THEN
        answer.outcome := 'mismatch';
    ELSIF found_row.status = 'needs_review' THEN
        answer.outcome := 'needs_review';
    ELSIF found_row.status = 'completed' THEN
        answer.outcome := 'replay';
        IF is_held THEN
            UPDATE idem.held_keys h SET replays = h.replays + 1, last_replay_at = at
             WHERE h.account_id = answer_claim.account AND h.key = answer_claim.key
            RETURNING h.response_code, h.response_headers, h.response_body
                 INTO answer.response_code, answer.response_headers, answer.response_body;
        ELSE
            UPDATE idem.idempotency_keys k SET replays = k.replays + 1, last_replay_at = at
             WHERE k.account_id = answer_claim.account AND k.key = answer_claim.key AND k.day = answer_claim.day
            RETURNING k.response_code, k.response_headers, k.response_body
                 INTO answer.response_code, answer.response_headers, answer.response_body;
        END IF;
    ELSIF found_row.locked_until > at THEN
        answer.outcome := 'in_progress';
        answer.retry_after_s := ceil(extract(epoch FROM found_row.locked_until - at));
    ELSIF idem.is_window_over(found_row.provider_first_sent_at, found_row.provider_key_window, at) THEN
        -- The provider may have forgotten the key by now: another call would be another charge. Only the completer,
        -- which asks the provider what became of the first one, may go on.
        answer.outcome := 'in_progress';
        answer.retry_after_s := least(300, greatest(1, ceil(extract(epoch FROM found_row.next_attempt_at - at))));
    ELSE
        answer.outcome := 'resumed';
        answer.lease_id := idem.new_lease(answer_claim.day);
        answer.locked_until := at + lease;
        IF is_held THEN
            UPDATE idem.held_keys h
               SET status = 'in_progress', lease_id = answer.lease_id, lease_owner = answer_claim.owner,
                   locked_until = answer.locked_until, next_attempt_at = answer.locked_until,
                   lease_epoch = h.lease_epoch + 1, expires_at = NULL
             WHERE h.account_id = answer_claim.account AND h.key = answer_claim.key
            RETURNING h.lease_epoch, h.recovery_point, h.provider, h.provider_key, h.provider_ref,
                      h.provider_charge_id, h.provider_first_sent_at
                 INTO answer.lease_epoch, answer.recovery_point, answer.provider, answer.provider_key,
                      answer.provider_ref, answer.provider_charge_id, answer.provider_first_sent_at;
        ELSE
            UPDATE idem.idempotency_keys k
               SET status = 'in_progress', lease_id = answer.lease_id, lease_owner = answer_claim.owner,
                   locked_until = answer.locked_until, next_attempt_at = answer.locked_until,
                   lease_epoch = k.lease_epoch + 1, expires_at = NULL
             WHERE k.account_id = answer_claim.account AND k.key = answer_claim.key AND k.day = answer_claim.day
            RETURNING k.lease_epoch, k.recovery_point, k.provider, k.provider_key, k.provider_ref,
                      k.provider_charge_id, k.provider_first_sent_at
                 INTO answer.lease_epoch, answer.recovery_point, answer.provider, answer.provider_key,
                      answer.provider_ref, answer.provider_charge_id, answer.provider_first_sent_at;
        END IF;
    END IF;
    IF answer.outcome <> 'resumed' THEN
        PERFORM idem.count_answer((at AT TIME ZONE 'UTC')::date, answer_claim.endpoint, answer.outcome);
    END IF;
    RETURN answer;
END
$$;

CREATE FUNCTION idem.claim_key(
    account      text,
    key          text,
    endpoint     text,
    request_hash bytea,
    method       text     DEFAULT NULL,
    path         text     DEFAULT NULL,
    headers      jsonb    DEFAULT NULL,
    body         bytea    DEFAULT NULL,
    ttl          interval DEFAULT interval '72 hours',
    lease        interval DEFAULT interval '60 seconds',
    owner        text     DEFAULT NULL
) RETURNS idem.claim
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    clock_error CONSTANT interval := interval '5 minutes';
    answer    idem.claim;
    locked    text;
    at        timestamptz;
    retention interval;
    since     timestamptz;
    -- The fast path: when the key was made. NULL on the other path.
    stamp     timestamptz;
    is_stale  boolean := false;
    home_day  date;
    -- Where a row of this key may be.
    first_day date := '-infinity';
    last_day  date;
    found_day date;
    is_held   boolean;
    token     uuid;
    until     timestamptz;
BEGIN
    IF account IS NULL OR key IS NULL OR endpoint IS NULL OR request_hash IS NULL OR ttl IS NULL OR lease IS NULL THEN
        RAISE EXCEPTION 'account, key, endpoint, request_hash, ttl and lease must not be NULL'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(key) NOT BETWEEN 1 AND 255 OR octet_length(account) > 255
       OR octet_length(endpoint) NOT BETWEEN 1 AND 255 OR octet_length(request_hash) NOT BETWEEN 16 AND 64
       OR octet_length(body) > 1048576 OR octet_length(headers::text) > 65536 THEN
        RAISE EXCEPTION 'a length is out of range: key % bytes (1 to 255), account % (at most 255), endpoint % (1 to 255), request_hash % (16 to 64), body % (at most 1 MiB), headers % (at most 64 KiB)',
            octet_length(key), octet_length(account), octet_length(endpoint), octet_length(request_hash),
            coalesce(octet_length(body), 0), coalesce(octet_length(headers::text), 0)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF lease NOT BETWEEN interval '1 second' AND interval '1 hour' THEN
        RAISE EXCEPTION 'a lease of % is not between 1 second and 1 hour', lease
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT s.retention, (s.uuidv7_since ->> claim_key.endpoint)::timestamptz INTO STRICT retention, since
      FROM idem.settings s;
    IF ttl <= interval '0' OR ttl > retention THEN
        RAISE EXCEPTION 'a ttl of % is not between 0 and the retention of %', ttl, retention
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The retention of idem.idempotency_keys stands in jobs.toml.';
    END IF;

    -- Which path is a pure function of endpoint and key: two claims of one key never take different ones.
    IF since IS NOT NULL THEN
        stamp := idem.uuidv7_stamp(key);
        IF stamp < since THEN
            stamp := NULL;
        END IF;
    END IF;
    IF stamp IS NULL THEN
        IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
            RAISE EXCEPTION 'claim_key needs READ COMMITTED, this transaction is %',
                upper(current_setting('transaction_isolation'))
                USING ERRCODE = 'invalid_transaction_state',
                      DETAIL = 'An older snapshot does not see the claim of another client: the key would be given twice.',
                      HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
        END IF;
        -- Its own statement: those after it see what the previous holder of the lock has committed.
        locked := pg_advisory_xact_lock(hashtextextended(claim_key.key, hashtextextended(claim_key.account, 1)));
    END IF;
    -- Read after the lock: who waited across midnight is in the new day.
    at := clock_timestamp();
    IF stamp IS NULL THEN
        home_day := (at AT TIME ZONE 'UTC')::date;
        -- Shortly before midnight tomorrow counts: another server may have been ahead of this one's clock.
        last_day := ((at + clock_error) AT TIME ZONE 'UTC')::date;
    ELSE
        IF stamp > at + clock_error THEN
            RAISE EXCEPTION 'the UUIDv7 key was made % in the future', stamp - at
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Synchronise the clock of the machine that makes the keys.';
        END IF;
        home_day := (stamp AT TIME ZONE 'UTC')::date;
        first_day := home_day;
        last_day := home_day;
        -- An hour before the day may be removed: no claim takes so long from here to its insert.
        is_stale := (home_day + 1)::timestamp AT TIME ZONE 'UTC' + idem.in_seconds(retention) <= at + interval '1 hour';
    END IF;

    -- A row that vanishes between two looks was removed by its owner's leave; three times in a row it is a fault.
    FOR attempt IN 1..3 LOOP
        found_day := NULL;
        IF stamp IS NULL OR is_stale THEN
            SELECT f.day, f.is_held INTO found_day, is_held
              FROM (SELECT k.day, false AS is_held FROM idem.idempotency_keys k
                     WHERE k.account_id = claim_key.account AND k.key = claim_key.key
                       AND k.day BETWEEN first_day AND last_day
                    UNION ALL
                    SELECT h.day, true FROM idem.held_keys h
                     WHERE h.account_id = claim_key.account AND h.key = claim_key.key) f;
        END IF;
        IF found_day IS NULL AND is_stale THEN
            answer.outcome := 'stale';
            RETURN answer;
        END IF;
        IF found_day IS NULL THEN
            token := idem.new_lease(home_day);
            until := at + idem.in_seconds(lease);
            INSERT INTO idem.idempotency_keys AS k
                   (day, account_id, key, endpoint, request_hash, request_method, request_path, request_headers,
                    request_body, lease_id, lease_owner, locked_until, lease_epoch, next_attempt_at, ttl, created_at)
            VALUES (home_day, claim_key.account, claim_key.key, claim_key.endpoint, claim_key.request_hash,
                    claim_key.method, claim_key.path, claim_key.headers, claim_key.body, token,
                    claim_key.owner, until, 1, until, idem.in_seconds(claim_key.ttl), at)
            ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                found_day := home_day;
                is_held := false;
            ELSIF stamp IS NOT NULL THEN
                -- Without the lock the key may have moved among the held ones just now; there it counts.
                SELECT h.day, true INTO found_day, is_held FROM idem.held_keys h
                 WHERE h.account_id = claim_key.account AND h.key = claim_key.key;
                IF FOUND THEN
                    DELETE FROM idem.idempotency_keys k
                     WHERE k.account_id = claim_key.account AND k.key = claim_key.key AND k.day = home_day;
                END IF;
            END IF;
            IF found_day IS NULL THEN
                RETURN ('claimed', token, 1, until, NULL, 'started', NULL, NULL, NULL, at,
                        NULL, NULL, NULL, NULL, NULL)::idem.claim;
            END IF;
        END IF;
        answer := idem.answer_claim(account, key, found_day, is_held, endpoint, request_hash, idem.in_seconds(lease),
                                    owner, NOT is_stale, at);
        IF answer.outcome IS NOT NULL THEN
            RETURN answer;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'the idempotency key changed three times while it was claimed'
        USING ERRCODE = 'serialization_failure', HINT = 'Claim again.';
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA idem FROM PUBLIC;
