//! A second, naive implementation for one key at a time: it keeps everything, tries every pairing and shares no code
//! with the real one. Both must name the same kinds.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::rows::*;
use crate::domain::entry::Status;
use crate::domain::mismatch::Kind;

/// A charge of one key: whether it succeeded, its minor units, the index of its provider id.
#[derive(Clone, Copy, Debug)]
struct Ours {
    succeeded: bool,
    minor: i64,
    id: Option<usize>,
}

/// A payment of one key; its index is its id.
#[derive(Clone, Copy, Debug)]
struct Theirs {
    succeeded: bool,
    minor: i64,
}

fn oracle(ours: &[Ours], theirs: &[Theirs]) -> BTreeSet<Kind> {
    let live: Vec<Ours> = ours.iter().copied().filter(|charge| charge.succeeded).collect();
    let paid: Vec<(usize, i64)> = theirs
        .iter()
        .enumerate()
        .filter(|(_, payment)| payment.succeeded)
        .map(|(id, payment)| (id, payment.minor))
        .collect();
    let mut kinds = BTreeSet::new();
    match (live.len(), paid.len()) {
        (0, 0) => {}
        (0, payments) => {
            kinds.insert(if ours.is_empty() { Kind::MissingLocally } else { Kind::StatusProviderSucceeded });
            if payments > 1 {
                kinds.insert(Kind::DuplicateAtProvider);
            }
        }
        (_, 0) => {
            kinds.insert(if theirs.is_empty() { Kind::MissingAtProvider } else { Kind::StatusProviderFailed });
        }
        _ => {
            let pairing = best(&live, &paid);
            let free: Vec<usize> = (0..live.len()).filter(|&charge| pairing[charge].is_none()).collect();
            let unpaid = paid.len() - (live.len() - free.len());
            let mut compared: Vec<(i64, i64)> = live
                .iter()
                .zip(&pairing)
                .filter_map(|(charge, payment)| payment.map(|p| (charge.minor, paid[p].1)))
                .collect();
            match (free.len(), unpaid) {
                (0, 0) => {}
                (0, _) => {
                    kinds.insert(Kind::DuplicateAtProvider);
                }
                (_, 0) => {
                    kinds.insert(Kind::DuplicateLocally);
                }
                // One charge that names none of several payments: the customer paid twice all the same.
                (1, unpaid) if live.len() == 1 && unpaid > 1 => {
                    kinds.insert(Kind::DuplicateAtProvider);
                    compared.push((live[0].minor, paid[0].1));
                }
                _ => {
                    kinds.insert(Kind::KeyConflict);
                }
            }
            let mut seen = BTreeSet::new();
            for (mine, money) in compared {
                if !seen.insert(money) {
                    kinds.insert(Kind::DuplicateAtProvider);
                } else if money > mine {
                    kinds.insert(Kind::AmountOver);
                } else if money < mine {
                    kinds.insert(Kind::AmountUnder);
                }
            }
        }
    }
    kinds
}

/// The assignment of charges to payments with the most equal ids, then the most pairs of equal money (of several
/// charges), then the most pairs, then the earliest. A charge that names an id takes no other payment.
fn best(live: &[Ours], paid: &[(usize, i64)]) -> Vec<Option<usize>> {
    let mut all = vec![Vec::new()];
    for charge in live {
        let mut longer = Vec::new();
        for so_far in &all {
            for choice in (0..paid.len()).map(Some).chain([None]) {
                let allowed =
                    choice.is_none_or(|p| !so_far.contains(&Some(p)) && charge.id.is_none_or(|id| id == paid[p].0));
                if allowed {
                    longer.push([&so_far[..], &[choice]].concat());
                }
            }
        }
        all = longer;
    }
    let score = |pairing: &Vec<Option<usize>>| {
        let pairs = || live.iter().zip(pairing).filter_map(|(charge, p)| p.map(|p| (charge, paid[p])));
        let named = pairs().filter(|(charge, _)| charge.id.is_some()).count();
        let equal =
            if live.len() > 1 { pairs().filter(|(charge, (_, money))| charge.minor == *money).count() } else { 0 };
        (named, equal, pairs().count())
    };
    let most = all.iter().map(score).max().expect("pairing nothing is a pairing");
    all.into_iter().find(|pairing| score(pairing) == most).expect("the best is among all")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_naive_join_names_the_same_kinds(
        keys in prop::collection::vec((
            prop::collection::vec((prop::bool::weighted(0.8), select(&[5000, 3000][..]), prop::option::of(0..3_usize)), 0..3),
            prop::collection::vec((prop::bool::weighted(0.8), select(&[5000, 3000][..])), 0..4),
        ), 1..4),
        turns in prop::collection::vec(any::<bool>(), 24),
    ) {
        let (mut provider, mut charges, mut wanted) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (key, (ours, theirs)) in keys.iter().enumerate() {
            let ours: Vec<Ours> = ours.iter().map(|&(succeeded, minor, id)| Ours { succeeded, minor, id }).collect();
            let theirs: Vec<Theirs> = theirs.iter().map(|&(succeeded, minor)| Theirs { succeeded, minor }).collect();
            let status = |succeeded| if succeeded { Status::Succeeded } else { Status::Failed };
            let reference = format!("r{key}");
            for (i, charge) in ours.iter().enumerate() {
                let id = charge.id.map_or_else(String::new, |id| format!("A{key}{id}"));
                charges.push(local(&format!("k{key}{i}"), &reference, &id).amount(charge.minor, "USD").status(status(charge.succeeded)));
            }
            for (i, payment) in theirs.iter().enumerate() {
                let line = provider.len() as u64 + 1;
                provider.push(report(line, &format!("A{key}{i}"), &reference).amount(payment.minor, "USD").status(status(payment.succeeded)));
            }
            wanted.extend(oracle(&ours, &theirs).into_iter().map(|kind| (kind, reference.clone())));
        }
        let settled = Input { provider, local: charges, turns }.run(&rules(), late()).unwrap();
        prop_assert!(settled.adds_up);
        prop_assert_eq!(findings(&settled), wanted);
    }
}
