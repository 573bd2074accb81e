-- What the holder of a lease writes, and how a key leaves its day.
--
-- Each write names the lease's token, and changes nothing when the row has another one by now: false (or 'lost') tells
-- the caller that somebody else took over, or that its own earlier write had been committed after all. It then claims
-- again. A row is in the partition of its home day, which the token names, or among the held keys.

-- The facts that decide a write, with the row locked; NULL when the lease is not the row's any more.
CREATE TYPE idem.leased_row AS (
    is_held                boolean,
    locked_until           timestamptz,
    recovery_point         text,
    provider               text,
    provider_key           text,
    provider_key_window    interval,
    provider_first_sent_at timestamptz,
    provider_charge_id     text
);

CREATE FUNCTION idem.lock_leased_row(account text, key text, lease_id uuid) RETURNS idem.leased_row
    LANGUAGE plpgsql VOLATILE AS
$$
DECLARE
    found_row idem.leased_row;
    home_day  date := idem.lease_day(lease_id);
BEGIN
    SELECT false, k.locked_until, k.recovery_point, k.provider, k.provider_key, k.provider_key_window,
           k.provider_first_sent_at, k.provider_charge_id INTO found_row
      FROM idem.idempotency_keys k
     WHERE k.account_id = lock_leased_row.account AND k.key = lock_leased_row.key AND k.day = home_day
       AND k.lease_id = lock_leased_row.lease_id
       FOR UPDATE;
    IF NOT FOUND THEN
        SELECT true, h.locked_until, h.recovery_point, h.provider, h.provider_key, h.provider_key_window,
               h.provider_first_sent_at, h.provider_charge_id INTO found_row
          FROM idem.held_keys h
         WHERE h.account_id = lock_leased_row.account AND h.key = lock_leased_row.key
           AND h.lease_id = lock_leased_row.lease_id
           FOR UPDATE;
    END IF;
    RETURN found_row;
END
$$;

-- Prolongs the lease: it then ends `lease` from now.
CREATE FUNCTION idem.renew_lease(account text, key text, lease_id uuid, lease interval DEFAULT interval '60 seconds')
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    home_day date := idem.lease_day(lease_id);
    until    timestamptz := clock_timestamp() + idem.in_seconds(lease);
BEGIN
    IF lease IS NULL OR lease NOT BETWEEN interval '1 second' AND interval '1 hour' THEN
        RAISE EXCEPTION 'a lease of % is not between 1 second and 1 hour', lease
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE idem.idempotency_keys k SET locked_until = until, next_attempt_at = until
     WHERE k.account_id = renew_lease.account AND k.key = renew_lease.key AND k.day = home_day
       AND k.lease_id = renew_lease.lease_id;
    IF NOT FOUND THEN
        UPDATE idem.held_keys h SET locked_until = until, next_attempt_at = until
         WHERE h.account_id = renew_lease.account AND h.key = renew_lease.key AND h.lease_id = renew_lease.lease_id;
    END IF;
    RETURN FOUND;
END
$$;

