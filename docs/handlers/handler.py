"""Two handlers with idempotency keys, for asyncpg. docs/KEYS.md is the contract; the statements are its.

A web framework passes the account (from the credentials), the header and the raw body, and sends the Reply.
"""
import hashlib
import json
from dataclasses import dataclass, field

import asyncpg

CLAIM = """
SELECT k.key, c.outcome, c.lease_id, c.recovery_point, c.provider_charge_id, c.retry_after_s,
       c.response_code, c.response_body, c.created_at
  FROM (SELECT idem.key_from_header($2) AS key) k,
       idem.claim_key(account => $1, key => k.key, endpoint => $3, request_hash => $4, body => $5,
                      ttl => interval '72 hours', lease => interval '60 seconds') c
"""
INTENT = """
SELECT p.provider_key, i.intent
  FROM idem.provider_key($1, $2, 'charge') AS p(provider_key),
       idem.send_intent($1, $2, $3, 'stripe', p.provider_key, key_window => interval '24 hours') AS i(intent)
"""
CHECKPOINT = "SELECT idem.checkpoint($1, $2, $3, recovery_point => 'charged', provider_charge_id => $4)"
COMPLETE = "SELECT idem.complete_key($1, $2, $3, response_code => $4, response_body => $5)"
RELEASE = "SELECT idem.release_key($1, $2, $3, retry_in => interval '30 seconds', error_class => $4, error => $5)"


@dataclass
class Reply:
    code: int
    body: bytes = b""
    headers: dict = field(default_factory=dict)


class Declined(Exception):
    """The provider's final no."""


def fingerprint(body):
    """What the client means: the same for every attempt."""
    canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()


def reply_to(claim):
    """The answer to every claim that gave no lease."""
    match claim["outcome"]:
        case "replay":
            headers = {
                "Idempotent-Replayed": "true",
                "X-Original-Request-Time": claim["created_at"].isoformat(),
            }
            return Reply(claim["response_code"], claim["response_body"] or b"", headers)
        case "in_progress":
            return Reply(409, b'{"code":"in_progress"}', {"Retry-After": str(claim["retry_after_s"])})
        case "needs_review":
            return Reply(409, b'{"code":"under_review"}')
        case "mismatch":
            return Reply(422, b'{"code":"key_used_for_another_request"}')
        case "stale":
            return Reply(410, b'{"code":"key_too_old"}')


async def create_order(pool, account, header, body):
    """All work in this database: one transaction."""
    try:
        async with pool.acquire() as connection, connection.transaction():
            claim = await connection.fetchrow(CLAIM, account, header, "POST /v1/orders", fingerprint(body), body)
            if claim["outcome"] not in ("claimed", "resumed"):
                return reply_to(claim)
            order_id = await connection.fetchval("INSERT INTO orders (body) VALUES ($1) RETURNING id", body.decode())
            answer = json.dumps({"order": order_id}).encode()
            if not await connection.fetchval(COMPLETE, account, claim["key"], claim["lease_id"], 201, answer):
                raise RuntimeError("the lease was lost: roll back")
            return Reply(201, answer)
    except ValueError:
        return Reply(400, b'{"code":"malformed_body"}')
    except asyncpg.InvalidParameterValueError as error:
        return Reply(400, json.dumps({"code": "bad_key", "message": str(error)}).encode())
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, RuntimeError):
        return Reply(503, headers={"Retry-After": "1"})


async def create_payment(pool, account, header, body, charge):
    """A call to a provider: in phases, each committed before the next.

    `charge(provider_key, body)` returns the charge's id, raises Declined, or raises anything else when nobody knows.
    """
    try:
        claim = await pool.fetchrow(CLAIM, account, header, "POST /v1/payments", fingerprint(body), body)
        if claim["outcome"] not in ("claimed", "resumed"):
            return reply_to(claim)
        held = (account, claim["key"], claim["lease_id"])
        charge_id = claim["provider_charge_id"]
        if claim["recovery_point"] != "charged":
            intent = await pool.fetchrow(INTENT, *held)
            if intent["intent"] != "ok":
                await pool.fetchval(RELEASE, *held, intent["intent"], None)
                return Reply(503, headers={"Retry-After": "30"})
            try:
                charge_id = await charge(intent["provider_key"], body)
            except Declined:
                answer = b'{"code":"declined"}'
                done = await pool.fetchval(COMPLETE, *held, 402, answer)
                return Reply(402, answer) if done else Reply(503, headers={"Retry-After": "1"})
            except Exception as error:  # Nobody knows: the row keeps the intent, the retry sends the same key.
                await pool.fetchval(RELEASE, *held, "no_answer", str(error))
                return Reply(503, headers={"Retry-After": "30"})
            if not await pool.fetchval(CHECKPOINT, *held, charge_id):
                return Reply(503, headers={"Retry-After": "1"})
        answer = json.dumps({"charge": charge_id}).encode()
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("INSERT INTO payments (charge_id) VALUES ($1)", charge_id)
            if not await connection.fetchval(COMPLETE, *held, 201, answer):
                raise RuntimeError("the lease was lost: roll back, the retry gets what the other one saved")
        return Reply(201, answer)
    except ValueError:
        return Reply(400, b'{"code":"malformed_body"}')
    except asyncpg.InvalidParameterValueError as error:
        return Reply(400, json.dumps({"code": "bad_key", "message": str(error)}).encode())
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, RuntimeError):
        return Reply(503, headers={"Retry-After": "1"})


async def receive(pool, message_id, work):
    """A consumer that works each message off once; acknowledge to the broker when this returns."""
    async with pool.acquire() as connection, connection.transaction():
        if await connection.fetchval("SELECT idem.claim_message($1, $2)", "mailer", message_id):
            await work(connection)
