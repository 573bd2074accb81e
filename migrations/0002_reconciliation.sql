-- What a reconciliation leaves behind: the files it read, the run, its mismatches and their history.
--
-- A run is written whole in one transaction and never changed. `mismatches` has one row for each break across all runs
-- (what is open now); `run_mismatches` keeps what each run said, so that an old report renders the same for ever;
-- `mismatch_events` is the history that nobody may rewrite.

CREATE TABLE idem.reconciliation_runs (
    run_id        text        PRIMARY KEY CHECK (run_id <> ''),
    state         text        NOT NULL CHECK (state IN ('done', 'refused')),
    -- What was compared: SHA-256 over files, provider, account, window and reading options, in hex.
    identity      text        NOT NULL CHECK (identity <> ''),
    -- Counts deliberate repetitions of one identity; racers of the same attempt collide on the UNIQUE below.
    attempt       integer     NOT NULL DEFAULT 1 CHECK (attempt > 0),
    provider      text        NOT NULL,
    account       text        NOT NULL,
    -- The run as the program tells it, in the shape that `schema_name` names. Kept as json, not jsonb: sums may exceed
    -- 64 bits and come back digit for digit.
    schema_name   text        NOT NULL,
    head          json        NOT NULL,
    window_from   timestamptz,
    window_to     timestamptz,
    started_at    timestamptz NOT NULL,
    duration_ms   bigint      NOT NULL CHECK (duration_ms >= 0),
    control       json,
    money         json,
    non_charge    json,
    counts        json,
    refused_rows  json,
    notes         json,
    refusal       text,
    -- SHA-256 over the heads of the event chains of this run's mismatches: shows when a chain's tail was cut off.
    chain_heads   bytea       CHECK (octet_length(chain_heads) = 32),
    committed_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (identity, state, attempt),
    CHECK ((state = 'refused') = (refusal IS NOT NULL)),
    CHECK (state = 'refused' OR
           (control IS NOT NULL AND money IS NOT NULL AND non_charge IS NOT NULL AND counts IS NOT NULL
            AND refused_rows IS NOT NULL AND notes IS NOT NULL AND chain_heads IS NOT NULL))
);

CREATE INDEX reconciliation_runs_provider ON idem.reconciliation_runs (provider, account, window_from);

CREATE TABLE idem.provider_reports (
    run_id      text        NOT NULL REFERENCES idem.reconciliation_runs,
    position    integer     NOT NULL CHECK (position >= 0),
    provider    text        NOT NULL,
    account     text        NOT NULL,
    format      text        NOT NULL,
    file_name   text        NOT NULL,
    bytes       bigint      NOT NULL CHECK (bytes >= 0),
    sha256      text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    period_from timestamptz,
    period_to   timestamptz,
    read_at     timestamptz NOT NULL,
    PRIMARY KEY (run_id, position)
);

CREATE INDEX provider_reports_sha256 ON idem.provider_reports (sha256);

