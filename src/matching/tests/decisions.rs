//! What each rule decides, one row of rows each.

use chrono::TimeDelta;

use super::rows::*;
use crate::domain::charge::{Charge, MatchKey};
use crate::domain::entry::{DatedBy, EntryKind, Status};
use crate::domain::mismatch::{Kind, State};
use crate::matching::{Implausible, ProviderRow};

type Case = (&'static str, Vec<ProviderRow>, Vec<Charge<'static>>, Vec<(Kind, i64)>);

#[test]
fn each_constellation_has_its_kind() {
    let table: Vec<Case> = vec![
        (
            "both failed",
            vec![report(1, "A", "r").status(Status::Failed)],
            vec![local("k", "r", "A").status(Status::Failed)],
            vec![],
        ),
        ("failed at the provider, nothing here", vec![report(1, "A", "r").status(Status::Failed)], vec![], vec![]),
        ("authorised here, nothing there", vec![], vec![local("k", "r", "A").status(Status::Authorized)], vec![]),
        (
            "a failed attempt before the one that succeeded",
            vec![report(1, "A", "r").status(Status::Failed), report(2, "B", "r")],
            vec![local("k", "r", "B")],
            vec![],
        ),
        ("local without the provider's id", vec![report(1, "A", "r")], vec![local("k", "r", "")], vec![]),
        ("report without the reference", vec![report(1, "A", "")], vec![local("k", "r", "A")], vec![]),
        ("reference mangled, id equal", vec![report(1, "A", "0r")], vec![local("k", "r", "A")], vec![]),
        ("nothing at the provider", vec![], vec![local("k", "r", "A")], vec![(Kind::MissingAtProvider, 5000)]),
        ("nothing here", vec![report(1, "A", "r")], vec![], vec![(Kind::MissingLocally, 5000)]),
        (
            "failed there",
            vec![report(1, "A", "r").status(Status::Failed)],
            vec![local("k", "r", "A")],
            vec![(Kind::StatusProviderFailed, 5000)],
        ),
        (
            "pending there past the grace",
            vec![report(1, "A", "r").status(Status::Pending)],
            vec![local("k", "r", "A")],
            vec![(Kind::StatusProviderFailed, 5000)],
        ),
        (
            "failed here",
            vec![report(1, "A", "r")],
            vec![local("k", "r", "").status(Status::Failed)],
            vec![(Kind::StatusProviderSucceeded, 5000)],
        ),
        (
            "in progress here",
            vec![report(1, "A", "r")],
            vec![local("k", "r", "A").status(Status::Pending)],
            vec![(Kind::StatusProviderSucceeded, 5000)],
        ),
        (
            "more there",
            vec![report(1, "A", "r").amount(5001, "USD")],
            vec![local("k", "r", "A")],
            vec![(Kind::AmountOver, 1)],
        ),
        (
            "less there",
            vec![report(1, "A", "r").amount(4000, "USD")],
            vec![local("k", "r", "A")],
            vec![(Kind::AmountUnder, 1000)],
        ),
        (
            "another currency",
            vec![report(1, "A", "r").amount(5000, "EUR")],
            vec![local("k", "r", "A")],
            vec![(Kind::CurrencyMismatch, 5000)],
        ),
        (
            "amount in doubt",
            vec![report(1, "A", "r").with(|row| row.entry.amount_minor = None)],
            vec![local("k", "r", "A")],
            vec![(Kind::UnparseableRow, 5000)],
        ),
        (
            "charged twice, nothing here",
            vec![report(1, "A", "r"), report(2, "B", "r")],
            vec![],
            vec![(Kind::DuplicateAtProvider, 5000), (Kind::MissingLocally, 5000)],
        ),
        (
            "charged three times",
            vec![report(1, "A", "r"), report(2, "B", "r"), report(3, "C", "r")],
            vec![local("k", "r", "")],
            vec![(Kind::DuplicateAtProvider, 10_000)],
        ),
        (
            "the second charge was taken back",
            vec![report(1, "A", "r"), report(2, "B", "r"), reversal(3, "B", "r", 5000)],
            vec![local("k", "r", "A")],
            vec![],
        ),
        (
            "two local charges claim one id",
            vec![report(1, "A", "r1")],
            vec![local("k1", "r1", "A"), local("k2", "r2", "A")],
            vec![(Kind::DuplicateLocally, 5000)],
        ),
        (
            "two local charges under one key",
            vec![report(1, "A", "r")],
            vec![local("k1", "r", "A"), local("k2", "r", "B")],
            vec![(Kind::DuplicateLocally, 5000)],
        ),
        (
            "two and two of unequal money",
            vec![report(1, "A", "r"), report(2, "B", "r").amount(3000, "USD")],
            vec![local("k1", "r", "A"), local("k2", "r", "B").amount(3000, "USD")],
            vec![],
        ),
        (
            "another id under the reference",
            vec![report(1, "A", "r")],
            vec![local("k", "r", "B")],
            vec![(Kind::KeyConflict, 5000)],
        ),
        (
            "reference points to A, id to B",
            vec![report(1, "A", "r1"), report(2, "B", "r2")],
            vec![local("k", "r1", "B")],
            vec![(Kind::KeyConflict, 10_000)],
        ),
        (
            "two local charges, keys crossed",
            vec![report(1, "A", "r1")],
            vec![local("k1", "r1", ""), local("k2", "r2", "A")],
            vec![(Kind::KeyConflict, 10_000)],
        ),
        (
            "taken back in full later",
            vec![reversal(1, "A", "r", 5000)],
            vec![local("k", "r", "A")],
            vec![(Kind::StatusProviderFailed, 5000)],
        ),
        (
            "charged and taken back in full",
            vec![report(1, "A", "r"), reversal(2, "A", "r", 5000)],
            vec![local("k", "r", "A")],
            vec![(Kind::StatusProviderFailed, 5000)],
        ),
        ("taken back in part later", vec![reversal(1, "A", "r", 2000)], vec![local("k", "r", "A")], vec![]),
        ("taken back, unknown here", vec![reversal(1, "A", "r", 5000)], vec![], vec![]),
        (
            "voided",
            vec![report(1, "A", "r").amount(0, "USD").with(|row| row.entry.kind = EntryKind::Void)],
            vec![local("k", "r", "A")],
            vec![(Kind::StatusProviderFailed, 5000)],
        ),
        (
            "two keys, two charges",
            vec![report(1, "A", "r1"), report(2, "B", "r2")],
            vec![local("k1", "r1", "A"), local("k2", "r2", "B")],
            vec![],
        ),
    ];
    for (name, rows, charges, wanted) in table {
        let settled = settled(&rows, &charges);
        let mut found: Vec<_> = settled.mismatches.iter().map(|m| (m.kind, m.at_risk_minor)).collect();
        found.sort_unstable_by_key(|&(kind, _)| std::cmp::Reverse(kind));
        let mut wanted = wanted;
        wanted.sort_unstable_by_key(|&(kind, _)| std::cmp::Reverse(kind));
        assert_eq!(found, wanted, "{name}: {settled:#?}");
    }
}

