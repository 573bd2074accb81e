//! Looks for one-sided findings that might belong together by money and time.
//!
//! A suggestion for a person and never a match: two customers who pay the same price in the same second are common.

use std::collections::HashMap;

use chrono::TimeDelta;

use crate::domain::mismatch::Mismatch;
use crate::domain::money::Currency;

/// How far apart two such findings may be.
const APART_MAX: TimeDelta = TimeDelta::minutes(10);
/// How many are named.
const NAMED_MAX: usize = 3;
/// How many of the same money are looked at.
const LOOKED_AT_MAX: usize = 100;

/// Adds to findings of one side those of the other with the same amount and currency at about the same time.
pub(super) fn suggest(mismatches: &mut [Mismatch]) {
    let mut sides: [HashMap<(Currency, i64), Vec<usize>>; 2] = Default::default();
    for (index, mismatch) in mismatches.iter().enumerate() {
        if let Some((side, money)) = one_sided(mismatch) {
            sides[side].entry(money).or_default().push(index);
        }
    }
    let mut advice = Vec::new();
    for (index, mismatch) in mismatches.iter().enumerate() {
        let Some((side, money)) = one_sided(mismatch) else { continue };
        let others = sides[1 - side].get(&money).into_iter().flatten().take(LOOKED_AT_MAX);
        let mut names: Vec<&str> = others
            .map(|&other| &mismatches[other])
            .filter(|other| close(mismatch, other))
            .map(|other| other.reference.as_deref().or(other.provider_ids.first().map(String::as_str)))
            .map(|name| name.unwrap_or("a row without a name"))
            .collect();
        names.sort_unstable();
        names.truncate(NAMED_MAX);
        if !names.is_empty() {
            let who = if side == 0 { "the provider has" } else { "we have" };
            advice.push((index, format!("; {who} the same amount at that time under {}", names.join(", "))));
        }
    }
    for (index, text) in advice {
        mismatches[index].suggestion.push_str(&text);
    }
}

/// 0 for ours only, 1 for the provider's only; with its money.
fn one_sided(mismatch: &Mismatch) -> Option<(usize, (Currency, i64))> {
    let (side, view) = match (&mismatch.local, &mismatch.provider) {
        (Some(view), None) => (0, view),
        (None, Some(view)) => (1, view),
        _ => return None,
    };
    Some((side, (view.currency?, view.amount_minor?)))
}

fn close(one: &Mismatch, other: &Mismatch) -> bool {
    one.occurred_at.zip(other.occurred_at).is_some_and(|(a, b)| (a - b).abs() <= APART_MAX)
}
