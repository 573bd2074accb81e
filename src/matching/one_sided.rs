//! Money of one side only: missing, not yet due, or refused by the provider.

use std::collections::HashSet;

use crate::domain::entry::{EntryKind, Status};
use crate::domain::mismatch::Kind;

use super::finding::{Finding, net_text, time_text};
use super::hash::{charge_key, entry_key, payment_id};
use super::judge::{Judge, LocalBucket, ProviderBucket};
use super::pair::{duplicate_at_provider, total};
use super::part::Part;
use super::payment::{Net, Payment, Reading, net};

/// Payments without a local charge that succeeded.
pub(super) fn provider_only<'g>(judge: &mut Judge<'g>, reading: &Reading<'g>, part: &Part) {
    let payments: Vec<&Payment<'g>> = part.payments.iter().map(|&index| &reading.payments[index]).collect();
    let (kept, extras) = payments.split_first().expect("a part is not empty");
    if !extras.is_empty() {
        duplicate_at_provider(judge, &[], kept, extras, "the first is kept");
    }
    let unsuccessful = unsuccessful(judge, &payments);
    let rows = judge.rows(&kept.rows);
    let at_risk = amount(kept.net);
    let due = judge.rules.provider_due(rows.iter().filter_map(|row| row.entry.time_utc).max());
    if unsuccessful.is_empty() && judge.now < due {
        judge.place_provider(&kept.rows, ProviderBucket::Pending);
        let due = time_text(due);
        judge.find(Finding {
            kind: Kind::TimingPending,
            local: Vec::new(),
            provider: rows,
            provider_net: Some(kept.net),
            at_risk,
            rule: format!("the provider has a charge that we do not have; ours may still come until {due}"),
            suggestion: "wait; it becomes missing_locally when the grace is over".to_owned(),
        });
        return;
    }
    judge.place_provider(&kept.rows, ProviderBucket::InBreaks);
    if unsuccessful.is_empty() {
        judge.find(Finding {
            kind: Kind::MissingLocally,
            local: Vec::new(),
            provider: rows,
            provider_net: Some(kept.net),
            at_risk,
            rule: "the provider took money, and no local charge has its key or its provider id".to_owned(),
            suggestion: "look the key up; create the local record, or refund the customer".to_owned(),
        });
        return;
    }
    judge.place_local(&unsuccessful, LocalBucket::InBreaks);
    let local = judge.charges(&unsuccessful);
    judge.find(Finding {
        kind: Kind::StatusProviderSucceeded,
        local,
        provider: rows,
        provider_net: Some(kept.net),
        at_risk,
        rule: format!("the provider took {}, and no local charge of the payment succeeded", net_text(kept.net)),
        suggestion: "complete the key with the provider's result, or refund the customer".to_owned(),
    });
}

/// Local charges that did not succeed and stand for these payments: those that share a key or an id, else all.
fn unsuccessful<'g>(judge: &Judge<'g>, payments: &[&Payment<'g>]) -> Vec<usize> {
    let open: Vec<usize> = (0..judge.group.local.len())
        .filter(|&index| judge.charge(index).status != Status::Succeeded && !judge.is_local_placed(index))
        .collect();
    let keys: HashSet<&str> = payments.iter().flat_map(|payment| payment.keys.iter().copied()).collect();
    let ids: HashSet<&str> = payments.iter().filter_map(|payment| payment.id).collect();
    let shares = |&index: &usize| {
        let charge = judge.charge(index);
        charge_key(charge, judge.rules.match_key).is_some_and(|key| keys.contains(key))
            || charge.provider_id.as_deref().is_some_and(|id| ids.contains(id))
    };
    let close: Vec<usize> = open.iter().copied().filter(shares).collect();
    if close.is_empty() { open } else { close }
}

/// Local charges that succeeded, without a payment that has money.
pub(super) fn local_only<'g>(judge: &mut Judge<'g>, reading: &Reading<'g>, part: &Part) {
    let near = Near::of(judge, reading, part);
    if !near.undone.is_empty() {
        judge.place_provider(&near.undone, ProviderBucket::InBreaks);
        let rule = "we have the charge as succeeded, the provider took all of it back".to_owned();
        provider_failed(judge, part, &near.undone, rule);
    } else if !near.lone.is_empty() {
        taken_back(judge, part, &near.lone);
    } else if !near.awaiting.is_empty() {
        awaiting(judge, part, &near);
    } else if !near.refused.is_empty() {
        let rule = "we have the charge as succeeded, the provider refused or cancelled it".to_owned();
        judge.place_provider(&near.refused, ProviderBucket::InBreaks);
        provider_failed(judge, part, &near.refused, rule);
    } else {
        nothing_at_provider(judge, part);
    }
}

/// The report's rows without money that share a key or an id with the local charges of a part.
struct Near {
    undone: Vec<usize>,
    lone: Vec<usize>,
    awaiting: Vec<usize>,
    refused: Vec<usize>,
}

impl Near {
    fn of<'g>(judge: &Judge<'g>, reading: &Reading<'g>, part: &Part) -> Self {
        let charges = judge.charges(&part.local);
        let match_key = judge.rules.match_key;
        let keys: HashSet<&str> = charges.iter().filter_map(|charge| charge_key(charge, match_key)).collect();
        let ids: HashSet<&str> = charges.iter().filter_map(|charge| charge.provider_id.as_deref()).collect();
        let near = |&row: &usize| {
            let entry = &judge.group.provider[row].entry;
            entry_key(entry, match_key).is_some_and(|key| keys.contains(key))
                || payment_id(entry).is_some_and(|id| ids.contains(id))
        };
        let close = |rows: &[usize]| rows.iter().copied().filter(near).collect::<Vec<usize>>();
        let mut quiet = close(&reading.still);
        quiet.extend(close(&reading.context));
        let (mut awaiting, mut refused) = (Vec::new(), Vec::new());
        for row in quiet {
            let entry = &judge.group.provider[row].entry;
            match (entry.kind, entry.status) {
                (EntryKind::Charge | EntryKind::Authorization, Status::Failed | Status::Canceled)
                | (EntryKind::Void, _) => refused.push(row),
                (EntryKind::Charge | EntryKind::Authorization, _) => awaiting.push(row),
                _ => {}
            }
        }
        Self { undone: close(&reading.undone), lone: close(&reading.lone), awaiting, refused }
    }
}

