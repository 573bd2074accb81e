//! Laws that hold for any rows.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::rows::*;
use crate::domain::charge::{Charge, MatchKey};
use crate::domain::entry::{EntryKind, Status};
use crate::domain::mismatch::Kind;
use crate::matching::{ProviderRow, Rules};

const STATUSES: [Status; 8] = [
    Status::Succeeded,
    Status::Succeeded,
    Status::Succeeded,
    Status::Succeeded,
    Status::Pending,
    Status::Authorized,
    Status::Failed,
    Status::Canceled,
];

fn provider_rows() -> impl Strategy<Value = Vec<ProviderRow>> {
    let kinds = [
        EntryKind::Charge,
        EntryKind::Charge,
        EntryKind::Charge,
        EntryKind::Charge,
        EntryKind::ChargeReversal,
        EntryKind::Authorization,
        EntryKind::Refund,
        EntryKind::Void,
    ];
    let row = (
        (select(kinds.to_vec()), select(&STATUSES[..])),
        (select(&["A", "A", "B", "C", ""][..]), select(&["r1", "r1", "r2", "r3", ""][..])),
        (
            select(&[Some(5000), Some(5000), Some(3000), Some(2000), None][..]),
            select(&["USD", "USD", "USD", "EUR"][..]),
        ),
        0..3_i64,
    );
    prop::collection::vec(row, 0..10).prop_map(|rows| {
        let row = |(line, ((kind, status), (id, reference), (minor, currency), seconds))| {
            report(line, id, reference).amount(0, currency).status(status).with(|row| {
                row.entry.kind = kind;
                row.entry.time_utc = Some(noon(seconds));
                row.entry.amount_minor = minor;
                if kind == EntryKind::ChargeReversal {
                    row.entry.amount_minor = minor.map(|minor: i64| -minor);
                    row.entry.parent_id = row.entry.provider_id.replace(format!("rev{line}").into());
                }
            })
        };
        (1..).zip(rows).map(row).collect()
    })
}

fn charges() -> impl Strategy<Value = Vec<Charge<'static>>> {
    let charge = (
        select(&STATUSES[..]),
        (select(&["A", "A", "B", "C", ""][..]), select(&["r1", "r1", "r2", "r3", ""][..])),
        (select(&[5000, 5000, 3000, 2000][..]), select(&["USD", "USD", "USD", "EUR"][..])),
        // In the window, in the slack, beyond what was read, and young at `NOW`.
        select(&[0, 0, 0, 1, -14 * 3600, -30 * 86400, 11 * 3600][..]),
    );
    prop::collection::vec(charge, 0..10).prop_map(|charges| {
        let charge = |(index, (status, (id, reference), (minor, currency), seconds))| {
            local(&format!("k{index}"), reference, id)
                .amount(minor, currency)
                .status(status)
                .with(|charge| charge.created_at = noon(seconds))
        };
        (1..).zip(charges).map(charge).collect()
    })
}

fn inputs() -> impl Strategy<Value = Input> {
    (provider_rows(), charges(), prop::collection::vec(any::<bool>(), 20)).prop_map(|(provider, local, turns)| Input {
        provider,
        local,
        turns,
    })
}

fn any_rules() -> impl Strategy<Value = Rules> {
    select(&[MatchKey::MerchantReference, MatchKey::ProviderId][..])
        .prop_map(|match_key| Rules { match_key, ..rules() })
}

