-- What is to be sent, and the journal of the jobs.
--
-- A message is written in the transaction of what it tells, so that neither can exist without the other. It holds the
-- rendered bytes: whoever sends it needs no files, and a second try sends the same.
CREATE TABLE idem.outbox (
    message_id      uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    topic           text        NOT NULL CHECK (topic <> ''),
    dedup_key       text        NOT NULL UNIQUE,
    payload         jsonb       NOT NULL,
    -- The attachments' bytes one after the other, gzip; their names and lengths stand in the payload.
    attachments     bytea       CHECK (octet_length(attachments) <= 10485760),
    created_at      timestamptz NOT NULL DEFAULT now(),
    -- A lease on sending it: by the database's clock.
    claim_token     uuid,
    claimed_until   timestamptz,
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    last_error      text,
    sent_at         timestamptz,
    CHECK ((claim_token IS NULL) = (claimed_until IS NULL))
);

COMMENT ON COLUMN idem.outbox.message_id IS 'Also the left half of the mail''s Message-ID, so a repeated send is seen as one.';

CREATE INDEX outbox_to_send ON idem.outbox (topic, next_attempt_at) WHERE sent_at IS NULL;
CREATE INDEX outbox_sent    ON idem.outbox (sent_at)                WHERE sent_at IS NOT NULL;

CREATE TABLE idem.job_runs (
    job_run_id  uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    job         text        NOT NULL CHECK (job <> ''),
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    outcome     jsonb,
    exit_code   smallint    CHECK (exit_code BETWEEN 0 AND 255),
    host        text        NOT NULL,
    version     text        NOT NULL,
    config_hash text        NOT NULL,
    CHECK ((finished_at IS NULL) = (exit_code IS NULL)),
    CHECK ((finished_at IS NULL) = (outcome IS NULL))
);

CREATE INDEX job_runs_job_started_at ON idem.job_runs (job, started_at DESC);