#[test]
fn a_finding_says_both_values_where_to_look_and_what_to_do() {
    let settled = settled(&[report(7, "A", "r").amount(500_000, "USD")], &[local("k", "r", "A")]);
    let found = only(&settled);
    assert_eq!(
        found.rule,
        "the provider has USD 5000.00 for our USD 50.00: USD 4950.00 more, ratio 100 (major and minor units mixed up?)"
    );
    let diff = &found.diff[0];
    assert_eq!(
        (diff.field.as_str(), diff.local.as_deref(), diff.provider.as_deref()),
        ("amount", Some("50.00"), Some("5000.00"))
    );
    assert_eq!(found.diff.len(), 1);
    let places: Vec<_> = found.evidence.iter().map(|e| (e.side.as_str(), e.source.as_str(), e.line)).collect();
    assert_eq!(places, [("report", "report.csv", Some(7)), ("local", "k", None)]);
    assert_eq!(found.evidence[0].text, "charge USD 5000.00 succeeded, 2026-05-01 12:00:07 UTC");
    assert_eq!(found.occurred_at, Some(noon(0)));
    assert_eq!(found.idempotency_key.as_deref(), Some("ik_k"));
    assert!(!found.suggestion.is_empty());
}

#[test]
fn one_row_said_twice_counts_once_and_equal_rows_without_id_are_two() {
    let row = report(1, "A", "r");
    let again = row.clone().with(|row| row.entry.line = 9);
    let settled_once = settled(&[row, again], &[local("k", "r", "A")]);
    assert_eq!(kinds(&settled_once), []);
    assert_eq!(settled_once.counts[&Kind::DuplicateReportRow].total, 1);
    assert_eq!(settled_once.money[0].provider_minor, 5000);
    let nameless = report(1, "", "r");
    let settled = settled(&[nameless.clone(), nameless.with(|row| row.entry.line = 9)], &[local("k", "r", "")]);
    assert_eq!(kinds(&settled), [Kind::DuplicateAtProvider]);
}

