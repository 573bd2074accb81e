-- The idempotency keys, by day, and what stands around them.
--
-- A key lives in the partition of its home day (UTC), so that a day leaves with DROP TABLE and not with millions of
-- DELETEs. PostgreSQL cannot keep (account, key) unique across days; `idem.claim_key` does that, and is the only way in.
-- There is no default partition (it forbids DETACH CONCURRENTLY: a missing day must fail the insert loudly instead) and
-- no foreign key in or out (dropping a day must lock nobody else's table). Keys and accounts compare byte by byte,
-- whatever the operating system thinks of the alphabet this year.

-- A lease's token names the home day of its row in its first four hex digits (days since 2000-01-01); the other 90 free
-- bits are random. So each later write of the holder finds its one partition without asking all of them.
CREATE FUNCTION idem.new_lease(day date) RETURNS uuid
    LANGUAGE sql VOLATILE STRICT PARALLEL SAFE AS
$$ SELECT (lpad(to_hex(day - date '2000-01-01'), 4, '0') || substr(gen_random_uuid()::text, 5))::uuid $$;

CREATE FUNCTION idem.lease_day(lease_id uuid) RETURNS date
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT date '2000-01-01' + ('x' || left(lease_id::text, 4))::bit(16)::integer $$;

CREATE TABLE idem.idempotency_keys (
    day                    date        NOT NULL,
    account_id             text        COLLATE "C" NOT NULL,
    key                    text        COLLATE "C" NOT NULL,
    endpoint               text        NOT NULL,
    request_hash           bytea       NOT NULL,
    -- Only for those who send the request again; cleared when the key is finished.
    request_method         text,
    request_path           text,
    request_headers        jsonb,
    request_body           bytea,
    status                 text        NOT NULL DEFAULT 'in_progress',
    recovery_point         text        NOT NULL DEFAULT 'started',
    lease_id               uuid,
    lease_owner            text,
    locked_until           timestamptz,
    lease_epoch            bigint      NOT NULL DEFAULT 0,
    attempts               integer     NOT NULL DEFAULT 0,
    failures               integer     NOT NULL DEFAULT 0,
    next_attempt_at        timestamptz NOT NULL,
    last_error_class       text,
    last_error             text,
    provider               text,
    provider_key           text,
    provider_ref           text,
    provider_key_window    interval,
    provider_first_sent_at timestamptz,
    provider_last_sent_at  timestamptz,
    provider_charge_id     text,
    response_code          integer,
    response_headers       jsonb,
    response_body          bytea,
    ttl                    interval    NOT NULL,
    created_at             timestamptz NOT NULL,
    completed_at           timestamptz,
    expires_at             timestamptz,
    replays                integer     NOT NULL DEFAULT 0,
    last_replay_at         timestamptz,
    escalated_at           timestamptz,
    escalation_reason      text,
    -- Each CHECK costs every claim some 3 microseconds. So these are the four that stand between a fault of a writer and
    -- a second charge; lengths and ranges are checked by the functions, which are the only way in.
    CONSTRAINT idempotency_keys_status_is_known
        CHECK (status IN ('in_progress', 'completed', 'failed', 'needs_review')),
    CONSTRAINT idempotency_keys_lease_is_whole
        CHECK ((lease_id IS NULL) = (locked_until IS NULL) AND (lease_id IS NULL OR status = 'in_progress')),
    CONSTRAINT idempotency_keys_intent_is_whole
        CHECK (provider_first_sent_at IS NULL
               OR (provider IS NOT NULL AND provider_key IS NOT NULL AND provider_key_window IS NOT NULL)),
    -- Only finished work expires, and a failed key whose provider call was begun is not finished.
    CONSTRAINT idempotency_keys_end_is_whole
        CHECK ((status = 'completed') = (completed_at IS NOT NULL)
               AND (status <> 'completed' OR (response_code IS NOT NULL AND expires_at IS NOT NULL))
               AND (expires_at IS NULL OR status = 'completed'
                    OR (status = 'failed' AND provider_first_sent_at IS NULL))),
    PRIMARY KEY (account_id, key, day)
) PARTITION BY RANGE (day);

-- What the completer takes next: small, since finished keys are not in it.
CREATE INDEX idempotency_keys_due     ON idem.idempotency_keys (next_attempt_at)
    WHERE status IN ('in_progress', 'failed');
CREATE INDEX idempotency_keys_review  ON idem.idempotency_keys (escalated_at) WHERE status = 'needs_review';
-- What the reaper takes next.
CREATE INDEX idempotency_keys_expired ON idem.idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;

COMMENT ON TABLE idem.idempotency_keys IS
    'One row a key, in the partition of its home day (UTC). Applications come in by idem.claim_key only.';
COMMENT ON COLUMN idem.idempotency_keys.day IS 'Home day, UTC. Never updated.';
COMMENT ON COLUMN idem.idempotency_keys.request_hash IS 'Fingerprint of the request: another one under the same key is a mismatch.';
COMMENT ON COLUMN idem.idempotency_keys.lease_id IS 'Token of who may write; made by idem.new_lease(day).';
COMMENT ON COLUMN idem.idempotency_keys.lease_epoch IS 'Plus one for each lease: a number for systems that fence by one.';
COMMENT ON COLUMN idem.idempotency_keys.attempts IS 'Leases taken by the completer, counted before its work.';
COMMENT ON COLUMN idem.idempotency_keys.failures IS 'Recorded unknown outcomes.';
COMMENT ON COLUMN idem.idempotency_keys.provider_first_sent_at IS
    'The intent: committed before the first call to the provider; the provider''s key window starts here.';
COMMENT ON COLUMN idem.idempotency_keys.provider_key_window IS
    'How long the provider remembers provider_key, as stored with the first intent; 0 when unknown.';
COMMENT ON COLUMN idem.idempotency_keys.response_body IS 'Byte for byte as it was sent.';
COMMENT ON COLUMN idem.idempotency_keys.expires_at IS
    'When the key may be used anew: end of work + ttl. NULL while unfinished, and a failed key with an intent is unfinished.';

-- Unfinished and unexpired keys of a day that had to go. A key is in one place only: in a day, or here.
-- `held_at` stands first, so that a column added to both tables later keeps the rest in the same order.
CREATE TABLE idem.held_keys (
    held_at timestamptz NOT NULL,
    LIKE idem.idempotency_keys INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS,
    PRIMARY KEY (account_id, key)
) WITH (fillfactor = 80);

CREATE INDEX held_keys_due     ON idem.held_keys (next_attempt_at) WHERE status IN ('in_progress', 'failed');
CREATE INDEX held_keys_review  ON idem.held_keys (escalated_at)    WHERE status = 'needs_review';
CREATE INDEX held_keys_expired ON idem.held_keys (expires_at)      WHERE expires_at IS NOT NULL;

COMMENT ON TABLE idem.held_keys IS 'Keys that outlived the partition of their home day; every function looks here too.';

-- The inbox: messages that a consumer has worked off, by the same rules.
CREATE TABLE idem.processed_messages (
    day          date        NOT NULL,
    consumer     text        COLLATE "C" NOT NULL,
    message_id   text        COLLATE "C" NOT NULL,
    processed_at timestamptz NOT NULL,
    PRIMARY KEY (consumer, message_id, day)
) PARTITION BY RANGE (day);

COMMENT ON TABLE idem.processed_messages IS
    'One row a message and consumer, in the partition of the day (UTC) that saw it first. In by idem.claim_message only.';

-- Evidence for people: what was tried at the provider, by whom, with what result.
CREATE TABLE idem.key_attempts (
    attempt_id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    day                 date        NOT NULL,
    account_id          text        COLLATE "C" NOT NULL,
    key                 text        COLLATE "C" NOT NULL,
    lease_id            uuid,
    at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    step                text        NOT NULL,
    class               text        NOT NULL,
    status              integer,
    provider_request_id text,
    duration_ms         bigint      CHECK (duration_ms >= 0)
);

CREATE INDEX key_attempts_key ON idem.key_attempts (account_id, key);
CREATE INDEX key_attempts_at  ON idem.key_attempts (at);

-- The circuit breaker, the pause after a 429 and the rate of a provider, shared by all who call it.
CREATE TABLE idem.provider_health (
    provider     text        PRIMARY KEY CHECK (provider <> ''),
    state        text        NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half_open')),
    failures     integer     NOT NULL DEFAULT 0 CHECK (failures >= 0),
    opened_until timestamptz,
    paused_until timestamptz,
    probe_lease  uuid,
    probe_until  timestamptz,
    -- The first moment that no call has reserved yet.
    next_slot    timestamptz,
    CHECK ((probe_lease IS NULL) = (probe_until IS NULL))
);

-- What was done to a partition, written before it is done: a run that was killed is finished by the next one.
CREATE TABLE idem.partition_ledger (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    parent      text        NOT NULL CHECK (parent <> ''),
    child       text        NOT NULL CHECK (child <> ''),
    child_oid   oid,
    lower       timestamptz NOT NULL,
    upper       timestamptz NOT NULL,
    action      text        NOT NULL CHECK (action <> ''),
    state       text        NOT NULL CHECK (state <> ''),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    detail      text,
    CHECK (lower < upper)
);

CREATE INDEX partition_ledger_open   ON idem.partition_ledger (id) WHERE finished_at IS NULL;
CREATE INDEX partition_ledger_parent ON idem.partition_ledger (parent, lower);

-- What the functions must know of jobs.toml; one row, written by `idem-jobs partitions`.
CREATE TABLE idem.settings (
    only_row              boolean  PRIMARY KEY DEFAULT true CHECK (only_row),
    -- A day may be removed this long after its end; no key may ask for a longer life.
    retention             interval NOT NULL DEFAULT interval '72 hours' CHECK (retention > interval '0'),
    ttl_max               interval NOT NULL DEFAULT interval '72 hours' CHECK (ttl_max > interval '0'),
    client_retry_window   interval NOT NULL DEFAULT interval '24 hours' CHECK (client_retry_window > interval '0'),
    -- This part of a provider's key window counts as over: clocks differ, and calls take time.
    window_margin_percent integer  NOT NULL DEFAULT 10 CHECK (window_margin_percent BETWEEN 0 AND 90),
    -- Endpoints whose keys are UUIDv7 and carry their home day: {"POST /v1/payments": "2026-11-30T12:00:00Z"}. Only keys
    -- stamped at or after that instant go that way, so that a key which was claimed before the switch is still found.
    -- An endpoint's instant is written once, at least five minutes ahead (the clock error that we forgive).
    uuidv7_since          jsonb    NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(uuidv7_since) = 'object'),
    updated_at            timestamptz NOT NULL DEFAULT clock_timestamp()
);

