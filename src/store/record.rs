//! Writes charges into `idem.charges`: for an application that keeps its charges there, and for the demo.

use chrono::{DateTime, Utc};

use crate::domain::charge::Charge;

use super::{Store, StoreError};

/// Rows of one statement.
const BATCH_ROWS: usize = 5_000;

impl Store {
    /// Records charges of one provider and merchant account, all of them or none.
    pub async fn record_charges(
        &self,
        provider: &str,
        merchant_account: &str,
        charges: &[Charge<'_>],
    ) -> Result<(), StoreError> {
        let failed = |error: sqlx::Error| StoreError::query("record charges", &error);
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        for batch in charges.chunks(BATCH_ROWS) {
            let text = |of: fn(&Charge<'_>) -> Option<String>| batch.iter().map(of).collect::<Vec<_>>();
            let number = |of: fn(&Charge<'_>) -> Option<i64>| batch.iter().map(of).collect::<Vec<_>>();
            let created: Vec<DateTime<Utc>> = batch.iter().map(|charge| charge.created_at).collect();
            sqlx::query(
                "-- record_charges
                 INSERT INTO idem.charges (charge_id, idempotency_key, provider, merchant_account, merchant_reference,
                     provider_id, amount_minor, refunded_minor, currency, status, created_at)
                 SELECT charge_id, idempotency_key, $1, $2, merchant_reference,
                     provider_id, amount_minor, refunded_minor, currency, status, created_at
                   FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
                     $10::text[], $11::timestamptz[]) AS row (charge_id, idempotency_key, merchant_reference,
                     provider_id, amount_minor, refunded_minor, currency, status, created_at)",
            )
            .bind(provider)
            .bind(merchant_account)
            .bind(text(|charge| Some(charge.charge_id.to_string())))
            .bind(text(|charge| charge.idempotency_key.as_deref().map(str::to_owned)))
            .bind(text(|charge| charge.merchant_reference.as_deref().map(str::to_owned)))
            .bind(text(|charge| charge.provider_id.as_deref().map(str::to_owned)))
            .bind(number(|charge| Some(charge.amount_minor)))
            .bind(number(|charge| charge.refunded_minor))
            .bind(text(|charge| Some(charge.currency.to_string())))
            .bind(text(|charge| Some(charge.status_raw.to_string())))
            .bind(created)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    }
}
