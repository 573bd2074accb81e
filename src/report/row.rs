//! One finding in words, as every rendering shows it.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::clean::visible;
use super::figures::{age_days, amount, count, moment, money};
use super::words;
use crate::domain::mismatch::{Difference, Mismatch, SideView};

/// Most ids, differences or pieces of evidence that are shown of one finding; `report.json` has them all.
const LIST_MAX: usize = 20;

/// One finding, laid out in words; empty where there is nothing to say.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) title: &'static str,
    pub(super) severity: &'static str,
    pub(super) state: &'static str,
    pub(super) seen: &'static str,
    pub(super) reference: String,
    pub(super) key: String,
    pub(super) local: SideLine,
    pub(super) provider: SideLine,
    pub(super) currency: String,
    pub(super) at_risk: String,
    /// Only for sorting.
    pub(super) risk_minor: i64,
    pub(super) at: String,
    pub(super) age: String,
    pub(super) age_days: Option<i64>,
    pub(super) diff: Vec<[String; 3]>,
    pub(super) rule: String,
    pub(super) suggestion: String,
    pub(super) evidence: Vec<[String; 3]>,
}

#[derive(Debug, Serialize)]
pub(super) struct SideLine {
    pub(super) present: bool,
    pub(super) amount: String,
    pub(super) status: String,
    pub(super) at: String,
    pub(super) ids: Vec<String>,
}

/// Lays out `mismatch` with its age counted to `now`.
pub(super) fn row(mismatch: &Mismatch, now: DateTime<Utc>) -> Row {
    let text = |value: &Option<String>| visible(value.as_deref().unwrap_or_default()).into_owned();
    let local = side(mismatch.local.as_ref(), &[]);
    let provider = side(mismatch.provider.as_ref(), &mismatch.provider_ids);
    let days = mismatch.occurred_at.map(|at| age_days(now, at));
    Row {
        id: mismatch.id.clone(),
        kind: mismatch.kind.as_str(),
        title: words::title(mismatch.kind),
        severity: mismatch.severity.as_str(),
        state: mismatch.state.as_str(),
        seen: mismatch.seen.as_str(),
        reference: text(&mismatch.reference),
        key: text(&mismatch.idempotency_key),
        currency: mismatch.currency.map(|c| c.to_string()).unwrap_or_default(),
        at_risk: mismatch.currency.map(|c| amount(i128::from(mismatch.at_risk_minor), c)).unwrap_or_default(),
        risk_minor: mismatch.at_risk_minor,
        at: mismatch.occurred_at.map(moment).unwrap_or_default(),
        age: days.map(|d| format!("{d} d")).unwrap_or_default(),
        age_days: days,
        diff: mismatch.diff.iter().take(LIST_MAX).map(|d| difference(d, &local, &provider)).collect(),
        rule: visible(&mismatch.rule).into_owned(),
        suggestion: visible(&mismatch.suggestion).into_owned(),
        evidence: mismatch
            .evidence
            .iter()
            .take(LIST_MAX)
            .map(|e| {
                let line = e.line.map(|line| format!(":{line}")).unwrap_or_default();
                [visible(&e.side).into_owned(), format!("{}{line}", visible(&e.source)), visible(&e.text).into_owned()]
            })
            .collect(),
        local,
        provider,
    }
}

/// Field, ours, theirs. Amounts are shown as the sides show them, with currency and grouping.
fn difference(difference: &Difference, local: &SideLine, provider: &SideLine) -> [String; 3] {
    let value = |value: &Option<String>, side: &SideLine| match value {
        Some(_) if difference.field == "amount" && !side.amount.is_empty() => side.amount.clone(),
        Some(text) => visible(text).into_owned(),
        None => String::new(),
    };
    let field = visible(&difference.field).replace('_', " ");
    [field, value(&difference.local, local), value(&difference.provider, provider)]
}

/// One side's words; `more_ids` are those that the side itself does not name.
fn side(side: Option<&SideView>, more_ids: &[String]) -> SideLine {
    let own = side.map(|s| s.ids.as_slice()).unwrap_or_default();
    let mut known = BTreeSet::new();
    let all: Vec<String> =
        own.iter().chain(more_ids).filter(|id| known.insert(id.as_str())).map(|id| visible(id).into_owned()).collect();
    let mut ids: Vec<String> = all.iter().take(LIST_MAX).cloned().collect();
    if all.len() > LIST_MAX {
        ids.push(format!("and {} more", count((all.len() - LIST_MAX) as u64)));
    }
    let money = side.and_then(|s| Some(money(i128::from(s.amount_minor?), s.currency?)));
    SideLine {
        present: side.is_some(),
        amount: money.unwrap_or_default(),
        status: side.and_then(|s| s.status.as_deref()).map(|s| visible(s).into_owned()).unwrap_or_default(),
        at: side.and_then(|s| s.occurred_at).map(moment).unwrap_or_default(),
        ids,
    }
}
