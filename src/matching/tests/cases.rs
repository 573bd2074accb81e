//! Failure cases that other reconcilers have had, each as the rows that show it.

use chrono::TimeDelta;

use super::rows::*;
use crate::domain::entry::Status;
use crate::domain::mismatch::{Kind, State};
use crate::domain::money::{NumberStyle, parse_minor};
use crate::matching::{Difference, KeyHasher, LocalTally, ProviderTally, Route, Side};

#[test]
fn a_double_charge_is_named_as_one_and_hides_no_match() {
    let settled = settled(&[report(1, "ch_A", "r1"), report(2, "ch_B", "r1")], &[local("k1", "r1", "ch_A")]);
    let found = only(&settled);
    assert_eq!((found.kind, found.at_risk_minor), (Kind::DuplicateAtProvider, 5000));
    assert_eq!(found.suggestion, "keep ch_A; refund ch_B");
    assert_eq!((settled.control.provider_matched, settled.control.provider_in_breaks), (1, 1));
    assert_eq!((settled.control.local_matched, settled.control.local_in_breaks), (1, 0));
}

/// Both sides know both charges: pair by pair they would cancel.
#[test]
fn no_order_of_two_local_and_two_provider_charges_cancels_silently() {
    let orders = ["LLPP", "LPLP", "LPPL", "PLLP", "PLPL", "PPLL", "LPP", "PLP", "PPL", "LLP", "LPL", "PLL"];
    // Ids of the first and second charge of each side.
    let ids =
        [["A", "B", "A", "B"], ["A", "B", "B", "A"], ["A", "A", "A", "A"], ["A", "B", "C", "D"], ["", "", "A", "B"]];
    for order in orders {
        for [l1, l2, p1, p2] in ids {
            let hasher = KeyHasher::new([9; 16]);
            let mut theirs = ProviderTally::new(&hasher, rules().match_key);
            let mut ours = LocalTally::new(&hasher, rules().match_key);
            let mut difference = Difference::new(10);
            let mut charges = [local("k1", "r1", l1), local("k2", "r1", l2)].into_iter();
            let mut rows = [report(1, p1, "r1"), report(2, p2, "r1")].into_iter();
            for side in order.chars() {
                let (side, route) = match side {
                    'L' => (Side::Local, ours.charge(&charges.next().unwrap())),
                    _ => (Side::Provider, theirs.entry(0, &rows.next().unwrap().entry)),
                };
                let Route::Compare(row) = route else { panic!("the row has a key") };
                difference.add(side, row);
            }
            let leftover = difference.finish();
            assert!(leftover.contains(hasher.key("r1")), "{order} with {l1} {l2} {p1} {p2}");
            assert_eq!(leftover.len(), 1);
        }
    }
}

#[test]
fn a_double_charge_that_both_sides_know_is_still_one() {
    for turns in [vec![false, true, false, true], vec![false, false, true, true], vec![true, false, false, true]] {
        let mut input = super::rows::Input::new(
            &[report(1, "ch_A", "r1"), report(2, "ch_B", "r1")],
            &[local("k1", "r1", "ch_A"), local("k2", "r1", "ch_B")],
        );
        input.turns = turns;
        let settled = input.run(&rules(), late()).unwrap();
        let found = only(&settled);
        assert_eq!((found.kind, found.at_risk_minor), (Kind::DuplicateAtProvider, 5000));
        assert!(settled.adds_up);
    }
}

#[test]
fn currencies_without_decimals_or_with_three_are_not_off_by_a_hundred() {
    let table = [
        ("yen a hundredth", 10_000, "JPY", "100", Some((Kind::AmountUnder, "1/100"))),
        ("yen", 10_000, "JPY", "10000", None),
        ("yen with zeros behind the point", 10_000, "JPY", "10000.00", None),
        ("dinars", 1_234, "KWD", "1.234", None),
        ("dinars as if they had two decimals", 1_230, "KWD", "12.30", Some((Kind::AmountOver, "10 "))),
        ("dollars times a hundred", 5_000, "USD", "5000.00", Some((Kind::AmountOver, "100 "))),
        ("half", 5_000, "USD", "25", Some((Kind::AmountUnder, "1/2"))),
    ];
    for (name, minor, currency, printed, wanted) in table {
        let read = parse_minor(printed, cur(currency).exponent(), NumberStyle::POINT).unwrap();
        let settled =
            settled(&[report(1, "A", "r1").amount(read, currency)], &[local("k", "r1", "A").amount(minor, currency)]);
        match wanted {
            None => assert_eq!(kinds(&settled), [], "{name}"),
            Some((kind, ratio)) => {
                let found = only(&settled);
                assert_eq!(found.kind, kind, "{name}");
                assert!(found.rule.contains(&format!("ratio {ratio}")), "{name}: {}", found.rule);
            }
        }
    }
    assert!(parse_minor("10000.50", 0, NumberStyle::POINT).is_err(), "a fraction of a yen is refused");
}

