//! Laws of the partition plan, and its edges.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::NaiveDate;
use proptest::prelude::*;

use super::*;
use crate::config::Settings;
use crate::domain::partition::{ColumnKind, Traits};

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn table() -> PartitionTable {
    Settings::default().partitions.tables.swap_remove(0)
}

fn child(name: &str, period: Option<Period>) -> Child {
    Child {
        oid: 1,
        name: TableName::of("idem", name),
        shown: name.to_owned(),
        period,
        pending: false,
        ordinary: true,
        commented: true,
        rows: 0,
        traits: Traits::default(),
    }
}

fn facts(periods: &[Period]) -> TableFacts {
    TableFacts {
        name: table().name,
        oid: 1,
        column: "\"day\"".to_owned(),
        kind: ColumnKind::Instant,
        traits: Traits::default(),
        children: periods.iter().enumerate().map(|(n, period)| child(&format!("c{n}"), Some(*period))).collect(),
        incoming: Vec::new(),
        outgoing: Vec::new(),
        plain_columns: String::new(),
        analyzed_at: None,
    }
}

#[test]
fn days_tile_without_gap_or_overlap_for_400_years() {
    let first = NaiveDate::from_ymd_opt(1900, 1, 1).unwrap();
    let mut names = BTreeSet::new();
    let mut before = Period::day(first.pred_opt().unwrap());
    for day in first.iter_days().take(146_097) {
        let period = Period::day(day);
        assert_eq!(period.from, before.to, "{day}");
        assert_eq!(period.to - period.from, TimeDelta::hours(24), "{day}");
        assert!(names.insert(table().name.child(period, true).unwrap().to_string()), "{day}");
        before = period;
    }
}

/// Disjoint stretches of whole minutes around the window, as a human or another tool may have left them.
fn irregular() -> impl Strategy<Value = Vec<Period>> {
    let from = at("2026-02-27T00:00:00Z");
    proptest::collection::btree_set(0_i64..14 * 24 * 60, 0..24).prop_map(move |marks| {
        let marks: Vec<_> = marks.into_iter().map(|minute| from + TimeDelta::minutes(minute)).collect();
        marks.chunks_exact(2).map(|pair| Period { from: pair[0], to: pair[1] }).collect()
    })
}

proptest! {
    #[test]
    fn every_hole_is_filled_and_nothing_overlaps(taken in irregular(), minute in 0_i64..7 * 24 * 60, premake in 0_u32..9) {
        let now = at("2026-02-28T00:00:00Z") + TimeDelta::minutes(minute);
        let made: Vec<Period> = creations(&facts(&taken), now, premake).into_iter().map(|c| c.period).collect();
        let mut all = taken.clone();
        all.extend(&made);
        prop_assert_eq!(holes(window(now, premake), &all), vec![]);
        for (n, a) in all.iter().enumerate() {
            prop_assert!(a.from < a.to);
            prop_assert!(all.iter().skip(n + 1).all(|b| !a.overlaps(*b)), "{:?}", all);
        }
        let names: BTreeSet<_> = creations(&facts(&taken), now, premake).into_iter().map(|c| c.name.unwrap()).collect();
        prop_assert_eq!(names.len(), made.len());
    }

    #[test]
    fn any_window_of_any_year_tiles(day in 0_i64..146_097, premake in 0_u32..40) {
        let now = at("1900-01-01T13:00:00Z") + TimeDelta::days(day);
        let made: Vec<Period> = creations(&facts(&[]), now, premake).into_iter().map(|c| c.period).collect();
        prop_assert_eq!(made.len(), premake as usize + 1);
        prop_assert!(made.iter().all(|period| period.as_day().is_some()));
        prop_assert!(made.windows(2).all(|pair| pair[0].to == pair[1].from));
        prop_assert_eq!(made[0].from.date_naive(), now.date_naive());
    }

    #[test]
    fn nothing_newer_than_floor_or_retention_is_ever_removed(
        taken in irregular(), minute in 0_i64..20 * 24 * 60, retention in 0_u64..200, floor in 0_u64..200, cap in 0_usize..5,
    ) {
        let now = at("2026-02-27T00:00:00Z") + TimeDelta::minutes(minute);
        let hours = |n| Duration::from_secs(n * 3600);
        let table = PartitionTable { retention: hours(retention), retention_floor: hours(floor), ..table() };
        let removals = removals(&facts(&taken), &table, now, cap);
        prop_assert!(removals.go.len() <= cap);
        for child in &removals.go {
            let age = now - child.period.unwrap().to;
            prop_assert!(age >= TimeDelta::hours(i64::try_from(floor.max(retention)).unwrap()));
        }
    }

    #[test]
    fn holes_and_taken_make_up_the_window(taken in irregular()) {
        let window = window(at("2026-03-01T12:00:00Z"), 5);
        let length = |p: &Period| p.to.min(window.to) - p.from.max(window.from);
        let within: TimeDelta = taken.iter().filter(|p| p.overlaps(window)).map(length).sum();
        let free: TimeDelta = holes(window, &taken).iter().map(|p| p.to - p.from).sum();
        prop_assert_eq!(within + free, window.to - window.from);
    }
}

