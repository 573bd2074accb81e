//! The judgement of a run: how bad it is, in a sentence, and what a person must do first.
//!
//! Counts and wording only; laying out and escaping are the renderers' business.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::{Sums, count, money_list};
use super::words;
use crate::domain::mismatch::{Kind, Severity, Standing};
use crate::domain::run::Reconciliation;

/// What to do, in three parts: what about, the sentence, the money.
#[derive(Debug, Default, Serialize)]
pub(super) struct TodoLine {
    pub(super) what: String,
    pub(super) action: String,
    pub(super) at_risk: String,
}

/// What this run says of one kind against earlier runs.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) total: u64,
    pub(super) new: u64,
    pub(super) changed: u64,
    pub(super) reopened: u64,
}

/// Counts by kind. `counts` may know of more findings than are listed; what is listed as new is new
/// whatever `counts` says, so that a forgotten count can never silence an alarm.
pub(super) fn tallies(found: &Reconciliation) -> BTreeMap<Kind, Tally> {
    let mut listed: BTreeMap<Kind, Tally> = BTreeMap::new();
    for mismatch in &found.mismatches {
        let tally = listed.entry(mismatch.kind).or_default();
        tally.total += 1;
        match mismatch.seen {
            Standing::New => tally.new += 1,
            Standing::StillOpen => {}
            // Worse than before is a change, too.
            Standing::Changed | Standing::Raised => tally.changed += 1,
            Standing::Reopened => tally.reopened += 1,
        }
    }
    for (kind, counted) in &found.counts {
        let tally = listed.entry(*kind).or_default();
        tally.total = tally.total.max(counted.total);
        tally.new = tally.new.max(counted.new);
    }
    listed.retain(|_, tally| tally.total > 0);
    listed
}

pub(super) fn risks_by_kind(found: &Reconciliation) -> BTreeMap<Kind, Sums> {
    let mut risks: BTreeMap<Kind, Sums> = BTreeMap::new();
    for mismatch in &found.mismatches {
        if let Some(currency) = mismatch.currency {
            *risks.entry(mismatch.kind).or_default().entry(currency).or_insert(0) += i128::from(mismatch.at_risk_minor);
        }
    }
    risks
}

/// The worst severity among the breaks that `which` picks; those that are counted but not listed count as
/// new ones of their kind's base severity.
pub(super) fn worst_severity(
    found: &Reconciliation,
    breaks: &[(Kind, Tally)],
    which: fn(Standing) -> bool,
) -> Option<Severity> {
    let listed = found.mismatches.iter().filter(|m| m.kind.is_break() && which(m.seen)).map(|m| m.severity);
    let counted = breaks.iter().filter(|(_, t)| t.new > 0).map(|(kind, _)| kind.base_severity());
    // Severity orders the worst first.
    listed.chain(counted.filter(|_| which(Standing::New))).min()
}

pub(super) fn verdict(found: &Reconciliation, sound: bool, total: u64, fresh: u64, alarming: u64) -> String {
    if !sound {
        return "The sums do not add up: do not rely on this run.".to_owned();
    }
    let matched = found.control.local_matched;
    if total == 0 {
        return if matched == 0 {
            "Nothing was matched and nothing differs: check that the right report was read.".to_owned()
        } else {
            format!("Everything agrees: {} charges matched, no breaks.", count(matched))
        };
    }
    let known = count(total - fresh.min(total));
    let noun = if total == 1 { "break needs" } else { "breaks need" };
    if alarming == 0 {
        return format!("Nothing new. {} known {noun} a decision.", count(total));
    }
    format!("{} {noun} a decision: {} new, {known} known.", count(total), count(fresh))
}

/// At most three lines: what to do, worst first.
pub(super) fn todo(
    found: &Reconciliation,
    sound: bool,
    breaks: &[(Kind, Tally)],
    risks: &BTreeMap<Kind, Sums>,
    pending: u64,
) -> Vec<TodoLine> {
    let sentence = |action: String| vec![TodoLine { action, ..TodoLine::default() }];
    if !sound {
        return sentence(
            "Keep this report and its input, and ask for help: the comparison itself is at fault.".to_owned(),
        );
    }
    let line = |(kind, tally): &(Kind, Tally)| TodoLine {
        what: format!("{} x {}", count(tally.total), words::title(*kind)),
        action: format!("{}.", words::action(*kind)),
        at_risk: risks.get(kind).map(money_list).unwrap_or_default(),
    };
    match breaks {
        [] if pending > 0 => {
            let grace = found.run.grace_hours;
            sentence(format!("Nothing. {} rows wait for their other side, within {grace} h.", count(pending)))
        }
        [] => sentence("Nothing.".to_owned()),
        [first, second, rest @ ..] if rest.len() > 1 => {
            let more = rest.iter().map(|(_, t)| t.total).sum::<u64>();
            let action = format!("Then {} breaks of {} other kinds, listed below.", count(more), rest.len());
            vec![line(first), line(second), TodoLine { action, ..TodoLine::default() }]
        }
        all => all.iter().map(line).collect(),
    }
}
