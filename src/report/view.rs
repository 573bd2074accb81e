//! What all renderings show, worked out once: the verdict, the sums, the rows, as finished words.
//!
//! Every string here is masked, bounded and visible; none is escaped for a language yet.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::clean::{clean_frame, clean_mismatch, visible};
use super::figures::{AGE_BUCKETS, Sums, age_days, amount, count, duration, moment, money, money_list, share};
use super::row::{Row, row};
use super::verdict::{Tally, TodoLine, risks_by_kind, tallies, todo, verdict, worst_severity};
use super::words;
use crate::domain::mismatch::{Kind, Severity, Standing};
use crate::domain::run::{MoneyLine, Reconciliation, RunHead};

/// Most findings that are laid out one by one; a browser stays quick with as many, the CSV has them all.
const ROWS_MAX: usize = 20_000;
/// How many findings are worth reading before coffee.
const TOP: usize = 10;

/// One run, ready to be laid out.
#[derive(Debug, Serialize)]
pub(super) struct View {
    /// `broken` (the sums do not add up), else the worst severity of the breaks, else `ok`.
    pub(super) level: &'static str,
    /// First word of a mail's subject: about what is new, changed or reopened.
    pub(super) alarm: &'static str,
    pub(super) verdict: String,
    pub(super) todo: Vec<TodoLine>,
    pub(super) who: String,
    pub(super) day: String,
    pub(super) window: String,
    pub(super) provider: String,
    pub(super) account: String,
    pub(super) format: String,
    pub(super) files: Vec<FileLine>,
    pub(super) run_id: String,
    pub(super) identity: String,
    pub(super) started_at: String,
    pub(super) rendered_at: String,
    pub(super) duration: String,
    pub(super) grace_hours: u32,
    pub(super) version: String,
    pub(super) breaks: String,
    pub(super) fresh: String,
    pub(super) known: String,
    pub(super) pending: String,
    pub(super) matched: String,
    pub(super) at_risk: String,
    pub(super) at_risk_lines: Vec<String>,
    pub(super) control: Vec<ControlLine>,
    pub(super) provider_rows: String,
    pub(super) local_rows: String,
    pub(super) ignored: String,
    pub(super) adds_up: bool,
    pub(super) money: Vec<MoneyRow>,
    pub(super) money_explained: bool,
    pub(super) kinds: Vec<KindLine>,
    /// Titles of the amounts of each line of `ageing`.
    pub(super) ageing_currencies: Vec<String>,
    pub(super) ageing: Vec<AgeLine>,
    pub(super) non_charge: Vec<NonChargeLine>,
    pub(super) refused: Vec<RefusedLine>,
    pub(super) refused_total: String,
    pub(super) notes: Vec<String>,
    pub(super) not_compared: Vec<String>,
    pub(super) top: Vec<Row>,
    /// How many findings of the run are listed one by one, and how many there are.
    pub(super) listed: u64,
    pub(super) findings: u64,
    #[serde(skip)]
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
pub(super) struct FileLine {
    pub(super) name: String,
    pub(super) bytes: String,
    pub(super) sha256: String,
}

/// One bucket of the control block; `None` where a side has no such bucket.
#[derive(Debug, Serialize)]
pub(super) struct ControlLine {
    pub(super) label: &'static str,
    pub(super) provider: Option<String>,
    pub(super) local: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct MoneyRow {
    pub(super) currency: String,
    pub(super) local: String,
    pub(super) provider: String,
    pub(super) difference: String,
    pub(super) explained: String,
    pub(super) unexplained: String,
    pub(super) balanced: bool,
    pub(super) at_risk: String,
    /// At risk as hundredths of the larger side's total, at least 1 when there is any.
    pub(super) risk_share: u64,
    pub(super) risk_percent: String,
}

#[derive(Debug, Serialize)]
pub(super) struct KindLine {
    pub(super) kind: &'static str,
    pub(super) title: &'static str,
    pub(super) action: &'static str,
    pub(super) severity: &'static str,
    pub(super) is_break: bool,
    pub(super) total: String,
    pub(super) new: String,
    pub(super) still_open: String,
    pub(super) changed: String,
    pub(super) reopened: String,
    pub(super) at_risk: String,
    pub(super) share: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct AgeLine {
    pub(super) label: &'static str,
    pub(super) count: String,
    pub(super) amounts: Vec<String>,
    pub(super) share: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct NonChargeLine {
    pub(super) kind: String,
    pub(super) rows: String,
    pub(super) sum: String,
}

#[derive(Debug, Serialize)]
pub(super) struct RefusedLine {
    pub(super) place: String,
    pub(super) column: String,
    pub(super) raw: String,
    pub(super) reason: String,
}

impl View {
    /// Works out what to show of `found`, with ages counted to `now`.
    pub(super) fn new(found: &Reconciliation, now: DateTime<Utc>) -> Self {
        // Numbers come from the findings as they are, words from what has been cleaned.
        let frame = clean_frame(found);
        let run = &frame.run;
        let tallies = tallies(found);
        let risks = risks_by_kind(found);
        let breaks: Vec<(Kind, Tally)> =
            Kind::ALL.into_iter().filter(|k| k.is_break()).filter_map(|k| Some((k, *tallies.get(&k)?))).collect();
        let total = breaks.iter().map(|(_, t)| t.total).sum::<u64>();
        let fresh = breaks.iter().map(|(_, t)| t.new).sum::<u64>();
        let alarming = breaks.iter().map(|(_, t)| t.new + t.changed + t.reopened).sum::<u64>();
        let pending = found.control.provider_pending + found.control.local_pending;
        let money_explained = found.money.iter().all(|line| line.unexplained_minor == 0);
        let sound = found.control.adds_up() && money_explained;
        let at_risk = money_list(&found.at_risk());
        let worst = worst_severity(found, &breaks, |_| true);
        let longest = tallies.iter().filter(|(k, _)| k.is_break()).map(|(_, t)| t.total).max().unwrap_or(0);

        Self {
            level: if sound { worst.map_or("ok", Severity::as_str) } else { "broken" },
            alarm: match worst_severity(found, &breaks, |seen| seen != Standing::StillOpen) {
                _ if !sound => "CRITICAL",
                None => "OK",
                Some(Severity::Critical) => "CRITICAL",
                Some(Severity::High) => "HIGH",
                Some(Severity::Medium | Severity::Info) => "MEDIUM",
            },
            verdict: verdict(found, sound, total, fresh, alarming),
            todo: todo(found, sound, &breaks, &risks, pending),
            who: who(run),
            day: day(run),
            window: match (run.window_from, run.window_to) {
                (Some(from), Some(to)) => format!("{} to {}", moment(from), moment(to)),
                _ => "not stated".to_owned(),
            },
            provider: visible(&run.provider).into_owned(),
            account: visible(&run.account).into_owned(),
            format: visible(&run.format).into_owned(),
            files: run
                .files
                .iter()
                .map(|f| FileLine {
                    name: visible(&f.name).into_owned(),
                    bytes: count(f.bytes),
                    sha256: f.sha256.clone(),
                })
                .collect(),
            run_id: run.id.clone(),
            identity: run.identity.clone(),
            started_at: moment(run.started_at),
            rendered_at: moment(now),
            duration: duration(run.duration_ms),
            grace_hours: run.grace_hours,
            version: run.version.clone(),
            breaks: count(total),
            fresh: count(fresh),
            known: count(total.saturating_sub(fresh)),
            pending: count(pending),
            matched: count(found.control.local_matched),
            at_risk,
            at_risk_lines: found.at_risk().iter().filter(|(_, m)| **m != 0).map(|(c, m)| money(*m, *c)).collect(),
            control: control_lines(found),
            provider_rows: count(found.control.provider_rows),
            local_rows: count(found.control.local_rows),
            ignored: count(found.control.provider_ignored),
            adds_up: found.control.adds_up(),
            money: money_rows(found),
            money_explained,
            kinds: Kind::ALL
                .into_iter()
                .filter_map(|kind| Some(kind_line(kind, *tallies.get(&kind)?, found, &risks, longest)))
                .collect(),
            ageing_currencies: found.at_risk().keys().map(ToString::to_string).collect(),
            ageing: ageing(found, now),
            non_charge: frame
                .non_charge
                .iter()
                .map(|line| NonChargeLine {
                    kind: visible(&line.kind).replace('_', " "),
                    rows: count(line.rows),
                    sum: money(line.sum_minor, line.currency),
                })
                .collect(),
            refused: frame
                .refused
                .iter()
                .map(|row| RefusedLine {
                    place: place(run, row.file, row.line),
                    column: visible(row.column.as_deref().unwrap_or_default()).into_owned(),
                    raw: visible(&row.raw).into_owned(),
                    reason: visible(&row.reason).into_owned(),
                })
                .collect(),
            refused_total: count(found.control.provider_refused),
            notes: frame.notes.iter().map(|n| visible(n).into_owned()).collect(),
            not_compared: run.not_compared.iter().map(|n| visible(n).into_owned()).collect(),
            top: found
                .mismatches
                .iter()
                .filter(|m| m.kind.is_break())
                .take(TOP)
                .map(|m| row(&clean_mismatch(m), now))
                .collect(),
            listed: found.mismatches.len() as u64,
            findings: total + tallies.get(&Kind::TimingPending).map_or(0, |t| t.total),
            rows: found.mismatches.iter().take(ROWS_MAX).map(|m| row(&clean_mismatch(m), now)).collect(),
        }
    }
}

/// `provider/account`, or the provider alone.
pub(super) fn who(run: &RunHead) -> String {
    let provider = visible(&run.provider);
    if run.account.is_empty() { provider.into_owned() } else { format!("{provider}/{}", visible(&run.account)) }
}

/// The day that the window covers, or its first and last day, or the day of the run.
pub(super) fn day(run: &RunHead) -> String {
    let (Some(from), Some(to)) = (run.window_from, run.window_to) else {
        return run.started_at.date_naive().to_string();
    };
    let first = from.date_naive();
    let last = (to - TimeDelta::nanoseconds(1)).max(from).date_naive();
    if first == last { first.to_string() } else { format!("{first}..{last}") }
}

fn control_lines(found: &Reconciliation) -> Vec<ControlLine> {
    let c = &found.control;
    let line = |label, provider: Option<u64>, local: Option<u64>| ControlLine {
        label,
        provider: provider.map(count),
        local: local.map(count),
    };
    vec![
        line("Matched", Some(c.provider_matched), Some(c.local_matched)),
        line("In breaks", Some(c.provider_in_breaks), Some(c.local_in_breaks)),
        line("Waiting within the grace", Some(c.provider_pending), Some(c.local_pending)),
        line("Not a charge", Some(c.provider_non_charge), None),
        line("Repeated rows", Some(c.provider_duplicate_rows), None),
        line("Unreadable", Some(c.provider_refused), None),
        line("Outside the window", None, Some(c.local_outside)),
    ]
}

fn money_rows(found: &Reconciliation) -> Vec<MoneyRow> {
    let risks = found.at_risk();
    let row = |line: &MoneyLine| {
        let show = |minor| amount(minor, line.currency);
        let risk = risks.get(&line.currency).copied().unwrap_or(0);
        let whole = line.local_minor.unsigned_abs().max(line.provider_minor.unsigned_abs());
        let part = risk.unsigned_abs().min(whole);
        // In hundredths of a percent; both fit easily, and a total of nothing has no share.
        let basis = (part * 10_000).checked_div(whole).unwrap_or(0);
        MoneyRow {
            currency: line.currency.to_string(),
            local: show(line.local_minor),
            provider: show(line.provider_minor),
            difference: show(line.difference_minor),
            explained: show(line.explained_minor),
            unexplained: show(line.unexplained_minor),
            balanced: line.unexplained_minor == 0,
            at_risk: show(risk),
            risk_share: share(u64::try_from(basis).unwrap_or(10_000), 10_000).max(u64::from(part > 0)),
            risk_percent: match basis {
                0 if part > 0 => "< 0.01 %".to_owned(),
                _ => format!("{}.{:02} %", basis / 100, basis % 100),
            },
        }
    };
    found.money.iter().map(row).collect()
}

fn kind_line(kind: Kind, tally: Tally, found: &Reconciliation, risks: &BTreeMap<Kind, Sums>, longest: u64) -> KindLine {
    let known = tally.new + tally.changed + tally.reopened;
    let worst = found.mismatches.iter().filter(|m| m.kind == kind).map(|m| m.severity).min();
    KindLine {
        kind: kind.as_str(),
        title: words::title(kind),
        action: words::action(kind),
        severity: worst.unwrap_or(kind.base_severity()).as_str(),
        is_break: kind.is_break(),
        total: count(tally.total),
        new: count(tally.new),
        still_open: count(tally.total.saturating_sub(known)),
        changed: count(tally.changed),
        reopened: count(tally.reopened),
        at_risk: risks.get(&kind).map(money_list).unwrap_or_default(),
        share: if kind.is_break() { share(tally.total, longest) } else { 0 },
    }
}

/// Listed breaks by age of their charge; those without a time stand last.
fn ageing(found: &Reconciliation, now: DateTime<Utc>) -> Vec<AgeLine> {
    let labels: Vec<&'static str> = AGE_BUCKETS.iter().map(|(_, label)| *label).chain(["no date"]).collect();
    let mut counts = vec![0_u64; labels.len()];
    let mut sums = vec![Sums::new(); labels.len()];
    for mismatch in found.mismatches.iter().filter(|m| m.kind.is_break()) {
        let bucket = mismatch.occurred_at.and_then(|at| {
            let days = age_days(now, at);
            AGE_BUCKETS.iter().position(|(end, _)| days <= *end)
        });
        let bucket = bucket.unwrap_or(AGE_BUCKETS.len());
        counts[bucket] += 1;
        if let Some(currency) = mismatch.currency {
            *sums[bucket].entry(currency).or_insert(0) += i128::from(mismatch.at_risk_minor);
        }
    }
    let currencies: Vec<_> = found.at_risk().into_keys().collect();
    let longest = counts.iter().copied().max().unwrap_or(0);
    let lines = labels.into_iter().zip(counts).zip(sums);
    lines
        .map(|((label, number), sums)| AgeLine {
            label,
            count: count(number),
            amounts: currencies
                .iter()
                .map(|c| sums.get(c).map_or_else(|| "-".to_owned(), |sum| amount(*sum, *c)))
                .collect(),
            share: share(number, longest),
        })
        .filter(|line| line.label != "no date" || line.share > 0)
        .collect()
}

fn place(run: &RunHead, file: usize, line: u64) -> String {
    let name = run.files.get(file).map_or("report", |f| f.name.as_str());
    format!("{}:{line}", visible(name))
}
