//! A day of a shop with planted breaks: every one is found, and nothing else.

use std::collections::BTreeSet;

use super::rows::*;
use crate::domain::entry::Status;
use crate::domain::mismatch::Kind;

/// A small generator with a fixed seed (xorshift64*), so that the day is the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}

const CHARGES: usize = 20_000;
const ONE_BROKEN_IN: u64 = 100;

#[test]
fn a_day_of_twenty_thousand_charges_gives_exactly_the_planted_breaks() {
    let mut dice = Dice(20_260_501);
    let (mut provider, mut charges, mut planted) = (Vec::new(), Vec::new(), BTreeSet::new());
    for i in 0..CHARGES {
        let (reference, id) = (format!("order-{i:06}"), format!("ch_{:016x}", dice.roll(u64::MAX)));
        let currency = ["USD", "USD", "USD", "EUR", "GBP", "JPY", "KWD"][dice.roll(7) as usize];
        let minor = 100 + dice.roll(49_901).cast_signed();
        let broken = dice.roll(ONE_BROKEN_IN) == 0;
        let failed = dice.roll(100) < 2;
        let status = if failed { Status::Failed } else { Status::Succeeded };
        let charge = local(&i.to_string(), &reference, &id).amount(minor, currency).status(status);
        let row = report(i as u64 + 2, &id, &reference).amount(minor, currency).status(status);
        if !broken {
            charges.push(charge);
            provider.push(row);
            continue;
        }
        let plant = dice.roll(7);
        let (charge, row) =
            if plant == 6 { (charge, row) } else { (charge.status(Status::Succeeded), row.status(Status::Succeeded)) };
        let (kind, ours, theirs) = match plant {
            0 => (Kind::MissingAtProvider, vec![charge], vec![]),
            1 => (Kind::MissingLocally, vec![], vec![row]),
            2 => {
                let second = report(1_000_000 + i as u64, &format!("{id}x"), &reference).amount(minor, currency);
                (Kind::DuplicateAtProvider, vec![charge], vec![row, second])
            }
            3 => {
                let wrong = [minor + 1, minor * 100, minor / 2][dice.roll(3) as usize];
                let kind = if wrong > minor { Kind::AmountOver } else { Kind::AmountUnder };
                (kind, vec![charge], vec![row.amount(wrong, currency)])
            }
            4 => {
                let other = if currency == "EUR" { "GBP" } else { "EUR" };
                (Kind::CurrencyMismatch, vec![charge], vec![row.amount(minor, other)])
            }
            5 => (Kind::StatusProviderFailed, vec![charge], vec![row.status(Status::Failed)]),
            _ => {
                let (charge, row) = (charge.status(Status::Failed), row.status(Status::Succeeded));
                (Kind::StatusProviderSucceeded, vec![charge], vec![row])
            }
        };
        planted.insert((kind, reference));
        charges.extend(ours);
        provider.extend(theirs);
    }
    // The report comes in another order than the charges.
    for i in (1..provider.len()).rev() {
        provider.swap(i, dice.roll(i as u64 + 1) as usize);
    }
    let mut input = Input::new(&provider, &charges);
    input.turns = (0..2 * CHARGES).map(|_| dice.roll(2) == 0).collect();
    let settled = input.run(&rules(), late()).unwrap();
    assert!(settled.adds_up);
    assert!(planted.len() > 150);
    assert_eq!(findings(&settled), planted);
    assert_eq!(settled.mismatches.len(), planted.len());
    assert_eq!(settled.control.provider_rows, provider.len() as u64);
}