INSERT INTO idem.settings DEFAULT VALUES;

-- Answers other than a claim, by day and endpoint. Each claimer takes a row that nobody else has, or adds one: no claim
-- waits for another. The sum over the rows is the figure.
CREATE TABLE idem.key_stats (
    day         date   NOT NULL,
    endpoint    text   NOT NULL,
    slot        uuid   NOT NULL DEFAULT gen_random_uuid(),
    replays     bigint NOT NULL DEFAULT 0,
    in_progress bigint NOT NULL DEFAULT 0,
    mismatches  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (day, endpoint, slot)
) WITH (fillfactor = 50);

-- Today and the next days, so that claims work right after this; from then on `idem-jobs partitions` makes the days.
-- CREATE LIKE + ATTACH locks the parent less than CREATE ... PARTITION OF. A partitioned table cannot carry storage
-- options, so each day carries them: fillfactor 80 leaves room for the updates that each key sees.
DO $$
DECLARE
    parent text;
    first  date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    ahead  integer;
    child  text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['idempotency_keys', 'processed_messages'] LOOP
        FOR ahead IN 0..5 LOOP
            child := parent || to_char(first + ahead, '"_y"YYYY"m"MM"d"DD');
            EXECUTE format('CREATE TABLE idem.%I (LIKE idem.%I INCLUDING ALL) WITH (fillfactor = 80)', child, parent);
            EXECUTE format('COMMENT ON TABLE idem.%I IS %L', child, 'idem-jobs partition');
            EXECUTE format('ALTER TABLE idem.%I ATTACH PARTITION idem.%I FOR VALUES FROM (%L) TO (%L)',
                           parent, child, to_char(first + ahead, 'YYYY-MM-DD'), to_char(first + ahead + 1, 'YYYY-MM-DD'));
        END LOOP;
    END LOOP;
END
$$;

-- What PostgreSQL lets everybody do with a new function, nobody shall with ours: deploy/grants.sql says who may.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA idem FROM PUBLIC;
