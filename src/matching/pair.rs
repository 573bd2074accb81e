//! Money of both sides: what is paired, what is double, what differs.

use std::collections::{HashMap, HashSet};

use crate::domain::charge::Charge;
use crate::domain::entry::Status;
use crate::domain::mismatch::Kind;
use crate::domain::money::Currency;

use super::finding::{Finding, amount_text, net_text};
use super::hash::charge_key;
use super::judge::{Judge, LocalBucket, ProviderBucket};
use super::one_sided::amount;
use super::part::Part;
use super::payment::{Net, Payment, Reading};

/// Pairs the local charges of a part with its payments and judges each pair and what is left.
pub(super) fn pair<'g>(judge: &mut Judge<'g>, reading: &Reading<'g>, part: &Part) {
    let payments: Vec<&Payment<'g>> = part.payments.iter().map(|&index| &reading.payments[index]).collect();
    let local = without_neighbours(judge, part, &payments);
    if let &[only] = local.as_slice()
        && split_without_ids(judge, only, &payments)
    {
        return;
    }
    let Pairs { paired: mut pairs, local: mut loose_local, mut payments } = Pairs::of(judge, &local, payments);
    if !loose_local.is_empty() && !payments.is_empty() {
        // What is left has ids on both sides, and they disagree.
        if let (&[charge], true, true) = (loose_local.as_slice(), pairs.is_empty(), payments.len() > 1) {
            // The customer was charged twice whichever of them is ours.
            let first = payments.remove(0);
            pairs.push((charge, first));
        } else {
            key_conflict(judge, &loose_local, &payments);
            payments.clear();
        }
        loose_local.clear();
    }
    double(judge, &mut pairs, &payments);
    if !loose_local.is_empty() {
        duplicate_locally(judge, &pairs, &loose_local);
    }
    for (charge, payment) in pairs {
        compare(judge, charge, payment);
    }
}

/// Charges outside the window that claim a payment which is not here belong to a neighbour report, unless nothing
/// else stands for the payments that are here.
fn without_neighbours<'g>(judge: &mut Judge<'g>, part: &Part, payments: &[&Payment<'g>]) -> Vec<usize> {
    let ids: HashSet<&str> = payments.iter().filter_map(|payment| payment.id).collect();
    let is_neighbour = |&&index: &&usize| {
        let charge = judge.charge(index);
        !judge.rules.window.contains(charge.created_at)
            && charge.provider_id.as_deref().is_some_and(|id| !ids.contains(id))
    };
    let (neighbours, own): (Vec<usize>, Vec<usize>) = part.local.iter().partition(is_neighbour);
    if own.is_empty() {
        return part.local.clone();
    }
    judge.place_local(&neighbours, LocalBucket::Outside);
    own
}

/// A charge that settled in several lines without ids: they are one payment when they add up to it.
fn split_without_ids(judge: &mut Judge<'_>, index: usize, payments: &[&Payment<'_>]) -> bool {
    if payments.len() < 2 || payments.iter().any(|payment| payment.id.is_some()) {
        return false;
    }
    let charge = judge.charge(index);
    let sum = sum(payments.iter().map(|payment| payment.net));
    let splits = sum == Net::Amount(i128::from(charge.amount_minor), charge.currency);
    if splits {
        judge.place_local(&[index], LocalBucket::Matched);
        for payment in payments {
            judge.place_provider(&payment.rows, ProviderBucket::Matched);
        }
    }
    splits
}

/// Local charges with their payments, and what is left of either.
struct Pairs<'p, 'g> {
    paired: Vec<(usize, &'p Payment<'g>)>,
    local: Vec<usize>,
    payments: Vec<&'p Payment<'g>>,
}

