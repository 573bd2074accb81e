-- The inbox: a consumer works off each message once, however often the broker delivers it, also across midnight.
--
-- The same rules as for keys (see the claim), without a lease: the claim stands in the transaction of the consumer's own
-- effects, so that both are committed or neither is.

-- True: new, do the work and COMMIT both. False: worked off before, acknowledge it and do nothing. A second delivery at
-- the same time waits for the first one's transaction.
CREATE FUNCTION idem.claim_message(consumer text, message_id text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan AS
$$
DECLARE
    clock_error CONSTANT interval := interval '5 minutes';
    at          timestamptz;
BEGIN
    IF consumer IS NULL OR message_id IS NULL OR octet_length(consumer) NOT BETWEEN 1 AND 255
       OR octet_length(message_id) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'claim_message needs a consumer and a message_id of 1 to 255 bytes each'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'claim_message needs READ COMMITTED, this transaction is %',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'invalid_transaction_state',
                  DETAIL = 'An older snapshot does not see the claim of another consumer: the message would be worked off twice.',
                  HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
    END IF;
    -- Its own statement: those after it see what the previous holder of the lock has committed.
    PERFORM pg_advisory_xact_lock(hashtextextended(claim_message.message_id, hashtextextended(claim_message.consumer, 2)));
    at := clock_timestamp();
    PERFORM FROM idem.processed_messages m
      WHERE m.consumer = claim_message.consumer AND m.message_id = claim_message.message_id
        AND m.day <= ((at + clock_error) AT TIME ZONE 'UTC')::date;
    IF FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO idem.processed_messages (day, consumer, message_id, processed_at)
    VALUES ((at AT TIME ZONE 'UTC')::date, claim_message.consumer, claim_message.message_id, at);
    RETURN true;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA idem FROM PUBLIC;