#[test]
fn what_is_young_waits_and_what_is_outside_is_another_reports() {
    let window_end = rules().window.to;
    let charge = local("k", "r", "A").with(|row| row.created_at = window_end - TimeDelta::seconds(2));
    let due = charge.created_at + TimeDelta::hours(72);
    for (now, kind, state) in [
        (due - TimeDelta::seconds(1), Kind::TimingPending, State::Pending),
        (due, Kind::MissingAtProvider, State::Open),
    ] {
        let settled = settled_at(&[], std::slice::from_ref(&charge), &rules(), now);
        assert_eq!((only(&settled).kind, only(&settled).state), (kind, state));
    }
    // A provider's row waits from its own time, and from the cut-off where the report has none.
    let timed = report(1, "A", "r");
    let timeless = report(1, "A", "r").with(|row| row.entry.time_utc = None);
    for (row, from) in [(&timed, timed.entry.time_utc.unwrap()), (&timeless, window_end)] {
        for (now, kind) in [
            (from + TimeDelta::hours(72) - TimeDelta::seconds(1), Kind::TimingPending),
            (from + TimeDelta::hours(72), Kind::MissingLocally),
        ] {
            assert_eq!(only(&settled_at(std::slice::from_ref(row), &[], &rules(), now)).kind, kind);
        }
    }
    let pending = report(1, "A", "r").status(Status::Pending);
    let waiting = settled_at(&[pending], &[local("k", "r", "A")], &rules(), noon(3600));
    assert_eq!((only(&waiting).kind, waiting.control.provider_pending), (Kind::TimingPending, 1));

    let neighbour = local("k", "r", "A").with(|row| row.created_at = window_end);
    let settled = settled(&[], &[neighbour]);
    assert_eq!((kinds(&settled).len(), settled.control.local_outside), (0, 1));
    assert_eq!(settled.money[0].local_minor, 0);
}

#[test]
fn a_charge_beyond_the_range_that_was_read_still_matches() {
    let old = local("k", "r", "A").with(|row| row.created_at = at("2026-01-01T00:00:00Z"));
    let settled = settled(&[report(1, "A", "r")], &[old]);
    assert_eq!(kinds(&settled), []);
    assert_eq!((settled.control.local_rows, settled.control.local_matched), (1, 1));
    assert_eq!((settled.money[0].local_minor, settled.money[0].difference_minor), (5000, 0));
}

#[test]
fn settled_rows_may_come_late_and_only_covered_time_is_judged() {
    let mut rules = rules();
    rules.dated_by = DatedBy::Settled;
    rules.read = None;
    let charge = local("k", "r", "A");
    let kind =
        |rules: &crate::matching::Rules, now| only(&settled_at(&[], std::slice::from_ref(&charge), rules, now)).kind;
    assert_eq!(kind(&rules, late()), Kind::TimingPending, "later reports have not been seen");
    rules.covered_to = noon(0) + TimeDelta::days(7);
    assert_eq!(kind(&rules, late()), Kind::MissingAtProvider);
    assert_eq!(kind(&rules, noon(0) + TimeDelta::days(9)), Kind::TimingPending, "lag and grace are not over");
}

