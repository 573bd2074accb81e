-- The default local side: one row a charge, as the application knows it.
--
-- An application with a table of its own points jobs.toml at that instead; this one serves those without, and the
-- completer's upsert. Amounts are integers in ISO 4217 minor units, so that no rounding can happen anywhere. Enums are
-- text with a CHECK: a new word is then a quick constraint change and not a lock on a type that many tables use.
CREATE TABLE idem.charges (
    charge_id          text        PRIMARY KEY CHECK (charge_id <> ''),
    account_id         text        NOT NULL DEFAULT '',
    idempotency_key    text,
    provider           text        NOT NULL,
    merchant_account   text        NOT NULL DEFAULT '',
    merchant_reference text,
    provider_id        text,
    amount_minor       bigint      NOT NULL,
    captured_minor     bigint,
    refunded_minor     bigint,
    disputed_minor     bigint,
    currency           text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    status             text        NOT NULL CHECK (status IN
                           ('in_progress', 'pending', 'authorized', 'succeeded', 'failed', 'canceled', 'refunded')),
    order_id           text,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE idem.charges IS 'Charges as the application knows them; amounts in ISO 4217 minor units.';
COMMENT ON COLUMN idem.charges.account_id IS 'The tenant whose idempotency key it was.';
COMMENT ON COLUMN idem.charges.merchant_account IS 'Our account at the provider; empty when there is only one.';
COMMENT ON COLUMN idem.charges.provider_id IS 'The provider''s id of the payment; NULL when its answer was lost.';

-- A reconciliation reads one window of one provider, and looks leftovers up by each key that they may share.
CREATE INDEX charges_provider_created_at ON idem.charges (provider, created_at);
CREATE INDEX charges_merchant_reference  ON idem.charges (merchant_reference) WHERE merchant_reference IS NOT NULL;
CREATE INDEX charges_provider_id         ON idem.charges (provider_id)        WHERE provider_id IS NOT NULL;
CREATE INDEX charges_idempotency_key     ON idem.charges (idempotency_key)    WHERE idempotency_key IS NOT NULL;