fn provider_failed(judge: &mut Judge<'_>, part: &Part, rows: &[usize], rule: String) {
    judge.place_local(&part.local, LocalBucket::InBreaks);
    let finding = Finding {
        kind: Kind::StatusProviderFailed,
        local: judge.charges(&part.local),
        provider: judge.rows(rows),
        provider_net: Some(Net::InDoubt).filter(|_| rows.len() > 1),
        at_risk: total(judge, &part.local),
        rule,
        suggestion: "revert the local charge; do not ship".to_owned(),
    };
    judge.find(finding);
}

/// A reversal whose charge is in an earlier report.
fn taken_back(judge: &mut Judge<'_>, part: &Part, lone: &[usize]) {
    let ours = total(judge, &part.local);
    let full = match (net(judge.group, lone), ours) {
        (Net::Amount(minor, currency), Some((local, same))) => currency == same && minor == -local,
        _ => false,
    };
    if full {
        judge.place_provider(lone, ProviderBucket::InBreaks);
        let rule = "we have the charge as succeeded, the provider took all of it back; the charge itself is in an \
            earlier report"
            .to_owned();
        provider_failed(judge, part, lone, rule);
    } else {
        judge.place_provider(lone, ProviderBucket::NonCharge);
        // That it was partly taken back shows that the provider has the charge, in another report.
        judge.place_local(&part.local, LocalBucket::Outside);
        judge.note(format!(
            "charge {} was taken back in part ({}); its charge is not in this report, so the rest was not compared",
            judge.charge(part.local[0]).charge_id,
            net_text(net(judge.group, lone)),
        ));
    }
}

/// The provider knows the payment and has not got the money yet.
fn awaiting(judge: &mut Judge<'_>, part: &Part, near: &Near) {
    let rows: Vec<usize> = near.awaiting.iter().chain(&near.refused).copied().collect();
    let due = part.local.iter().map(|&index| judge.rules.local_due(judge.charge(index).created_at)).max();
    let due = due.expect("a part is not empty");
    if judge.now < due {
        judge.place_provider(&near.awaiting, ProviderBucket::Pending);
        judge.place_local(&part.local, LocalBucket::Pending);
        let finding = Finding {
            kind: Kind::TimingPending,
            local: judge.charges(&part.local),
            provider: judge.rows(&rows),
            provider_net: None,
            at_risk: total(judge, &part.local),
            rule: format!("the provider has the payment as not yet captured; it is due until {}", time_text(due)),
            suggestion: "wait; it becomes status_provider_failed when the grace is over".to_owned(),
        };
        judge.find(finding);
    } else {
        // Not missing_at_provider: the provider knows the payment, so asking again for it would be wrong advice.
        judge.place_provider(&rows, ProviderBucket::InBreaks);
        let rule =
            format!("we have the charge as succeeded, the provider never captured it, due since {}", time_text(due));
        provider_failed(judge, part, &rows, rule);
    }
}

fn nothing_at_provider(judge: &mut Judge<'_>, part: &Part) {
    let (inside, outside): (Vec<usize>, Vec<usize>) =
        part.local.iter().partition(|&&index| judge.rules.window.contains(judge.charge(index).created_at));
    judge.place_local(&outside, LocalBucket::Outside);
    let is_due = |&&index: &&usize| {
        let created_at = judge.charge(index).created_at;
        judge.now >= judge.rules.local_due(created_at) && judge.rules.covered(created_at)
    };
    let (due, early): (Vec<usize>, Vec<usize>) = inside.iter().partition(is_due);
    if !due.is_empty() {
        judge.place_local(&due, LocalBucket::InBreaks);
        judge.count_one_sided(due.len());
        let finding = Finding {
            kind: Kind::MissingAtProvider,
            local: judge.charges(&due),
            provider: Vec::new(),
            provider_net: None,
            at_risk: total(judge, &due),
            rule: "we have the charge as succeeded, the report has no row with its key or provider id, and its grace \
                is over"
                .to_owned(),
            suggestion: "ask the provider by key; if it is unknown there, revert the charge and stop fulfilment"
                .to_owned(),
        };
        judge.find(finding);
    }
    if !early.is_empty() {
        judge.place_local(&early, LocalBucket::Pending);
        if judge.rules.dated_by == crate::domain::entry::DatedBy::Created {
            judge.count_one_sided(early.len());
        }
        let finding = Finding {
            kind: Kind::TimingPending,
            local: judge.charges(&early),
            provider: Vec::new(),
            provider_net: None,
            at_risk: total(judge, &early),
            rule: "we have the charge as succeeded, and the provider's row may still come in a later report".to_owned(),
            suggestion: "wait; it becomes missing_at_provider when the grace is over".to_owned(),
        };
        judge.find(finding);
    }
}

/// An amount at risk, where it is one.
pub(super) fn amount(net: Net) -> Option<(i128, crate::domain::money::Currency)> {
    match net {
        Net::Amount(minor, currency) => Some((minor, currency)),
        Net::Mixed | Net::InDoubt => None,
    }
}
