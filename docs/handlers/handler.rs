//! Two handlers with idempotency keys, for sqlx. docs/KEYS.md is the contract; the statements are its.
//!
//! A web framework passes the account (from the credentials), the header and the raw body, and sends the reply.

use chrono::{DateTime, SecondsFormat, Utc};
use sha2::{Digest as _, Sha256};
use sqlx::{PgExecutor, PgPool, Postgres, Transaction};
use uuid::Uuid;

const CLAIM: &str = "
SELECT k.key, c.outcome, c.lease_id, c.recovery_point, c.provider_charge_id, c.retry_after_s,
       c.response_code, c.response_body, c.created_at
  FROM (SELECT idem.key_from_header($2) AS key) k,
       idem.claim_key(account => $1, key => k.key, endpoint => $3, request_hash => $4, body => $5,
                      ttl => interval '72 hours', lease => interval '60 seconds') c
";
const INTENT: &str = "
SELECT p.provider_key, i.intent
  FROM idem.provider_key($1, $2, 'charge') AS p(provider_key),
       idem.send_intent($1, $2, $3, 'stripe', p.provider_key, key_window => interval '24 hours') AS i(intent)
";
const CHECKPOINT: &str = "SELECT idem.checkpoint($1, $2, $3, recovery_point => 'charged', provider_charge_id => $4)";
const COMPLETE: &str = "SELECT idem.complete_key($1, $2, $3, response_code => $4, response_body => $5)";
const RELEASE: &str = "
SELECT idem.release_key($1, $2, $3, retry_in => interval '30 seconds', error_class => $4, error => $5)
";
const CLAIM_MESSAGE: &str = "SELECT idem.claim_message($1, $2)";

/// What goes back to the client.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub code: i32,
    pub body: Vec<u8>,
    pub headers: Vec<(&'static str, String)>,
}

impl Reply {
    fn new(code: i32, body: impl Into<Vec<u8>>) -> Self {
        Self { code, body: body.into(), headers: Vec::new() }
    }

    fn unavailable(retry_after_s: u32) -> Self {
        Self { code: 503, body: Vec::new(), headers: vec![("Retry-After", retry_after_s.to_string())] }
    }
}

/// What the provider said.
#[derive(Debug)]
pub enum Charged {
    Yes {
        charge_id: String,
    },
    /// Its final no.
    Declined,
    /// A timeout, a lost connection, an error of the provider: nobody knows.
    Unknown {
        reason: String,
    },
}

/// What ended a handler early.
#[derive(Debug)]
pub enum Failure {
    Body(serde_json::Error),
    Database(sqlx::Error),
    /// Somebody else took over: roll back, the retry gets what the other one saved.
    LeaseLost,
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Body(error)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Failure> for Reply {
    /// Fails closed: whatever went wrong, nothing was done without a claim.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Body(error) => Reply::new(
                400,
                serde_json::json!({ "code": "malformed_body", "message": error.to_string() }).to_string(),
            ),
            Failure::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("22023") => {
                Reply::new(400, serde_json::json!({ "code": "bad_key", "message": error.message() }).to_string())
            }
            Failure::Database(_) | Failure::LeaseLost => Reply::unavailable(1),
        }
    }
}

#[derive(sqlx::FromRow)]
struct Claim {
    key: String,
    outcome: String,
    lease_id: Option<Uuid>,
    recovery_point: Option<String>,
    provider_charge_id: Option<String>,
    retry_after_s: Option<i32>,
    response_code: Option<i32>,
    response_body: Option<Vec<u8>>,
    created_at: Option<DateTime<Utc>>,
}

impl Claim {
    async fn take(
        db: impl PgExecutor<'_>,
        account: &str,
        header: &str,
        endpoint: &str,
        body: &[u8],
    ) -> Result<Self, Failure> {
        let claim = sqlx::query_as(CLAIM)
            .bind(account)
            .bind(header)
            .bind(endpoint)
            .bind(fingerprint(body)?)
            .bind(body)
            .fetch_one(db)
            .await?;
        Ok(claim)
    }

    fn is_ours(&self) -> bool {
        self.outcome == "claimed" || self.outcome == "resumed"
    }

