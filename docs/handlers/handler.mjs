// Two handlers with idempotency keys, for node-postgres (`pg`). docs/KEYS.md is the contract; the statements are its.
//
// A web framework passes the account (from the credentials), the header and the raw body, and sends the reply.
import { createHash } from "node:crypto";

const CLAIM = `
SELECT k.key, c.outcome, c.lease_id, c.recovery_point, c.provider_charge_id, c.retry_after_s,
       c.response_code, c.response_body, c.created_at
  FROM (SELECT idem.key_from_header($2) AS key) k,
       idem.claim_key(account => $1, key => k.key, endpoint => $3, request_hash => $4, body => $5,
                      ttl => interval '72 hours', lease => interval '60 seconds') c
`;
const INTENT = `
SELECT p.provider_key, i.intent
  FROM idem.provider_key($1, $2, 'charge') AS p(provider_key),
       idem.send_intent($1, $2, $3, 'stripe', p.provider_key, key_window => interval '24 hours') AS i(intent)
`;
const CHECKPOINT = `SELECT idem.checkpoint($1, $2, $3, recovery_point => 'charged', provider_charge_id => $4) AS ok`;
const COMPLETE = `SELECT idem.complete_key($1, $2, $3, response_code => $4, response_body => $5) AS ok`;
const RELEASE = `
SELECT idem.release_key($1, $2, $3, retry_in => interval '30 seconds', error_class => $4, error => $5)
`;
const CLAIM_MESSAGE = `SELECT idem.claim_message($1, $2) AS is_new`;

/** The provider's final no. */
export class Declined extends Error {}

/** What the client means: the same for every attempt. */
function fingerprint(body) {
  const sorted = (value) => {
    if (Array.isArray(value)) return value.map(sorted);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
  };
  return createHash("sha256").update(JSON.stringify(sorted(JSON.parse(body)))).digest();
}

const reply = (code, body, headers = {}) => ({ code, body, headers });

/** The answer to every claim that gave no lease. */
function replyTo(claim) {
  switch (claim.outcome) {
    case "replay":
      return reply(claim.response_code, claim.response_body ?? Buffer.alloc(0), {
        "Idempotent-Replayed": "true",
        "X-Original-Request-Time": claim.created_at.toISOString(),
      });
    case "in_progress":
      return reply(409, `{"code":"in_progress"}`, { "Retry-After": String(claim.retry_after_s) });
    case "needs_review":
      return reply(409, `{"code":"under_review"}`);
    case "mismatch":
      return reply(422, `{"code":"key_used_for_another_request"}`);
    case "stale":
      return reply(410, `{"code":"key_too_old"}`);
    default:
      throw new Error(`unknown outcome ${claim.outcome}`);
  }
}

/** Fail closed: whatever went wrong, nothing was done without a claim. */
function replyToError(error) {
  if (error instanceof SyntaxError) return reply(400, `{"code":"malformed_body"}`);
  if (error.code === "22023") return reply(400, JSON.stringify({ code: "bad_key", message: error.message }));
  return reply(503, "", { "Retry-After": "1" });
}

const isOurs = (claim) => claim.outcome === "claimed" || claim.outcome === "resumed";

async function inTransaction(pool, work) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    client.release();
    return result;
  } catch (error) {
    // A connection in an unknown state does not go back into the pool.
    client.release(error);
    throw error;
  }
}

/** All work in this database: one transaction. */
export async function createOrder(pool, account, header, body) {
  try {
    const parameters = [account, header, "POST /v1/orders", fingerprint(body), Buffer.from(body)];
    return await inTransaction(pool, async (client) => {
      const claim = (await client.query(CLAIM, parameters)).rows[0];
      if (!isOurs(claim)) return replyTo(claim);
      const order = (await client.query("INSERT INTO orders (body) VALUES ($1) RETURNING id", [body])).rows[0];
      const answer = JSON.stringify({ order: order.id });
      const done = await client.query(COMPLETE, [account, claim.key, claim.lease_id, 201, Buffer.from(answer)]);
      if (!done.rows[0].ok) throw new Error("the lease was lost: roll back");
      return reply(201, answer);
    });
  } catch (error) {
    return replyToError(error);
  }
}

/**
 * A call to a provider: in phases, each committed before the next. `charge(providerKey, body)` resolves to the charge's
 * id, throws Declined, or throws anything else when nobody knows.
 */
export async function createPayment(pool, account, header, body, charge) {
  try {
    const parameters = [account, header, "POST /v1/payments", fingerprint(body), Buffer.from(body)];
    const claim = (await pool.query(CLAIM, parameters)).rows[0];
    if (!isOurs(claim)) return replyTo(claim);
    const held = [account, claim.key, claim.lease_id];
    let chargeId = claim.provider_charge_id;
    if (claim.recovery_point !== "charged") {
      const { intent, provider_key } = (await pool.query(INTENT, held)).rows[0];
      if (intent !== "ok") {
        await pool.query(RELEASE, [...held, intent, null]);
        return reply(503, "", { "Retry-After": "30" });
      }
      try {
        chargeId = await charge(provider_key, body);
      } catch (error) {
        if (error instanceof Declined) {
          const answer = `{"code":"declined"}`;
          const done = await pool.query(COMPLETE, [...held, 402, Buffer.from(answer)]);
          return done.rows[0].ok ? reply(402, answer) : reply(503, "", { "Retry-After": "1" });
        }
        // Nobody knows: the row keeps the intent, the retry sends the same key.
        await pool.query(RELEASE, [...held, "no_answer", error.message]);
        return reply(503, "", { "Retry-After": "30" });
      }
      const kept = await pool.query(CHECKPOINT, [...held, chargeId]);
      if (!kept.rows[0].ok) return reply(503, "", { "Retry-After": "1" });
    }
    const answer = JSON.stringify({ charge: chargeId });
    return await inTransaction(pool, async (client) => {
      await client.query("INSERT INTO payments (charge_id) VALUES ($1)", [chargeId]);
      const done = await client.query(COMPLETE, [...held, 201, Buffer.from(answer)]);
      if (!done.rows[0].ok) throw new Error("the lease was lost: roll back, the retry gets what the other one saved");
      return reply(201, answer);
    });
  } catch (error) {
    return replyToError(error);
  }
}

/** A consumer that works each message off once; acknowledge to the broker when this resolves. */
export async function receive(pool, messageId, work) {
  await inTransaction(pool, async (client) => {
    const claim = await client.query(CLAIM_MESSAGE, ["mailer", messageId]);
    if (claim.rows[0].is_new) await work(client);
  });
}