CREATE TABLE idem.mismatches (
    mismatch_no         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Provider, account, kind and group key, hashed: the same break in each run. Never the amount.
    fingerprint         text        NOT NULL UNIQUE CHECK (fingerprint ~ '^[0-9a-f]{64}$'),
    -- The name for people. Forty bits of the fingerprint, so two breaks may in time share one: never a key.
    id                  text        NOT NULL,
    kind                text        NOT NULL CHECK (kind <> ''),
    severity            text        NOT NULL CHECK (severity IN ('critical', 'high', 'medium', 'info')),
    state               text        NOT NULL CHECK (state IN
                            ('pending', 'open', 'assigned', 'explained', 'pending_approval', 'resolved',
                             'auto_resolved', 'ignored')),
    provider            text        NOT NULL,
    account             text        NOT NULL,
    idempotency_key     text,
    merchant_reference  text,
    provider_ids        text[]      NOT NULL,
    local_charge_ids    text[]      NOT NULL,
    local_minor         bigint,
    local_currency      text,
    local_status        text,
    provider_minor      bigint,
    provider_currency   text,
    provider_status     text,
    at_risk_minor       bigint      NOT NULL CHECK (at_risk_minor >= 0),
    currency            text,
    occurred_at         timestamptz,
    first_seen_run      text        NOT NULL REFERENCES idem.reconciliation_runs,
    last_seen_run       text        NOT NULL REFERENCES idem.reconciliation_runs,
    seen_count          integer     NOT NULL DEFAULT 1 CHECK (seen_count > 0),
    reopen_count        integer     NOT NULL DEFAULT 0 CHECK (reopen_count >= 0),
    due_at              timestamptz,
    assignee            text,
    reason              text,
    note                text,
    proposed_by         text,
    approved_by         text,
    suppress_until      timestamptz,
    last_notified_at    timestamptz,
    notified_severity   text        CHECK (notified_severity IN ('critical', 'high', 'medium', 'info')),
    -- The end of its chain of events; what a person's next change is checked against.
    events              integer     NOT NULL CHECK (events > 0),
    head_hash           bytea       NOT NULL CHECK (octet_length(head_hash) = 32),
    CHECK (approved_by IS NULL OR approved_by <> proposed_by)
);

CREATE INDEX mismatches_id                 ON idem.mismatches (id);
CREATE INDEX mismatches_provider_state     ON idem.mismatches (provider, account, state);
CREATE INDEX mismatches_last_seen_run      ON idem.mismatches (last_seen_run);
CREATE INDEX mismatches_merchant_reference ON idem.mismatches (merchant_reference) WHERE merchant_reference IS NOT NULL;

CREATE TABLE idem.run_mismatches (
    run_id      text    NOT NULL REFERENCES idem.reconciliation_runs,
    position    integer NOT NULL CHECK (position >= 0),
    mismatch_no bigint  NOT NULL REFERENCES idem.mismatches,
    standing    text    NOT NULL CHECK (standing IN ('new', 'still_open', 'changed', 'raised', 'reopened')),
    -- End of the mismatch's chain when the run was committed.
    head_hash   bytea   NOT NULL CHECK (octet_length(head_hash) = 32),
    -- The mismatch as this run saw it, in the shape that the run's `schema_name` names.
    mismatch    json    NOT NULL,
    PRIMARY KEY (run_id, position),
    UNIQUE (mismatch_no, run_id)
);

CREATE TABLE idem.mismatch_events (
    mismatch_no bigint      NOT NULL REFERENCES idem.mismatches,
    seq         integer     NOT NULL CHECK (seq > 0),
    event       text        NOT NULL CHECK (event IN
                    ('found', 'changed', 'raised', 'reopened', 'assigned', 'unassigned', 'noted', 'explained',
                     'proposed', 'approved', 'rejected', 'resolved', 'auto_resolved', 'ignored', 'matched', 'unmatched')),
    -- The run that caused it; NULL when a person did.
    run_id      text        REFERENCES idem.reconciliation_runs,
    actor       text        NOT NULL CHECK (actor <> ''),
    at          timestamptz NOT NULL,
    -- json, not jsonb: the hash covers the text as it was written.
    payload     json        NOT NULL,
    prev_hash   bytea       NOT NULL CHECK (octet_length(prev_hash) = 32),
    hash        bytea       NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (mismatch_no, seq)
);

CREATE INDEX mismatch_events_run ON idem.mismatch_events (run_id);

CREATE FUNCTION idem.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = '' AS
$$
BEGIN
    RAISE EXCEPTION '%.% is append-only: % refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER mismatch_events_append_only
    BEFORE UPDATE OR DELETE ON idem.mismatch_events
    FOR EACH ROW EXECUTE FUNCTION idem.refuse_change();

CREATE TRIGGER mismatch_events_no_truncate
    BEFORE TRUNCATE ON idem.mismatch_events
    FOR EACH STATEMENT EXECUTE FUNCTION idem.refuse_change();
