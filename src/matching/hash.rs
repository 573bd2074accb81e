//! A row becomes a key and its facts: two keyed hashes that both streams compute alike.
//!
//! The seed is drawn once a run, so that nobody can craft rows that cancel each other.

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher13Wide};
use std::hash::Hasher;

use crate::domain::charge::{Charge, ChargeNames, MatchKey};
use crate::domain::entry::{Entry, EntryKind, Status};
use crate::domain::money::Currency;

/// Hashes keys and facts under the seed of a run. Copy it into each stream.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    key: [u8; 16],
    id: [u8; 16],
    facts: [u8; 16],
}

impl KeyHasher {
    /// The same seed on both sides, another one each run.
    pub fn new(seed: [u8; 16]) -> Self {
        // Each role has a key of its own, so that no text hashes to related values in two roles.
        Self { key: seed, id: seed.map(|byte| byte ^ 0x3c), facts: seed.map(|byte| byte ^ 0xa5) }
    }

    /// 128 bits of a match key: wide enough that two keys never meet.
    pub fn key(&self, text: &str) -> u128 {
        wide(&self.key, text)
    }

    /// 128 bits of the provider's id of a payment.
    pub fn id(&self, text: &str) -> u128 {
        wide(&self.id, text)
    }

    /// 64 bits of everything in which two rows that agree are equal.
    pub(super) fn facts(&self, facts: &Facts<u128>) -> u64 {
        let mut text = [0_u8; 31];
        text[0] = facts.kind as u8;
        text[1] = facts.status as u8;
        text[2..5].copy_from_slice(facts.currency.as_str().as_bytes());
        // An amount in doubt equals nothing: a local charge always has one.
        text[5] = u8::from(facts.amount_minor.is_some());
        text[6..14].copy_from_slice(&facts.amount_minor.unwrap_or(0).to_le_bytes());
        text[14] = u8::from(facts.id.is_some());
        text[15..].copy_from_slice(&facts.id.unwrap_or(0).to_le_bytes());
        let mut hasher = SipHasher13::new_with_key(&self.facts);
        hasher.write(&text);
        hasher.finish()
    }
}

fn wide(key: &[u8; 16], text: &str) -> u128 {
    let mut hasher = SipHasher13Wide::new_with_key(key);
    hasher.write(text.as_bytes());
    hasher.finish128().as_u128()
}

/// The comparable facts of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Facts<I> {
    pub(super) kind: EntryKind,
    pub(super) status: Status,
    pub(super) currency: Currency,
    pub(super) amount_minor: Option<i64>,
    /// The provider's id of the payment: its hash, or the id itself.
    pub(super) id: Option<I>,
}

impl<I> Facts<I> {
    /// Facts of a report row: what the customer paid.
    pub(super) fn of_entry(entry: &Entry<'_>, id: Option<I>) -> Self {
        let (amount_minor, currency) = entry.charge_side();
        Self { kind: entry.kind, status: entry.status, currency, amount_minor, id }
    }

    /// Facts of a local charge: those of the report's charge that equals it.
    pub(super) fn of_charge(charge: &Charge<'_>, id: Option<I>) -> Self {
        Self {
            kind: EntryKind::Charge,
            status: charge.status,
            currency: charge.currency,
            amount_minor: Some(charge.amount_minor),
            id,
        }
    }
}

/// The provider's id of the payment that a local charge names.
pub(super) fn charge_payment_id<'a>(charge: &'a Charge<'_>) -> Option<&'a str> {
    present(charge.provider_id.as_deref())
}

/// The provider's id of the payment that a report row belongs to.
pub(super) fn payment_id<'a>(entry: &'a Entry<'_>) -> Option<&'a str> {
    let (own, parent) = (entry.provider_id.as_deref(), entry.parent_id.as_deref());
    match entry.kind {
        EntryKind::Charge | EntryKind::Authorization | EntryKind::Void => present(own).or(present(parent)),
        // The own id of these names the event, not the payment.
        _ => present(parent),
    }
}

/// The match key of a report row; `None` when it has none.
pub fn entry_key<'a>(entry: &'a Entry<'_>, match_key: MatchKey) -> Option<&'a str> {
    match match_key {
        MatchKey::MerchantReference | MatchKey::IdempotencyKey => present(entry.reference.as_deref()),
        MatchKey::ProviderId => payment_id(entry),
    }
}

/// The match key of a local charge; `None` when it has none.
pub fn charge_key<'a>(charge: &'a Charge<'_>, match_key: MatchKey) -> Option<&'a str> {
    name_key(&charge.names(), match_key)
}

/// The match key among the names of a local charge.
pub(super) fn name_key<'a>(names: &ChargeNames<'a>, match_key: MatchKey) -> Option<&'a str> {
    present(match match_key {
        MatchKey::MerchantReference => names.merchant_reference,
        MatchKey::IdempotencyKey => names.idempotency_key,
        MatchKey::ProviderId => names.provider_id,
    })
}

/// An empty text is no key and no id.
pub(super) fn present(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
