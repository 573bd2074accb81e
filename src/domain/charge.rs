//! A charge as our own side knows it.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::entry::Status;
use super::money::Currency;

/// One local charge. Text is borrowed from the row while streaming and owned once kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Charge<'a> {
    /// The local primary key, as text.
    pub charge_id: Cow<'a, str>,
    /// The idempotency key under which it was made.
    pub idempotency_key: Option<Cow<'a, str>>,
    /// The reference that was sent to the provider.
    pub merchant_reference: Option<Cow<'a, str>>,
    /// The provider's id of the payment; absent when the answer was lost.
    pub provider_id: Option<Cow<'a, str>>,
    /// Amount in ISO minor units.
    pub amount_minor: i64,
    /// Its currency.
    pub currency: Currency,
    /// Where it stands; a clean `refunded` is `succeeded` with `refunded_minor` = the amount.
    pub status: Status,
    /// The word that the local table has.
    pub status_raw: Cow<'a, str>,
    /// Sum refunded, where the local side keeps it.
    pub refunded_minor: Option<i64>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// By what a local charge can be found: enough to pass over it before it is read in full.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the charge's own fields")]
pub struct ChargeNames<'a> {
    pub idempotency_key: Option<&'a str>,
    pub merchant_reference: Option<&'a str>,
    pub provider_id: Option<&'a str>,
}

impl<'a> Charge<'a> {
    /// By what it can be found.
    pub fn names(&self) -> ChargeNames<'_> {
        ChargeNames {
            idempotency_key: self.idempotency_key.as_deref(),
            merchant_reference: self.merchant_reference.as_deref(),
            provider_id: self.provider_id.as_deref(),
        }
    }

    /// Copies what is borrowed, so that the charge outlives its row.
    pub fn into_owned(self) -> Charge<'static> {
        let own = |text: Option<Cow<'a, str>>| text.map(|t| Cow::Owned(t.into_owned()));
        Charge {
            charge_id: Cow::Owned(self.charge_id.into_owned()),
            idempotency_key: own(self.idempotency_key),
            merchant_reference: own(self.merchant_reference),
            provider_id: own(self.provider_id),
            amount_minor: self.amount_minor,
            currency: self.currency,
            status: self.status,
            status_raw: Cow::Owned(self.status_raw.into_owned()),
            refunded_minor: self.refunded_minor,
            created_at: self.created_at,
        }
    }
}

/// Which local column is compared with the report's reference. One key a row, the same on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchKey {
    /// The reference sent to the provider.
    #[default]
    MerchantReference,
    /// The idempotency key, echoed by the provider as its reference.
    IdempotencyKey,
    /// The provider's own id of the payment.
    ProviderId,
}
