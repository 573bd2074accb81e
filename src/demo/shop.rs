//! One day of a simulated shop, and what its payment provider reports about it.
//!
//! Pure and seeded: the same seed gives the same charges, the same report and the same planted breaks.
//! It never compares anything: `planted` is known because it was planted.

use std::collections::BTreeMap;
use std::fmt::Write;

use chrono::{DateTime, TimeDelta, Utc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::domain::charge::Charge;
use crate::domain::entry::Status;
use crate::domain::mismatch::Kind;
use crate::domain::money::{Currency, format_minor};

/// The day that is simulated.
pub(super) const DAY: &str = "2026-05-01T00:00:00Z";
/// When the report is reconciled: with 72 hours of grace, what happened before noon is past it.
pub(super) const AS_OF: &str = "2026-05-04T12:00:00Z";
/// The provider that the shop uses, and its merchant account there.
pub(super) const PROVIDER: &str = "stripe";

/// How many of each kind are planted.
const PLANTS: &[(Kind, u64)] = &[
    (Kind::MissingLocally, 3),
    (Kind::StatusProviderSucceeded, 2),
    (Kind::DuplicateAtProvider, 4),
    (Kind::AmountOver, 3),
    (Kind::MissingAtProvider, 4),
    (Kind::AmountUnder, 3),
    (Kind::CurrencyMismatch, 2),
    (Kind::StatusProviderFailed, 3),
    (Kind::KeyConflict, 1),
    (Kind::DuplicateLocally, 2),
    (Kind::UnparseableRow, 2),
    (Kind::TimingPending, 5),
    (Kind::DuplicateReportRow, 3),
    (Kind::NonChargeRow, 6),
];

/// What the day left behind.
pub(super) struct Day {
    /// The shop's own charges.
    pub(super) charges: Vec<Charge<'static>>,
    /// The provider's report, as the dashboard exports it.
    pub(super) report: String,
    /// What a perfect reconciliation finds.
    pub(super) planted: BTreeMap<Kind, u64>,
}

/// One payment on its way into both sides.
struct Payment {
    number: usize,
    reference: String,
    provider_id: String,
    minor: i64,
    currency: Currency,
    at: DateTime<Utc>,
}

/// Simulates the day. `charges` is the number of payments, at least a hundred.
pub(super) fn simulate(seed: u64, charges: usize) -> Day {
    let mut random = StdRng::seed_from_u64(seed);
    let day: DateTime<Utc> = DAY.parse().expect("a constant");
    let mut schedule = schedule(charges);
    let mut rows = vec![String::from(
        "id,Created date (UTC),Amount,Amount Refunded,Currency,Captured,Fee,PaymentIntent ID,Refunded date (UTC),\
         Status,Description,merchant_reference (metadata)\n",
    )];
    let mut shop = Vec::with_capacity(charges);
    let mut carried: Option<Payment> = None;
    for number in 0..charges {
        let payment = Payment {
            number,
            reference: format!("order-{:06}-{:08x}", number + 1, random.random::<u32>()),
            provider_id: format!("ch_3Shop{:06}{:08x}", number + 1, random.random::<u32>()),
            minor: random.random_range(100..50_000),
            currency: Currency::parse(["USD", "USD", "USD", "EUR", "GBP", "JPY"][random.random_range(0..6)])
                .expect("known currencies"),
            at: day + TimeDelta::milliseconds(i64::try_from(number * 86_390_000 / charges).expect("fits")),
        };
        match schedule.remove(&number) {
            None if random.random_range(0..50) == 0 => {
                // A decline that both sides know is no break.
                shop.push(payment.local(Status::Failed));
                rows.push(payment.line(payment.minor, payment.currency, "Failed", 0));
            }
            None => {
                shop.push(payment.local(Status::Succeeded));
                rows.push(payment.line(payment.minor, payment.currency, "Paid", 0));
            }
            Some(kind) => plant(kind, payment, &mut carried, &mut shop, &mut rows),
        }
    }
    Day { charges: shop, report: rows.concat(), planted: PLANTS.iter().copied().collect() }
}

/// Which payment carries which plant. Pending ones need the afternoon, the rest stands in the morning;
/// a key conflict takes two payments.
fn schedule(charges: usize) -> BTreeMap<usize, Kind> {
    let mut schedule = BTreeMap::new();
    let planted: u64 = PLANTS.iter().map(|(_, count)| count).sum();
    let step = (charges * 2 / 5 / usize::try_from(planted + 2).expect("a small number")).max(1);
    let (mut morning, mut afternoon) = (0, charges * 3 / 5);
    for (kind, count) in PLANTS {
        let payments = if *kind == Kind::KeyConflict { count * 2 } else { *count };
        for _ in 0..payments {
            let next = if *kind == Kind::TimingPending { &mut afternoon } else { &mut morning };
            *next += step;
            schedule.insert(*next, *kind);
        }
    }
    schedule
}

fn plant(
    kind: Kind,
    payment: Payment,
    carried: &mut Option<Payment>,
    shop: &mut Vec<Charge<'static>>,
    rows: &mut Vec<String>,
) {
    let Payment { minor, currency, .. } = payment;
    let paid = payment.line(minor, currency, "Paid", 0);
    match kind {
        // The worker died after the provider had charged and before anything was written down.
        Kind::MissingLocally => rows.push(paid),
        // The answer was lost, and the key is still unfinished.
        Kind::StatusProviderSucceeded => {
            shop.push(payment.local(Status::Pending));
            rows.push(paid);
        }
        // A retry under a new key: the customer paid twice.
        Kind::DuplicateAtProvider => {
            let again = Payment { provider_id: format!("{}b", payment.provider_id), at: payment.at, ..payment.copy() };
            shop.push(payment.local(Status::Succeeded));
            rows.push(paid);
            rows.push(again.line(minor, currency, "Paid", 0));
        }
        Kind::AmountOver => {
            shop.push(payment.local(Status::Succeeded));
            let over = if payment.number.is_multiple_of(2) { minor * 100 } else { minor + 1 };
            rows.push(payment.line(over, currency, "Paid", 0));
        }
        Kind::AmountUnder => {
            shop.push(payment.local(Status::Succeeded));
            rows.push(payment.line(minor / 2, currency, "Paid", 0));
        }
        Kind::MissingAtProvider | Kind::TimingPending => shop.push(payment.local(Status::Succeeded)),
        Kind::CurrencyMismatch => {
            shop.push(payment.local(Status::Succeeded));
            let other = if currency.as_str() == "EUR" { "GBP" } else { "EUR" };
            rows.push(payment.line(minor, Currency::parse(other).expect("known"), "Paid", 0));
        }
        Kind::StatusProviderFailed => {
            shop.push(payment.local(Status::Succeeded));
            rows.push(payment.line(minor, currency, "Failed", 0));
        }
        // Two payments whose provider ids were swapped: reference and id point to different charges.
        Kind::KeyConflict => {
            shop.push(payment.local(Status::Succeeded));
            match carried.take() {
                None => *carried = Some(payment),
                Some(first) => {
                    let (a, b) = (first.provider_id.clone(), payment.provider_id.clone());
                    rows.push(Payment { provider_id: b, ..first.copy() }.line(first.minor, first.currency, "Paid", 0));
                    rows.push(Payment { provider_id: a, ..payment.copy() }.line(minor, currency, "Paid", 0));
                }
            }
        }
        // A retry without a key wrote a second local charge for one payment.
        Kind::DuplicateLocally => {
            let mut again = payment.local(Status::Succeeded);
            again.charge_id = format!("{}-again", again.charge_id).into();
            again.merchant_reference = again.merchant_reference.map(|r| format!("{r}-again").into());
            again.idempotency_key = again.idempotency_key.map(|k| format!("{k}-again").into());
            shop.push(payment.local(Status::Succeeded));
            shop.push(again);
            rows.push(paid);
        }
        Kind::UnparseableRow => {
            let good = format_minor(i128::from(minor), currency.exponent());
            rows.push(paid.replacen(&format!(",{good},"), ",12.3x,", 1));
        }
        Kind::DuplicateReportRow => {
            shop.push(payment.local(Status::Succeeded));
            rows.push(paid.clone());
            rows.push(paid);
        }
        // A refund is a column of the payment's row in this report, and an entry of its own.
        Kind::NonChargeRow => {
            let mut charge = payment.local(Status::Succeeded);
            charge.refunded_minor = Some(minor);
            shop.push(charge);
            rows.push(payment.line(minor, currency, "Refunded", minor));
        }
        Kind::UnknownRowType | Kind::FileRejected => unreachable!("not a row of this report"),
    }
}

impl Payment {
    fn copy(&self) -> Self {
        Self { reference: self.reference.clone(), provider_id: self.provider_id.clone(), ..*self }
    }

    fn local(&self, status: Status) -> Charge<'static> {
        let known = status == Status::Succeeded || status == Status::Failed;
        Charge {
            charge_id: (self.number + 1).to_string().into(),
            idempotency_key: Some(format!("ik1_{:032x}", self.number + 1).into()),
            merchant_reference: Some(self.reference.clone().into()),
            provider_id: known.then(|| self.provider_id.clone().into()),
            amount_minor: self.minor,
            currency: self.currency,
            status,
            status_raw: match status {
                Status::Succeeded => "succeeded",
                Status::Failed => "failed",
                _ => "pending",
            }
            .into(),
            refunded_minor: Some(0),
            created_at: self.at,
        }
    }

    /// The payment's line in the provider's report, two seconds after the shop's own time.
    fn line(&self, minor: i64, currency: Currency, status: &str, refunded: i64) -> String {
        let money = |minor: i64| format_minor(i128::from(minor), currency.exponent());
        let created = (self.at + TimeDelta::seconds(2)).format("%Y-%m-%d %H:%M:%S");
        let refunded_at = if refunded == 0 { String::new() } else { created.to_string() };
        let mut line = String::with_capacity(160);
        writeln!(
            line,
            "{},{created},{},{},{},{},{},pi_{},{refunded_at},{status},,{}",
            self.provider_id,
            money(minor),
            money(refunded),
            currency.as_str().to_lowercase(),
            status != "Failed",
            money(minor * 29 / 1_000 + 30),
            &self.provider_id[3..],
            self.reference,
        )
        .expect("writing to a String cannot fail");
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_day_and_every_plant_finds_its_place() {
        let (a, b) = (simulate(7, 20_000), simulate(7, 20_000));
        assert_eq!(a.report, b.report);
        assert_eq!(a.charges, b.charges);
        for charges in [200, 1_000, 20_000] {
            let planted: usize = schedule(charges).len();
            let wanted: u64 = PLANTS.iter().map(|(k, n)| if *k == Kind::KeyConflict { n * 2 } else { *n }).sum();
            assert_eq!(planted as u64, wanted, "{charges} charges");
        }
    }
}