impl<'p, 'g> Pairs<'p, 'g> {
    /// By provider id first. What then has no id on one side is paired by equal money, else in order of time;
    /// a single charge takes the first.
    fn of(judge: &Judge<'g>, local: &[usize], payments: Vec<&'p Payment<'g>>) -> Self {
        let mut by_id: HashMap<&str, usize> = HashMap::new();
        for (place, payment) in payments.iter().enumerate() {
            if let Some(id) = payment.id {
                by_id.entry(id).or_insert(place);
            }
        }
        let mut open: Vec<Option<&'p Payment<'g>>> = payments.into_iter().map(Some).collect();
        let mut pairs = Vec::new();
        let mut loose = Vec::new();
        // Of several claimants the one that also has the key and the money stands first.
        let mut claimants = local.to_vec();
        claimants.sort_by_key(|&index| {
            let claimed = judge.charge(index).provider_id.as_deref().and_then(|id| by_id.get(id));
            std::cmp::Reverse(claimed.and_then(|&place| open[place]).map(|payment| agreement(judge, index, payment)))
        });
        for index in claimants {
            let place = judge.charge(index).provider_id.as_deref().and_then(|id| by_id.get(id));
            match place.and_then(|&place| open[place].take()) {
                Some(payment) => pairs.push((index, payment)),
                None => loose.push(index),
            }
        }
        loose.sort_unstable();
        let by_money = local.len() > 1;
        for equal_money in [true, false] {
            if equal_money && !by_money {
                continue;
            }
            loose.retain(|&index| {
                let charge = judge.charge(index);
                let fits = |payment: &Payment<'_>| {
                    let named = charge.provider_id.as_deref().is_some_and(|id| !id.is_empty());
                    (!named || payment.id.is_none()) && (!equal_money || has_money_of(charge, payment))
                };
                let place = open.iter().position(|slot| slot.is_some_and(fits));
                match place.and_then(|place| open[place].take()) {
                    Some(payment) => {
                        pairs.push((index, payment));
                        false
                    }
                    None => true,
                }
            });
        }
        pairs.sort_by_key(|&(index, _)| index);
        Self { paired: pairs, local: loose, payments: open.into_iter().flatten().collect() }
    }
}

/// In what a charge and the payment whose id it has agree besides.
fn agreement(judge: &Judge<'_>, index: usize, payment: &Payment<'_>) -> (bool, bool) {
    let charge = judge.charge(index);
    let key = charge_key(charge, judge.rules.match_key).is_some_and(|key| payment.keys.contains(&key));
    (key, has_money_of(charge, payment))
}

fn has_money_of(charge: &Charge<'_>, payment: &Payment<'_>) -> bool {
    payment.net == Net::Amount(i128::from(charge.amount_minor), charge.currency)
}