-- The intent to call the provider; COMMIT it before the call. Answers
--   ok           call now, with this provider key and no other
--   lost         the lease is not yours any more, or has run out
--   window_over  the provider may have forgotten the key since the first call: do not call, release the key
-- The window of the first intent counts; an unknown one (NULL) is 0, so that nothing is ever sent twice.
CREATE FUNCTION idem.send_intent(account text, key text, lease_id uuid, provider text, provider_key text,
                                 key_window interval DEFAULT NULL, provider_ref text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    home_day  date := idem.lease_day(lease_id);
    found_row idem.leased_row;
    at        timestamptz;
    kept      interval := idem.in_seconds(coalesce(key_window, interval '0'));
BEGIN
    IF provider IS NULL OR provider_key IS NULL OR octet_length(provider_key) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'send_intent needs a provider, and a provider_key of 1 to 255 bytes'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    found_row := idem.lock_leased_row(account, key, lease_id);
    at := clock_timestamp();
    IF found_row.is_held IS NULL OR found_row.locked_until <= at THEN
        RETURN 'lost';
    END IF;
    IF found_row.provider_charge_id IS NOT NULL THEN
        RAISE EXCEPTION 'the provider''s answer % is recorded already: there is nothing left to send',
            found_row.provider_charge_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF (found_row.provider, found_row.provider_key) <> (send_intent.provider, send_intent.provider_key) THEN
        RAISE EXCEPTION 'this key was sent to % as %, it cannot be sent as another one',
            found_row.provider, found_row.provider_key USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF idem.is_window_over(found_row.provider_first_sent_at, found_row.provider_key_window, at) THEN
        RETURN 'window_over';
    END IF;
    IF found_row.is_held THEN
        UPDATE idem.held_keys h
           SET provider = send_intent.provider, provider_key = send_intent.provider_key,
               provider_ref = coalesce(h.provider_ref, send_intent.provider_ref),
               provider_key_window = coalesce(h.provider_key_window, kept),
               provider_first_sent_at = coalesce(h.provider_first_sent_at, at), provider_last_sent_at = at
         WHERE h.account_id = send_intent.account AND h.key = send_intent.key;
    ELSE
        UPDATE idem.idempotency_keys k
           SET provider = send_intent.provider, provider_key = send_intent.provider_key,
               provider_ref = coalesce(k.provider_ref, send_intent.provider_ref),
               provider_key_window = coalesce(k.provider_key_window, kept),
               provider_first_sent_at = coalesce(k.provider_first_sent_at, at), provider_last_sent_at = at
         WHERE k.account_id = send_intent.account AND k.key = send_intent.key AND k.day = home_day;
    END IF;
    RETURN 'ok';
END
$$;

-- The work has come this far; whoever resumes it goes on from here. Recording the provider's charge ends the calls.
CREATE FUNCTION idem.checkpoint(account text, key text, lease_id uuid, recovery_point text,
                                provider_charge_id text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    home_day  date := idem.lease_day(lease_id);
    found_row idem.leased_row;
BEGIN
    IF recovery_point IS NULL OR recovery_point IN ('', 'started', 'done') OR octet_length(recovery_point) > 64 THEN
        RAISE EXCEPTION 'a checkpoint has a name of 1 to 64 bytes other than started and done, not "%"', recovery_point
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    found_row := idem.lock_leased_row(account, key, lease_id);
    IF found_row.is_held IS NULL THEN
        RETURN false;
    END IF;
    IF found_row.provider_charge_id <> checkpoint.provider_charge_id THEN
        RAISE EXCEPTION 'this key has the charge % already, it cannot have % too',
            found_row.provider_charge_id, checkpoint.provider_charge_id USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF found_row.is_held THEN
        UPDATE idem.held_keys h
           SET recovery_point = checkpoint.recovery_point,
               provider_charge_id = coalesce(h.provider_charge_id, checkpoint.provider_charge_id)
         WHERE h.account_id = checkpoint.account AND h.key = checkpoint.key;
    ELSE
        UPDATE idem.idempotency_keys k
           SET recovery_point = checkpoint.recovery_point,
               provider_charge_id = coalesce(k.provider_charge_id, checkpoint.provider_charge_id)
         WHERE k.account_id = checkpoint.account AND k.key = checkpoint.key AND k.day = home_day;
    END IF;
    RETURN true;
END
$$;

-- The end: the answer is saved, byte for byte, and every later claim gets it. Call it in the transaction of the
-- application's own effects.
CREATE FUNCTION idem.complete_key(account text, key text, lease_id uuid, response_code integer,
                                  response_headers jsonb DEFAULT NULL, response_body bytea DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    home_day  date := idem.lease_day(lease_id);
    found_row idem.leased_row;
    at        timestamptz;
BEGIN
    IF response_code IS NULL OR response_code NOT BETWEEN 100 AND 599 OR octet_length(response_body) > 1048576
       OR octet_length(response_headers::text) > 65536 THEN
        RAISE EXCEPTION 'an answer has a code from 100 to 599, a body of at most 1 MiB and headers of at most 64 KiB, not % with % and % bytes',
            response_code, coalesce(octet_length(response_body), 0), coalesce(octet_length(response_headers::text), 0)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Save the id of a large body instead of the body.';
    END IF;
    found_row := idem.lock_leased_row(account, key, lease_id);
    IF found_row.is_held IS NULL THEN
        RETURN false;
    END IF;
    IF response_code BETWEEN 200 AND 299 AND found_row.provider_first_sent_at IS NOT NULL
       AND found_row.recovery_point = 'started' THEN
        RAISE EXCEPTION 'a call to % was begun and its result is not recorded: call idem.checkpoint before a %',
            found_row.provider, response_code USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    at := clock_timestamp();
    IF found_row.is_held THEN
        UPDATE idem.held_keys h
           SET status = 'completed', recovery_point = 'done', response_code = complete_key.response_code,
               response_headers = complete_key.response_headers, response_body = complete_key.response_body,
               completed_at = at, expires_at = at + h.ttl, lease_id = NULL, locked_until = NULL,
               request_method = NULL, request_path = NULL, request_headers = NULL, request_body = NULL
         WHERE h.account_id = complete_key.account AND h.key = complete_key.key;
    ELSE
        UPDATE idem.idempotency_keys k
           SET status = 'completed', recovery_point = 'done', response_code = complete_key.response_code,
               response_headers = complete_key.response_headers, response_body = complete_key.response_body,
               completed_at = at, expires_at = at + k.ttl, lease_id = NULL, locked_until = NULL,
               request_method = NULL, request_path = NULL, request_headers = NULL, request_body = NULL
         WHERE k.account_id = complete_key.account AND k.key = complete_key.key AND k.day = home_day;
    END IF;
    RETURN true;
END
$$;

-- Gives the lease back and keeps everything else: the next claim resumes at once, the completer after `retry_in`.
-- With an error class it counts as a recorded failure.
CREATE FUNCTION idem.release_key(account text, key text, lease_id uuid, retry_in interval DEFAULT interval '30 seconds',
                                 error_class text DEFAULT NULL, error text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    home_day date := idem.lease_day(lease_id);
    due      timestamptz := clock_timestamp() + idem.in_seconds(coalesce(retry_in, interval '0'));
    failed   integer := (error_class IS NOT NULL)::integer;
BEGIN
    UPDATE idem.idempotency_keys k
       SET lease_id = NULL, locked_until = NULL, next_attempt_at = due, failures = k.failures + failed,
           last_error_class = coalesce(error_class, k.last_error_class),
           last_error = coalesce(left(release_key.error, 256), k.last_error)
     WHERE k.account_id = release_key.account AND k.key = release_key.key AND k.day = home_day
       AND k.lease_id = release_key.lease_id;
    IF NOT FOUND THEN
        UPDATE idem.held_keys h
           SET lease_id = NULL, locked_until = NULL, next_attempt_at = due, failures = h.failures + failed,
               last_error_class = coalesce(error_class, h.last_error_class),
               last_error = coalesce(left(release_key.error, 256), h.last_error)
         WHERE h.account_id = release_key.account AND h.key = release_key.key
           AND h.lease_id = release_key.lease_id;
    END IF;
    RETURN FOUND;
END
$$;

-- The work failed and may be tried again: the next claim resumes it. `provider_answer` says what is known of the
-- provider: 'unknown' is refused once a call was begun (the charge may exist: release the key instead), 'definitive'
-- means that it answered that nothing was done. A failed key with an intent stays unfinished and never expires.
CREATE FUNCTION idem.fail_key(account text, key text, lease_id uuid, error_class text, error text DEFAULT NULL,
                              provider_answer text DEFAULT 'unknown') RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    home_day  date := idem.lease_day(lease_id);
    found_row idem.leased_row;
    at        timestamptz;
BEGIN
    IF error_class IS NULL OR provider_answer IS NULL OR provider_answer NOT IN ('unknown', 'definitive') THEN
        RAISE EXCEPTION 'fail_key needs an error class, and a provider_answer that is unknown or definitive'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    found_row := idem.lock_leased_row(account, key, lease_id);
    IF found_row.is_held IS NULL THEN
        RETURN false;
    END IF;
    IF found_row.provider_first_sent_at IS NOT NULL AND provider_answer <> 'definitive' THEN
        RAISE EXCEPTION 'a call to % was begun and may have succeeded: release the key instead', found_row.provider
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    at := clock_timestamp();
    IF found_row.is_held THEN
        UPDATE idem.held_keys h
           SET status = 'failed', lease_id = NULL, locked_until = NULL, next_attempt_at = at,
               failures = h.failures + 1, last_error_class = error_class, last_error = left(fail_key.error, 256),
               expires_at = CASE WHEN h.provider_first_sent_at IS NULL THEN at + h.ttl END
         WHERE h.account_id = fail_key.account AND h.key = fail_key.key;
    ELSE
        UPDATE idem.idempotency_keys k
           SET status = 'failed', lease_id = NULL, locked_until = NULL, next_attempt_at = at,
               failures = k.failures + 1, last_error_class = error_class, last_error = left(fail_key.error, 256),
               expires_at = CASE WHEN k.provider_first_sent_at IS NULL THEN at + k.ttl END
         WHERE k.account_id = fail_key.account AND k.key = fail_key.key AND k.day = home_day;
    END IF;
    RETURN true;
END
$$;

-- Moves one key out of a day that is to be removed, under the lock of its claims. Answers
--   held        it is among the held keys now
--   live_lease  somebody works on it: the day must stay
--   gone        nothing to keep: not there, or finished and expired
CREATE FUNCTION idem.hold_key(day date, account_id text, key text) RETURNS text
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    at        timestamptz;
    found_row record;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'hold_key needs READ COMMITTED' USING ERRCODE = 'invalid_transaction_state';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(hold_key.key, hashtextextended(hold_key.account_id, 1)));
    SELECT k.locked_until, k.expires_at INTO found_row FROM idem.idempotency_keys k
     WHERE k.account_id = hold_key.account_id AND k.key = hold_key.key AND k.day = hold_key.day
       FOR UPDATE;
    -- After the wait for the row: its holder may have renewed the lease meanwhile.
    at := clock_timestamp();
    IF NOT FOUND OR found_row.expires_at <= at THEN
        RETURN 'gone';
    END IF;
    IF found_row.locked_until > at THEN
        RETURN 'live_lease';
    END IF;
    INSERT INTO idem.held_keys
    SELECT at, k.* FROM idem.idempotency_keys k
     WHERE k.account_id = hold_key.account_id AND k.key = hold_key.key AND k.day = hold_key.day;
    DELETE FROM idem.idempotency_keys k
     WHERE k.account_id = hold_key.account_id AND k.key = hold_key.key AND k.day = hold_key.day;
    RETURN 'held';
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA idem FROM PUBLIC;