#[test]
fn the_match_key_may_be_the_idempotency_key_or_the_providers_id() {
    let mut rules = rules();
    rules.match_key = MatchKey::IdempotencyKey;
    let settled = settled_at(&[report(1, "A", "ik_k")], &[local("k", "r", "A")], &rules, late());
    assert_eq!((kinds(&settled).len(), settled.control.local_matched), (0, 1));
    rules.match_key = MatchKey::ProviderId;
    let rows = [report(1, "A", "whatever").amount(9000, "USD"), reversal(2, "A", "", 4000), report(3, "B", "")];
    let settled = settled_at(&rows, &[local("k", "r", "A")], &rules, late());
    assert_eq!(findings(&settled), [(Kind::MissingLocally, "B".to_owned())].into());
}

#[test]
fn other_kinds_and_unknown_types_are_counted_and_summed() {
    let other = |line, kind, minor| report(line, "x", "").amount(minor, "EUR").with(|row| row.entry.kind = kind);
    let rows = [
        report(1, "A", "r"),
        other(2, EntryKind::Refund, -300),
        other(3, EntryKind::Refund, -200),
        other(4, EntryKind::Payout, -4000),
        other(5, EntryKind::Unknown, -700).with(|row| row.entry.type_raw = Some("T9999".into())),
    ];
    let settled = settled(&rows, &[local("k", "r", "A")]);
    let sums: Vec<_> = settled.non_charge.iter().map(|s| (s.kind.as_str(), s.rows, s.sum_minor)).collect();
    assert_eq!(sums, [("refund", 2, -500), ("payout", 1, -4000), ("unknown", 1, -700)]);
    let found = only(&settled);
    assert_eq!((found.kind, found.at_risk_minor), (Kind::UnknownRowType, 700));
    assert_eq!((settled.control.provider_non_charge, settled.control.provider_in_breaks), (3, 1));
}

#[test]
fn a_cut_report_and_a_wrong_key_column_are_not_believed() {
    let charges: Vec<_> = (0..1000).map(|i| local(&i.to_string(), &format!("r{i}"), &format!("A{i}"))).collect();
    let rows: Vec<_> = (0..899).map(|i| report(i, &format!("A{i}"), &format!("r{i}"))).collect();
    let run = super::rows::Input::new(&rows, &charges).run(&rules(), late());
    assert_eq!(run, Err(Implausible::Missing { missing: 101, of: 1000, percent_max: 5 }));
    let run = super::rows::Input::new(&rows, &charges[..999]).run(&rules(), late());
    assert!(run.is_ok(), "a hundred are always believed");

    let blank: Vec<_> = rows.iter().cloned().map(|row| row.with(|row| row.entry.reference = None)).collect();
    let mixed = [&blank[..180], &rows[180..]].concat();
    let run = super::rows::Input::new(&mixed, &charges[..899]).run(&rules(), late());
    assert_eq!(run, Err(Implausible::EmptyKeys { side: "provider", empty: 180, of: 899, percent_max: 20 }));
    assert!(run.unwrap_err().to_string().contains("--reference-column"));
    let mixed = [&blank[..179], &rows[179..]].concat();
    let settled = settled(&mixed, &charges[..899]);
    assert_eq!((kinds(&settled).len(), settled.control.provider_matched), (0, 899), "by the provider's id");
}

#[test]
fn a_key_that_everybody_has_pairs_nothing() {
    let charges: Vec<_> = (0..1001).map(|i| local(&i.to_string(), "0", "")).collect();
    let rows: Vec<_> = (0..1001).map(|i| report(i, &format!("A{i}"), "0")).collect();
    let settled = settled(&rows, &charges);
    assert_eq!(kinds(&settled), [Kind::KeyConflict]);
    assert_eq!(only(&settled).provider_ids.len(), 20);
}