/// Finds what the provider charged more than once: payments without a charge of ours, and pairs that repeat an
/// earlier pair's money under the same key. Repeated pairs are taken out.
fn double<'g>(judge: &mut Judge<'g>, pairs: &mut Vec<(usize, &Payment<'g>)>, loose: &[&Payment<'g>]) {
    let mut first_of: HashMap<(i128, Currency), usize> = HashMap::new();
    let mut repeated: Vec<(usize, &Payment<'g>)> = Vec::new();
    let mut kept: Vec<(usize, &Payment<'g>)> = Vec::new();
    let mut doubled = 0;
    for &(charge, payment) in pairs.iter() {
        match amount(payment.net).map(|money| *first_of.entry(money).or_insert(kept.len())) {
            Some(first) if first < kept.len() => {
                doubled = if repeated.is_empty() { first } else { doubled };
                repeated.push((charge, payment));
            }
            _ => kept.push((charge, payment)),
        }
    }
    *pairs = kept;
    let extras: Vec<&Payment<'g>> = repeated.iter().map(|&(_, payment)| payment).chain(loose.iter().copied()).collect();
    if extras.is_empty() {
        return;
    }
    let mut local: Vec<usize> = repeated.iter().map(|&(charge, _)| charge).collect();
    judge.place_local(&local, LocalBucket::InBreaks);
    let (charge, payment) = pairs[doubled];
    local.push(charge);
    local.sort_unstable();
    let named = judge.charge(charge).provider_id.as_deref();
    let which = match (named, payment.id) {
        (Some(ours), Some(id)) if ours == id => "the one that our charge names is kept",
        (Some(_), Some(_)) => "our charge names none of them, the first is kept",
        _ => "the first is kept",
    };
    duplicate_at_provider(judge, &local, payment, &extras, which);
}

/// Reports payments beyond the one that is kept. `local` is what we have for them, if anything.
pub(super) fn duplicate_at_provider<'g>(
    judge: &mut Judge<'g>,
    local: &[usize],
    kept: &Payment<'g>,
    extras: &[&Payment<'g>],
    which: &str,
) {
    for extra in extras {
        judge.place_provider(&extra.rows, ProviderBucket::InBreaks);
    }
    let all: Vec<&Payment<'g>> = std::iter::once(kept).chain(extras.iter().copied()).collect();
    let named = |payment: &Payment<'_>| payment.id.unwrap_or("one without an id").to_owned();
    let ids: Vec<String> = extras.iter().take(5).map(|extra| named(extra)).collect();
    let more = extras.len().saturating_sub(ids.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let finding = Finding {
        kind: Kind::DuplicateAtProvider,
        local: judge.charges(local),
        provider: judge.rows_of(&all),
        provider_net: Some(sum(all.iter().map(|payment| payment.net))),
        at_risk: amount(sum(extras.iter().map(|payment| payment.net))),
        rule: format!("{} charges that succeeded at the provider for one payment; {which}", all.len()),
        suggestion: format!("keep {}; refund {}{more}", named(kept), ids.join(", ")),
    };
    judge.find(finding);
}

/// Reports local charges beyond those that have a payment.
fn duplicate_locally<'g>(judge: &mut Judge<'g>, pairs: &[(usize, &Payment<'g>)], extras: &[usize]) {
    judge.place_local(extras, LocalBucket::InBreaks);
    let mut local: Vec<usize> = pairs.iter().map(|&(charge, _)| charge).chain(extras.iter().copied()).collect();
    local.sort_unstable();
    let payments: Vec<&Payment<'g>> = pairs.iter().map(|&(_, payment)| payment).collect();
    let finding = Finding {
        kind: Kind::DuplicateLocally,
        local: judge.charges(&local),
        provider: judge.rows_of(&payments),
        provider_net: Some(sum(payments.iter().map(|payment| payment.net))),
        at_risk: total(judge, extras),
        rule: format!(
            "{} local charges succeeded for {} at the provider, by key or provider id",
            local.len(),
            if payments.len() == 1 { "one payment".to_owned() } else { format!("{} payments", payments.len()) }
        ),
        suggestion: "one of the local charges is false: look for the retry without a key".to_owned(),
    };
    judge.find(finding);
}

/// Reports rows whose keys and ids contradict each other; nothing is paired.
pub(super) fn key_conflict<'g>(judge: &mut Judge<'g>, local: &[usize], payments: &[&Payment<'g>]) {
    judge.place_local(local, LocalBucket::InBreaks);
    for payment in payments {
        judge.place_provider(&payment.rows, ProviderBucket::InBreaks);
    }
    let net = sum(payments.iter().map(|payment| payment.net));
    let (ours, theirs) = (total(judge, local), amount(net));
    let at_risk = match (ours, theirs) {
        (Some((local, currency)), Some((provider, same))) if currency == same => Some((local.max(provider), currency)),
        (ours, theirs) => theirs.or(ours),
    };
    let finding = Finding {
        kind: Kind::KeyConflict,
        local: judge.charges(local),
        provider: judge.rows_of(payments),
        provider_net: Some(net),
        at_risk,
        rule: "the match key points to one payment and the provider id to another, so nothing was paired".to_owned(),
        suggestion: "decide by hand which payment belongs to which charge, and correct the id or the reference"
            .to_owned(),
    };
    judge.find(finding);
}

/// Compares a local charge with its payment.
fn compare<'g>(judge: &mut Judge<'g>, index: usize, payment: &Payment<'g>) {
    let charge = judge.charge(index);
    let (ours, currency) = (i128::from(charge.amount_minor), charge.currency);
    let (kind, at_risk, rule, suggestion) = match payment.net {
        Net::Amount(theirs, same) if same == currency && theirs == ours => {
            judge.place_local(&[index], LocalBucket::Matched);
            judge.place_provider(&payment.rows, ProviderBucket::Matched);
            return;
        }
        Net::Amount(theirs, same) if same == currency => {
            let (kind, verb, advice) = if theirs > ours {
                (Kind::AmountOver, "more", "refund the difference")
            } else {
                (Kind::AmountUnder, "less", "capture the rest, or correct the local amount")
            };
            let gap = (theirs - ours).abs();
            let hint = ratio(ours, theirs).unwrap_or_default();
            let rule = format!(
                "the provider has {} for our {}: {} {verb}{hint}",
                net_text(payment.net),
                amount_text(ours, currency),
                amount_text(gap, currency)
            );
            (kind, (gap, currency), rule, advice)
        }
        Net::InDoubt => (
            Kind::UnparseableRow,
            (ours, currency),
            "a line of the payment has an amount that is not whole minor units, or whose meaning is in doubt"
                .to_owned(),
            "look at the report's line; the amounts were not compared",
        ),
        Net::Amount(..) | Net::Mixed => (
            Kind::CurrencyMismatch,
            (ours, currency),
            format!(
                "the provider has {} for our {}; nothing is converted",
                net_text(payment.net),
                amount_text(ours, currency)
            ),
            "find out in which currency the customer was charged; correct the local charge or refund",
        ),
    };
    judge.place_local(&[index], LocalBucket::InBreaks);
    judge.place_provider(&payment.rows, ProviderBucket::InBreaks);
    let finding = Finding {
        kind,
        local: vec![charge],
        provider: judge.rows(&payment.rows),
        provider_net: Some(payment.net),
        at_risk: Some(at_risk),
        rule,
        suggestion: suggestion.to_owned(),
    };
    judge.find(finding);
}

/// A ratio that tells how the difference came about.
fn ratio(ours: i128, theirs: i128) -> Option<String> {
    if ours <= 0 || theirs <= 0 {
        return None;
    }
    let (large, small) = (ours.max(theirs), ours.min(theirs));
    let times = [2, 10, 100, 1000].into_iter().find(|times| small.checked_mul(*times) == Some(large))?;
    let which = if theirs > ours { times.to_string() } else { format!("1/{times}") };
    let cause = match times {
        2 => "charged or captured twice, or by half?",
        _ => "major and minor units mixed up?",
    };
    Some(format!(", ratio {which} ({cause})"))
}

/// Sum of several payments.
fn sum(nets: impl Iterator<Item = Net>) -> Net {
    let add = |so_far: Net, next: Net| match (so_far, next) {
        (Net::Amount(a, currency), Net::Amount(b, same)) if currency == same => Net::Amount(a + b, currency),
        (Net::InDoubt, _) | (_, Net::InDoubt) => Net::InDoubt,
        _ => Net::Mixed,
    };
    nets.reduce(add).unwrap_or(Net::InDoubt)
}

/// Money of local charges that succeeded; `None` when they are of several currencies.
pub(super) fn total(judge: &Judge<'_>, local: &[usize]) -> Option<(i128, Currency)> {
    let charges = local.iter().map(|&index| judge.charge(index)).filter(|charge| charge.status == Status::Succeeded);
    amount(sum(charges.map(|charge| Net::Amount(i128::from(charge.amount_minor), charge.currency))))
}
