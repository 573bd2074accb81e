-- Three roles for the schema "idem"; run it as a superuser, after `idem-jobs migrate`, and again after each upgrade:
--
--     psql -d shop -v ON_ERROR_STOP=1 -f deploy/grants.sql
--
--   idem_app     the application: may call the functions of the key protocol, and nothing else. It can neither read a
--                table (another tenant's answers are in there) nor change one past the functions' checks.
--   idem_jobs    idem-jobs: owns the schema, since only an owner may attach, detach and drop partitions. The functions
--                run with its rights.
--   idem_reader  people and dashboards: may read what is there, without requests, answers and mails.
--
-- None of them can log in; give them to those who do:  GRANT idem_app TO shop_backend;

BEGIN;

DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['idem_app', 'idem_jobs', 'idem_reader'] LOOP
        IF to_regrole(role) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                -- Roles are the server's: somebody else made it for another database just now.
                NULL;
            END;
        END IF;
    END LOOP;
END
$$;

-- Ownership, of all that is there and not yet idem_jobs'. Indexes, sequences and row types follow their tables.
ALTER SCHEMA idem OWNER TO idem_jobs;

DO $$
DECLARE
    found_object record;
BEGIN
    FOR found_object IN
        SELECT c.relname AS name FROM pg_class c
         WHERE c.relnamespace = 'idem'::regnamespace AND c.relkind IN ('r', 'p') AND c.relowner <> 'idem_jobs'::regrole
    LOOP
        EXECUTE format('ALTER TABLE idem.%I OWNER TO idem_jobs', found_object.name);
    END LOOP;
    FOR found_object IN
        SELECT p.oid::regprocedure::text AS name FROM pg_proc p
         WHERE p.pronamespace = 'idem'::regnamespace AND p.proowner <> 'idem_jobs'::regrole
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO idem_jobs', found_object.name);
    END LOOP;
    FOR found_object IN
        SELECT t.typname AS name FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid
         WHERE t.typnamespace = 'idem'::regnamespace AND c.relkind = 'c' AND t.typowner <> 'idem_jobs'::regrole
    LOOP
        EXECUTE format('ALTER TYPE idem.%I OWNER TO idem_jobs', found_object.name);
    END LOOP;
END
$$;

-- Whatever was given before is taken back first, so that this file alone says who may what.
REVOKE ALL ON SCHEMA idem FROM PUBLIC, idem_app, idem_reader;
REVOKE ALL ON ALL TABLES    IN SCHEMA idem FROM PUBLIC, idem_app, idem_reader;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA idem FROM PUBLIC, idem_app, idem_reader;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA idem FROM PUBLIC, idem_app, idem_reader;

GRANT USAGE ON SCHEMA idem TO idem_app, idem_reader;

GRANT EXECUTE ON FUNCTION
    idem.claim_key(text, text, text, bytea, text, text, jsonb, bytea, interval, interval, text),
    idem.renew_lease(text, text, uuid, interval),
    idem.send_intent(text, text, uuid, text, text, interval, text),
    idem.checkpoint(text, text, uuid, text, text),
    idem.complete_key(text, text, uuid, integer, jsonb, bytea),
    idem.release_key(text, text, uuid, interval, text, text),
    idem.fail_key(text, text, uuid, text, text, text),
    idem.claim_message(text, text),
    idem.provider_key(text, text, text),
    idem.key_from_header(text)
TO idem_app;

-- Days are read through their parents, so that a new day needs no grant of its own.
GRANT SELECT (day, account_id, key, endpoint, request_hash, status, recovery_point, lease_id, lease_owner, locked_until,
              lease_epoch, attempts, failures, next_attempt_at, last_error_class, last_error, provider, provider_key,
              provider_ref, provider_key_window, provider_first_sent_at, provider_last_sent_at, provider_charge_id,
              response_code, ttl, created_at, completed_at, expires_at, replays, last_replay_at, escalated_at,
              escalation_reason)
    ON idem.idempotency_keys, idem.held_keys TO idem_reader;
GRANT SELECT (message_id, topic, dedup_key, created_at, attempts, next_attempt_at, last_error, sent_at)
    ON idem.outbox TO idem_reader;
GRANT SELECT ON
    idem.processed_messages, idem.key_attempts, idem.provider_health, idem.partition_ledger, idem.settings,
    idem.key_stats, idem.charges, idem.job_runs, idem.provider_reports, idem.reconciliation_runs,
    idem.mismatches, idem.run_mismatches, idem.mismatch_events, idem.schema_migrations
TO idem_reader;

COMMIT;