/// Times at which nothing, some and all of the rows are past their grace.
const NOWS: [i64; 3] = [0, 72 * 3600 + 600, 30 * 86400];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    /// What cancels in the streams would have matched: nothing is lost or invented by not keeping rows.
    #[test]
    fn the_difference_changes_nothing(mut input in inputs(), rules in any_rules(), now in select(&NOWS[..])) {
        // Charges beyond the range are only found through leftovers; reading everything would find more.
        input.local.retain(|charge| rules.was_read(charge.created_at));
        let now = noon(now);
        let streamed = input.run(&rules, now).unwrap();
        prop_assert!(streamed.adds_up, "{streamed:#?}");
        prop_assert_eq!(streamed, input.run_without_difference(&rules, now).unwrap());
    }

    #[test]
    fn every_row_is_in_one_bucket_and_money_is_explained(input in inputs(), rules in any_rules(), now in select(&NOWS[..])) {
        let settled = input.run(&rules, noon(now)).unwrap();
        prop_assert!(settled.control.adds_up());
        prop_assert_eq!(settled.control.provider_rows, input.provider.len() as u64);
        for line in &settled.money {
            prop_assert_eq!(line.difference_minor, line.provider_minor - line.local_minor);
            prop_assert_eq!(line.unexplained_minor, 0);
        }
        let summed: u64 = settled.non_charge.iter().map(|sum| sum.rows).sum();
        prop_assert_eq!(summed, settled.control.provider_non_charge);
        let names: BTreeSet<_> = settled.mismatches.iter().map(|mismatch| &mismatch.fingerprint).collect();
        prop_assert_eq!(names.len(), settled.mismatches.len(), "each finding has a name of its own");
        prop_assert!(settled.mismatches.iter().all(|mismatch| mismatch.at_risk_minor >= 0));
        let findings: u64 = settled.counts.iter()
            .filter(|(kind, _)| !matches!(kind, Kind::DuplicateReportRow | Kind::NonChargeRow))
            .map(|(_, count)| count.total).sum();
        prop_assert_eq!(findings, settled.mismatches.len() as u64);
    }

    #[test]
    fn the_order_of_arrival_does_not_matter(
        (input, shuffled) in inputs().prop_flat_map(|input| {
            let shuffled = (Just(input.provider.clone()).prop_shuffle(), Just(input.local.clone()).prop_shuffle(),
                prop::collection::vec(any::<bool>(), 20))
                .prop_map(|(provider, local, turns)| Input { provider, local, turns });
            (Just(input), shuffled)
        }),
        rules in any_rules(),
    ) {
        prop_assert_eq!(input.run(&rules, late()).unwrap(), shuffled.run(&rules, late()).unwrap());
    }

    #[test]
    fn equal_sides_have_no_finding(
        charges in prop::collection::vec((select(&STATUSES[..]), 1..9_999_i64, select(&["USD", "JPY", "KWD"][..])), 0..30),
        turns in prop::collection::vec(any::<bool>(), 60),
    ) {
        let named = || (1_u64..).zip(&charges);
        let provider: Vec<_> = named()
            .map(|(i, &(status, minor, currency))| report(i, &format!("A{i}"), &format!("r{i}")).amount(minor, currency).status(status))
            .collect();
        let local: Vec<_> = named()
            .map(|(i, &(status, minor, currency))| local(&i.to_string(), &format!("r{i}"), &format!("A{i}")).amount(minor, currency).status(status))
            .collect();
        let settled = Input { provider, local, turns }.run(&rules(), late()).unwrap();
        prop_assert!(settled.adds_up && settled.mismatches.is_empty());
        prop_assert_eq!(settled.control.provider_matched, charges.len() as u64);
        prop_assert_eq!(settled.control.local_matched, charges.len() as u64);
    }

    /// Both sides have the same charges, some keys twice: as pairs they all cancel.
    #[test]
    fn a_key_that_both_sides_have_twice_is_always_a_double_charge(
        times in prop::collection::vec(1..4_usize, 1..5),
        turns in prop::collection::vec(any::<bool>(), 40),
    ) {
        let (mut provider, mut ours, mut wanted) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (key, times) in times.into_iter().enumerate() {
            let reference = format!("r{key}");
            for charge in 0..times {
                provider.push(report(provider.len() as u64, &format!("A{key}{charge}"), &reference));
                ours.push(local(&format!("k{key}{charge}"), &reference, &format!("A{key}{charge}")));
            }
            if times > 1 {
                wanted.insert((Kind::DuplicateAtProvider, reference));
            }
        }
        let settled = Input { provider, local: ours, turns }.run(&rules(), late()).unwrap();
        prop_assert!(settled.adds_up);
        prop_assert_eq!(findings(&settled), wanted);
    }

    /// One charge a key at most on each side: what the one lacks is what the other has too much.
    #[test]
    fn swapping_the_sides_swaps_the_kinds(
        pairs in prop::collection::vec((prop::option::of(1..4_i64), prop::option::of(1..4_i64)), 0..20),
    ) {
        let run = |swapped: bool| {
            let side = |(one, other): (Option<i64>, Option<i64>)| if swapped { (other, one) } else { (one, other) };
            let (mut provider, mut ours) = (Vec::new(), Vec::new());
            for (i, pair) in (1..).zip(&pairs) {
                let (theirs, mine) = side(*pair);
                provider.extend(theirs.map(|minor| report(i, &format!("A{i}"), &format!("r{i}")).amount(minor, "USD")));
                ours.extend(mine.map(|minor| local(&i.to_string(), &format!("r{i}"), &format!("A{i}")).amount(minor, "USD")));
            }
            findings(&settled(&provider, &ours))
        };
        let mirrored: BTreeSet<_> = run(true).into_iter().map(|(kind, key)| {
            let kind = match kind {
                Kind::MissingLocally => Kind::MissingAtProvider,
                Kind::MissingAtProvider => Kind::MissingLocally,
                Kind::AmountOver => Kind::AmountUnder,
                Kind::AmountUnder => Kind::AmountOver,
                other => other,
            };
            (kind, key)
        }).collect();
        prop_assert_eq!(run(false), mirrored);
    }
}

#[test]
fn memory_follows_the_skew_and_not_the_length() {
    use crate::matching::{Difference, KeyHasher, Row, Side};
    let hasher = KeyHasher::new([3; 16]);
    let mut difference = Difference::new(200_000);
    let row = |i: u64| Row { key: hasher.key(&i.to_string()), id: None, facts: i, live: true };
    let mut held = 0;
    for i in 0..200_000 {
        difference.add(Side::Provider, row(i));
        if i >= 500 {
            difference.add(Side::Local, row(i - 500));
        }
        held = held.max(difference.held());
    }
    // The skew, and the few keys that the filter takes for known.
    assert!(held < 1_500, "{held} keys held at a skew of 500");
}
