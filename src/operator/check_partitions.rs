//! The partition part of `check`: what the catalog says, against what jobs.toml promises.

use chrono::{DateTime, TimeDelta, Utc};

use crate::config::value::print_span;
use crate::config::{PartitionSettings, PartitionTable, TableKind};
use crate::domain::partition::{Stands, TableFacts, Traits};
use crate::policy::partitions::{holes, horizon, removals, window};
use crate::store::partitions::PartitionSession;
use crate::store::{Store, StoreError};

use super::check::{Probe, Verdict};

/// A day may wait this long for a run that removes it; a nightly one may fail once.
const OVERDUE: TimeDelta = TimeDelta::days(2);

/// Rows of a default partition are counted up to this.
const DEFAULT_ROWS_SHOWN: u64 = 1_000;

/// The retention against what it has to outlast. Needs no database.
pub(super) fn promises(settings: &PartitionSettings) -> Vec<Probe> {
    let mut probes = Vec::new();
    for table in settings.tables.iter().filter(|table| table.kind != TableKind::Plain) {
        let promises = [
            ("the longest client retry (client_retry_window)", settings.client_retry_window),
            ("the longest promise of a finished key (largest_ttl)", settings.largest_ttl),
        ];
        for (what, length) in promises {
            if table.retention < length {
                let (kept, length) = (print_span(table.retention), print_span(length));
                let sentence =
                    format!("retention {kept} is shorter than {what}, {length}: a late retry would run twice");
                probes.push(Probe::new(Verdict::Config, table.name.to_string(), sentence));
            }
        }
    }
    probes
}

/// The catalog.
pub(super) async fn probe(
    store: &Store,
    settings: &PartitionSettings,
    machine_now: DateTime<Utc>,
) -> Result<Vec<Probe>, StoreError> {
    let mut session = store.look_at_partitions(settings).await?;
    let now = session.now().await?;
    let mut probes = vec![clock(now, machine_now, settings)];
    for table in &settings.tables {
        let subject = table.name.to_string();
        match session.facts(table).await? {
            Err(problem) => probes.push(Probe::new(Verdict::Config, subject, problem.to_string())),
            Ok(facts) => {
                let mut found = shape(&facts, table, now);
                found.extend(unfinished_work(&mut session, &facts, table, settings).await?);
                if found.iter().all(|probe| probe.verdict == Verdict::Warning) {
                    let until = window(now, table.premake_days).to;
                    found.insert(
                        0,
                        Probe::new(Verdict::Sound, subject, format!("covered until {}", until.date_naive())),
                    );
                }
                probes.extend(found);
            }
        }
    }
    session.end().await?;
    Ok(probes)
}

fn clock(now: DateTime<Utc>, machine_now: DateTime<Utc>, settings: &PartitionSettings) -> Probe {
    let skew = (now - machine_now).abs();
    let sentence = format!("{} s between the database's and this machine's", skew.num_seconds());
    let far = skew.to_std().is_ok_and(|skew| skew > settings.skew_max);
    Probe::new(if far { Verdict::NeedsHuman } else { Verdict::Sound }, "clocks", sentence)
}

/// What the facts alone tell.
fn shape(facts: &TableFacts, table: &PartitionTable, now: DateTime<Utc>) -> Vec<Probe> {
    let subject = table.name.to_string();
    let mut probes = Vec::new();
    let mut say = |verdict, sentence: String| probes.push(Probe::new(verdict, subject.clone(), sentence));
    let has_default = facts.default_child().is_some();
    for hole in holes(window(now, table.premake_days), &facts.open()) {
        let verdict = if has_default { Verdict::Warning } else { Verdict::NeedsHuman };
        say(verdict, format!("uncovered from {} to {}", instant(hole.from), instant(hole.to)));
    }
    let gone = removals(facts, table, now, usize::MAX);
    let overdue = horizon(table, now) - OVERDUE;
    for child in gone.go.iter().filter(|child| child.period.is_some_and(|period| period.to <= overdue)) {
        say(Verdict::NeedsHuman, format!("{} is past its retention for more than two days", child.shown));
    }
    for (child, reason) in &gone.left_alone {
        say(Verdict::Warning, format!("{} is past its retention and stays: {reason}", child.shown));
    }
    for child in &facts.children {
        if child.period.is_some_and(|period| !period.on_midnights()) {
            say(Verdict::Warning, format!("the bounds of {} are not on midnights of UTC", child.shown));
        }
    }
    let newest = facts.children.iter().filter(|child| child.ordinary && child.period.is_some());
    let options = newest.max_by_key(|child| child.period).map(|child| child.traits.options.clone()).unwrap_or_default();
    for child in facts.children.iter().filter(|child| child.ordinary) {
        let drifted = drift(&child.traits, &facts.traits, &options);
        if !drifted.is_empty() {
            say(Verdict::Warning, format!("{} differs from its parent: {}", child.shown, drifted.join(", ")));
        }
    }
    if facts.analyzed_at.is_none() && table.analyze {
        say(Verdict::Warning, "the table as a whole was never analyzed; the next run does it".to_owned());
    }
    probes
}

/// What differs, in words.
fn drift(child: &Traits, parent: &Traits, options: &[String]) -> Vec<&'static str> {
    let differences = [
        ("owner", child.owner != parent.owner),
        ("grants", child.grants != parent.grants),
        ("storage options", child.options != options),
        ("replica identity", child.replica_identity != parent.replica_identity),
        ("row level security", child.row_security != parent.row_security),
    ];
    differences.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
}

/// What the ledger and the default partition tell.
async fn unfinished_work(
    session: &mut PartitionSession,
    facts: &TableFacts,
    table: &PartitionTable,
    settings: &PartitionSettings,
) -> Result<Vec<Probe>, StoreError> {
    let subject = table.name.to_string();
    let mut probes = Vec::new();
    let leftovers = session.leftovers(facts).await?;
    let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    if let Some(child) = facts.pending() {
        let age = leftovers.iter().find(|leftover| leftover.oid == child.oid).map(|leftover| leftover.age_seconds);
        let age_said = age.map_or_else(|| "begun by somebody else".to_owned(), |age| format!("begun {age} s ago"));
        let old = age.is_none_or(|age| age > seconds(settings.pending_max));
        let verdict = if old { Verdict::NeedsHuman } else { Verdict::Warning };
        let sentence =
            format!("the detach of {} is pending, {age_said}: migrations of the table must wait", child.shown);
        probes.push(Probe::new(verdict, subject.clone(), sentence));
    }
    for leftover in leftovers.iter().filter(|l| matches!(l.stands, Stands::Detached | Stands::Unproven)) {
        let limit = seconds(settings.detached_grace).saturating_add(OVERDUE.num_seconds());
        let verdict = if leftover.age_seconds > limit { Verdict::NeedsHuman } else { Verdict::Warning };
        let sentence = format!("{} is detached and not dropped for {} s", leftover.child, leftover.age_seconds);
        probes.push(Probe::new(verdict, subject.clone(), sentence));
    }
    if let Some(default) = facts.default_child().and_then(|child| child.name.as_ref()) {
        let rows = session.rows_up_to(default, DEFAULT_ROWS_SHOWN).await?;
        if rows > 0 {
            let more = if rows >= DEFAULT_ROWS_SHOWN { " or more" } else { "" };
            let sentence = format!("the default partition {default} holds {rows}{more} rows");
            probes.push(Probe::new(Verdict::Warning, subject, sentence));
        }
    }
    Ok(probes)
}

fn instant(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}