#[test]
fn calendar_edges() {
    let table: &[(&str, &str, &str)] = &[
        ("leap day", "2028-02-27T23:59:59Z", "2028-02-27 2028-02-28 2028-02-29 2028-03-01"),
        ("no leap day", "2026-02-26T00:00:00Z", "2026-02-26 2026-02-27 2026-02-28 2026-03-01"),
        ("no leap century", "2100-02-27T12:00:00Z", "2100-02-27 2100-02-28 2100-03-01 2100-03-02"),
        ("year end", "2026-12-30T08:00:00Z", "2026-12-30 2026-12-31 2027-01-01 2027-01-02"),
        ("month end", "2026-08-30T00:00:00Z", "2026-08-30 2026-08-31 2026-09-01 2026-09-02"),
        ("a Sunday", "2026-11-29T00:00:00Z", "2026-11-29 2026-11-30 2026-12-01 2026-12-02"),
        ("New York turns forward", "2026-03-07T05:00:00Z", "2026-03-07 2026-03-08 2026-03-09 2026-03-10"),
        ("New York turns back", "2026-10-31T05:00:00Z", "2026-10-31 2026-11-01 2026-11-02 2026-11-03"),
    ];
    for (what, now, expected) in table {
        let made = creations(&facts(&[]), at(now), 3);
        let made: Vec<String> = made.iter().map(|c| c.period.to_string()).collect();
        assert_eq!(made.join(" "), *expected, "{what}");
    }
}

#[test]
fn a_day_is_filled_around_an_irregular_neighbour() {
    let day = Period::day("2026-03-02".parse().unwrap());
    let noon = Period { from: day.from + TimeDelta::hours(5), to: day.from + TimeDelta::hours(17) };
    let made = creations(&facts(&[noon]), day.from, 0);
    let made: Vec<_> = made.iter().map(|c| format!("{} {}", c.period, c.name.as_ref().unwrap().name())).collect();
    assert_eq!(
        made,
        [
            "2026-03-02 to 2026-03-02T05:00:00Z idempotency_keys_y2026m03d02",
            "2026-03-02T17:00:00Z to 2026-03-03 idempotency_keys_y2026m03d02_170000",
        ]
    );
}

#[test]
fn only_what_is_ours_goes() {
    let day = Period::day("2026-01-05".parse().unwrap());
    let now = day.to + TimeDelta::days(3);
    let name = "idempotency_keys_y2026m01d05";
    let uncommented = |name: &str, period: Period| Child { commented: false, ..child(name, Some(period)) };
    let week = Period { from: day.from - TimeDelta::days(6), to: day.to };
    let cases = [
        ("our comment", child("whatever", Some(day)), true),
        ("name and bounds", uncommented(name, day), true),
        ("another name", uncommented("other", day), false),
        ("other bounds", uncommented(name, week), false),
        ("partitioned further", Child { ordinary: false, ..child(name, Some(day)) }, false),
        ("a name that is no name", Child { name: None, ..child(name, Some(day)) }, false),
    ];
    for (what, child, goes) in cases {
        let facts = TableFacts { children: vec![child], ..facts(&[]) };
        let removals = removals(&facts, &table(), now, 9);
        assert_eq!((removals.go.len(), removals.left_alone.len()), if goes { (1, 0) } else { (0, 1) }, "{what}");
    }
    let pending = TableFacts { children: vec![Child { pending: true, ..child(name, Some(day)) }], ..facts(&[]) };
    assert_eq!(removals(&pending, &table(), now, 9), Removals::default(), "a pending detach comes first");
    let default = TableFacts { children: vec![child("rest", None)], ..facts(&[]) };
    assert_eq!(removals(&default, &table(), now, 9), Removals::default(), "a default has no age");
    let capped = removals(&facts_of_days(day, 5), &table(), now + TimeDelta::days(10), 2);
    assert_eq!((capped.go.len(), capped.capped), (2, 3));
    assert_eq!(capped.go[0].period, Some(day), "the oldest first");
}

fn facts_of_days(first: Period, days: i64) -> TableFacts {
    let shifted = |n| Period { from: first.from + TimeDelta::days(n), to: first.to + TimeDelta::days(n) };
    facts(&(0..days).map(shifted).collect::<Vec<_>>())
}

#[test]
fn the_road_follows_from_keys_and_default() {
    use crate::domain::partition::ForeignKey;
    let key = ForeignKey {
        name: "fk".to_owned(),
        other: "shop.merchant".to_owned(),
        other_quoted: String::new(),
        condition: String::new(),
    };
    assert_eq!(road(&facts(&[])), Road::Concurrent);
    assert_eq!(road(&TableFacts { outgoing: vec![key.clone()], ..facts(&[]) }), Road::Ladder);
    assert_eq!(road(&TableFacts { incoming: vec![key], ..facts(&[]) }), Road::LadderWithDetach);
    assert_eq!(road(&TableFacts { children: vec![child("rest", None)], ..facts(&[]) }), Road::Ladder);
}

#[test]
fn each_leftover_has_its_fate() {
    let day = Period::day("2026-01-05".parse().unwrap());
    let leftover = |stands, age_seconds| Leftover {
        id: 1,
        child: TableName::of("idem", "c").unwrap(),
        oid: 1,
        period: day,
        stands,
        age_seconds,
    };
    let old = day.to + TimeDelta::days(3);
    let young = old - TimeDelta::seconds(1);
    let switched_off = PartitionTable { drop: false, ..table() };
    let cases = [
        (Stands::Gone, 0, old, table(), Fate::Close),
        (Stands::Attached, 0, old, table(), Fate::Abandon),
        (Stands::Pending, 0, young, table(), Fate::Finalize),
        (Stands::Unproven, 0, old, table(), Fate::LeaveAlone),
        (Stands::Detached, 100, old, table(), Fate::Drop),
        (Stands::Detached, 99, old, table(), Fate::Keep),
        (Stands::Detached, 100, old, switched_off, Fate::Keep),
        (Stands::Detached, 100, young, table(), Fate::Reattach),
    ];
    for (stands, age, now, table, expected) in cases {
        assert_eq!(fate(&leftover(stands, age), &table, now, 100), expected, "{stands:?} {age} {now}");
    }
}