#[test]
fn decimal_text_is_never_off_by_a_cent() {
    let table = [(255_768, "2557.68"), (115, "1.15"), (435, "4.35"), (29, "0.29"), (110, "1.10")];
    let read = |text| parse_minor(text, 2, NumberStyle::POINT).unwrap();
    let rows: Vec<_> = (1..)
        .zip(table)
        .map(|(i, (_, text))| report(i, &format!("A{i}"), &format!("r{i}")).amount(read(text), "USD"))
        .collect();
    let charges: Vec<_> = (1..)
        .zip(table)
        .map(|(i, (minor, _))| local(&format!("k{i}"), &format!("r{i}"), &format!("A{i}")).amount(minor, "USD"))
        .collect();
    let settled = settled(&rows, &charges);
    assert_eq!((kinds(&settled).len(), settled.control.provider_matched), (0, 5));
}

#[test]
fn pending_rows_are_counted_apart_from_breaks() {
    let now = at("2026-05-05T00:00:00Z");
    // The window holds all of them; the grace of 72 hours is over for the last.
    let mut rules = rules();
    rules.window.to = now;
    rules.read = None;
    let charges = [("a", 1), ("b", 48), ("c", 71), ("d", 73)]
        .map(|(name, hours)| local(name, name, name).with(|row| row.created_at = now - TimeDelta::hours(hours)));
    let broken = local("e", "e", "e");
    let settled = settled_at(&[report(1, "e", "e").amount(1, "USD")], &[&charges[..], &[broken]].concat(), &rules, now);
    assert_eq!((settled.control.local_pending, settled.control.local_in_breaks), (3, 2));
    assert_eq!(settled.counts[&Kind::TimingPending].total, 3);
    assert_eq!(settled.counts[&Kind::MissingAtProvider].total, 1);
    assert_eq!(settled.counts[&Kind::AmountUnder].total, 1);
    assert_eq!(settled.mismatches.iter().filter(|mismatch| mismatch.kind.is_break()).count(), 2);
    assert_eq!(settled.mismatches.iter().filter(|mismatch| mismatch.state == State::Pending).count(), 3);
}

#[test]
fn a_pending_row_that_settled_later_is_no_duplicate_in_any_order() {
    let pending = report(1, "agg1", "r1").status(Status::Pending);
    let booked = report(2, "agg1", "r1");
    for rows in [[pending.clone(), booked.clone()], [booked, pending]] {
        let settled = settled(&rows, &[local("k", "r1", "agg1")]);
        assert_eq!(kinds(&settled), []);
        assert_eq!((settled.control.provider_matched, settled.control.provider_non_charge), (1, 1));
    }
}

#[test]
fn a_capture_in_parts_is_a_match_of_one_to_many() {
    let ours = local("k", "r1", "A").amount(6000, "USD");
    let reversed = [report(1, "A", "r1").amount(10_000, "USD"), reversal(2, "A", "r1", 4000)];
    let lines = [report(1, "A", "r1").amount(3000, "USD"), report(2, "A", "r1").amount(3000, "USD")];
    let without_ids = [report(1, "", "r1").amount(3000, "USD"), report(2, "", "r1").amount(3000, "USD")];
    for rows in [&reversed, &lines, &without_ids] {
        let settled = settled(rows, std::slice::from_ref(&ours));
        assert_eq!((kinds(&settled).len(), settled.control.provider_matched), (0, 2), "{settled:#?}");
    }
    let found = settled(&[report(1, "A", "r1").amount(3000, "USD")], &[ours]);
    assert_eq!((only(&found).kind, only(&found).at_risk_minor), (Kind::AmountUnder, 3000));
}

#[test]
fn equal_money_at_the_same_time_is_a_suggestion_and_no_match() {
    let settled = settled(&[report(1, "ch_9", "rX")], &[local("k1", "r1", ""), local("k2", "r2", "")]);
    let mut found = kinds(&settled);
    found.sort_unstable();
    assert_eq!(found, [Kind::MissingLocally, Kind::MissingAtProvider, Kind::MissingAtProvider]);
    let theirs = settled.mismatches.iter().find(|mismatch| mismatch.kind == Kind::MissingLocally).unwrap();
    assert!(theirs.suggestion.ends_with("we have the same amount at that time under r1, r2"), "{}", theirs.suggestion);
    assert_eq!(settled.control.provider_matched, 0);
}