    /// The answer to every claim that gave no lease.
    fn reply(self) -> Reply {
        match self.outcome.as_str() {
            "replay" => {
                let first = self.created_at.map(|at| at.to_rfc3339_opts(SecondsFormat::Micros, true));
                let mut reply = Reply::new(self.response_code.unwrap_or(500), self.response_body.unwrap_or_default());
                reply.headers.push(("Idempotent-Replayed", "true".to_owned()));
                reply.headers.extend(first.map(|first| ("X-Original-Request-Time", first)));
                reply
            }
            "in_progress" => {
                let mut reply = Reply::new(409, r#"{"code":"in_progress"}"#);
                reply.headers.push(("Retry-After", self.retry_after_s.unwrap_or(1).to_string()));
                reply
            }
            "needs_review" => Reply::new(409, r#"{"code":"under_review"}"#),
            "mismatch" => Reply::new(422, r#"{"code":"key_used_for_another_request"}"#),
            "stale" => Reply::new(410, r#"{"code":"key_too_old"}"#),
            _ => Reply::unavailable(1),
        }
    }
}

/// What the client means: the same for every attempt. `serde_json::Value` keeps its keys sorted.
fn fingerprint(body: &[u8]) -> Result<Vec<u8>, Failure> {
    let canonical = serde_json::from_slice::<serde_json::Value>(body)?.to_string();
    Ok(Sha256::digest(canonical).to_vec())
}

async fn complete(
    db: impl PgExecutor<'_>,
    account: &str,
    claim: &Claim,
    code: i32,
    body: &[u8],
) -> Result<(), Failure> {
    let done: bool = sqlx::query_scalar(COMPLETE)
        .bind(account)
        .bind(&claim.key)
        .bind(claim.lease_id)
        .bind(code)
        .bind(body)
        .fetch_one(db)
        .await?;
    if done { Ok(()) } else { Err(Failure::LeaseLost) }
}

async fn release(
    pool: &PgPool,
    account: &str,
    claim: &Claim,
    class: &str,
    error: Option<String>,
) -> Result<Reply, Failure> {
    sqlx::query(RELEASE)
        .bind(account)
        .bind(&claim.key)
        .bind(claim.lease_id)
        .bind(class)
        .bind(error)
        .execute(pool)
        .await?;
    Ok(Reply::unavailable(30))
}

/// All work in this database: one transaction.
pub async fn create_order(pool: &PgPool, account: &str, header: &str, body: &[u8]) -> Reply {
    try_create_order(pool, account, header, body).await.unwrap_or_else(Reply::from)
}

async fn try_create_order(pool: &PgPool, account: &str, header: &str, body: &[u8]) -> Result<Reply, Failure> {
    let mut transaction = pool.begin().await?;
    let claim = Claim::take(&mut *transaction, account, header, "POST /v1/orders", body).await?;
    if !claim.is_ours() {
        transaction.commit().await?;
        return Ok(claim.reply());
    }
    let order_id: i64 = sqlx::query_scalar("INSERT INTO orders (body) VALUES ($1) RETURNING id")
        .bind(String::from_utf8_lossy(body))
        .fetch_one(&mut *transaction)
        .await?;
    let answer = serde_json::json!({ "order": order_id }).to_string();
    complete(&mut *transaction, account, &claim, 201, answer.as_bytes()).await?;
    transaction.commit().await?;
    Ok(Reply::new(201, answer))
}

/// A call to a provider: in phases, each committed before the next.
pub async fn create_payment(
    pool: &PgPool,
    account: &str,
    header: &str,
    body: &[u8],
    charge: impl AsyncFnOnce(&str, &[u8]) -> Charged,
) -> Reply {
    try_create_payment(pool, account, header, body, charge).await.unwrap_or_else(Reply::from)
}

async fn try_create_payment(
    pool: &PgPool,
    account: &str,
    header: &str,
    body: &[u8],
    charge: impl AsyncFnOnce(&str, &[u8]) -> Charged,
) -> Result<Reply, Failure> {
    let claim = Claim::take(pool, account, header, "POST /v1/payments", body).await?;
    if !claim.is_ours() {
        return Ok(claim.reply());
    }
    let charge_id = if claim.recovery_point.as_deref() == Some("charged") {
        claim.provider_charge_id.clone()
    } else {
        let (provider_key, intent): (String, String) =
            sqlx::query_as(INTENT).bind(account).bind(&claim.key).bind(claim.lease_id).fetch_one(pool).await?;
        if intent != "ok" {
            return release(pool, account, &claim, &intent, None).await;
        }
        match charge(&provider_key, body).await {
            Charged::Yes { charge_id } => {
                let kept: bool = sqlx::query_scalar(CHECKPOINT)
                    .bind(account)
                    .bind(&claim.key)
                    .bind(claim.lease_id)
                    .bind(&charge_id)
                    .fetch_one(pool)
                    .await?;
                if !kept {
                    return Err(Failure::LeaseLost);
                }
                Some(charge_id)
            }
            Charged::Declined => {
                let answer = r#"{"code":"declined"}"#;
                complete(pool, account, &claim, 402, answer.as_bytes()).await?;
                return Ok(Reply::new(402, answer));
            }
            // The row keeps the intent, the retry sends the same key.
            Charged::Unknown { reason } => return release(pool, account, &claim, "no_answer", Some(reason)).await,
        }
    };
    let answer = serde_json::json!({ "charge": charge_id }).to_string();
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO payments (charge_id) VALUES ($1)").bind(&charge_id).execute(&mut *transaction).await?;
    complete(&mut *transaction, account, &claim, 201, answer.as_bytes()).await?;
    transaction.commit().await?;
    Ok(Reply::new(201, answer))
}

/// The inbox: true where this message is new. In the transaction of the consumer's own work; acknowledge to the broker
/// after its COMMIT.
pub async fn is_new_message(transaction: &mut Transaction<'_, Postgres>, message_id: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar(CLAIM_MESSAGE).bind("mailer").bind(message_id).fetch_one(&mut **transaction).await
}
