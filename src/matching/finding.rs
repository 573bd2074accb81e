//! Puts a finding into words: both sides as they were seen, the fields that differ, evidence, what to do.

use chrono::{DateTime, Utc};

use crate::domain::charge::Charge;
use crate::domain::entry::{Entry, EntryKind, RefusedRow, Status};
use crate::domain::mismatch::{Difference, Evidence, Kind, Mismatch, SideView, Standing, State, fingerprint, short_id};
use crate::domain::money::{Currency, format_minor};

use super::group::ProviderRow;
use super::hash::{charge_key, entry_key, payment_id};
use super::payment::Net;
use super::rules::Rules;
use super::tally::takes_part;

/// Rows shown as evidence of one finding at most.
const EVIDENCE_MAX: usize = 20;
/// Ids listed in one view or sentence at most.
const IDS_MAX: usize = 20;

/// What was decided, before it is put into words.
#[derive(Clone, Debug)]
pub(super) struct Finding<'g> {
    pub(super) kind: Kind,
    /// The local charges that it is about, in order.
    pub(super) local: Vec<&'g Charge<'static>>,
    /// The report rows that it is about, in order.
    pub(super) provider: Vec<&'g ProviderRow>,
    /// What the provider's side comes to.
    pub(super) provider_net: Option<Net>,
    /// Money at risk in minor units, and its currency.
    pub(super) at_risk: Option<(i128, Currency)>,
    /// Which rule decided.
    pub(super) rule: String,
    /// What to do.
    pub(super) suggestion: String,
}

impl Finding<'_> {
    /// The kind under which it is known across runs: what waits today is the same matter when its grace is over.
    pub(super) fn known_as(&self) -> Kind {
        match (self.kind, self.local.is_empty(), self.provider.is_empty()) {
            (Kind::TimingPending, true, _) => Kind::MissingLocally,
            (Kind::TimingPending, false, true) => Kind::MissingAtProvider,
            (Kind::TimingPending, false, false) => Kind::StatusProviderFailed,
            (kind, ..) => kind,
        }
    }

    /// The finding in words. `group_key` is what it is known by in the next run.
    pub(super) fn into_mismatch(self, rules: &Rules, group_key: &str) -> Mismatch {
        let fingerprint = fingerprint(&rules.provider, &rules.account, self.known_as(), group_key);
        let local = self.local_view();
        let provider = self.provider_view();
        let (at_risk_minor, currency) = match self.at_risk {
            Some((minor, currency)) => (clamp(minor.max(0)), Some(currency)),
            None => (0, None),
        };
        let occurred_at = [&local, &provider].into_iter().flatten().find_map(|view| view.occurred_at);
        let mut provider_ids: Vec<String> = self.provider.iter().filter_map(|row| event_id(&row.entry)).collect();
        provider_ids.extend(self.local.iter().filter_map(|charge| charge.provider_id.as_deref().map(str::to_owned)));
        Mismatch {
            id: short_id(&fingerprint),
            fingerprint,
            kind: self.kind,
            severity: self.kind.base_severity(),
            seen: Standing::New,
            state: if self.kind == Kind::TimingPending { State::Pending } else { State::Open },
            reference: self.names(rules).0,
            idempotency_key: self.local.iter().find_map(|charge| charge.idempotency_key.as_deref()).map(str::to_owned),
            provider_ids: distinct(provider_ids),
            diff: self.differences(rules, local.as_ref(), provider.as_ref()),
            local,
            provider,
            at_risk_minor,
            currency,
            evidence: self.evidence(rules),
            rule: self.rule,
            suggestion: self.suggestion,
            occurred_at,
        }
    }

    /// What the finding is known by: its match key, else its provider id, else its place. Attempts after the first
    /// tell findings of one kind under one key apart.
    pub(super) fn group_key(&self, rules: &Rules, attempt: usize) -> String {
        let (key, id) = self.names(rules);
        let base = match (key, &id) {
            (Some(key), _) => key,
            (None, Some(id)) => format!("provider_id={id}"),
            (None, None) => self.place(rules),
        };
        match attempt {
            0 => base,
            1 => format!("{base}#{}", id.unwrap_or_default()),
            further => format!("{base}#{}#{further}", id.unwrap_or_default()),
        }
    }

    /// The match key and the provider's id, our own side first. Only of rows that are compared: those of others
    /// may be another group's.
    fn names(&self, rules: &Rules) -> (Option<String>, Option<String>) {
        let compared = || self.provider.iter().map(|row| &row.entry).filter(|entry| takes_part(entry.kind));
        let ours = self.local.iter().filter_map(|charge| charge_key(charge, rules.match_key)).min();
        let theirs = compared().filter_map(|entry| entry_key(entry, rules.match_key)).min();
        let their_id = compared().filter_map(payment_id).min();
        let our_id = self.local.iter().filter_map(|charge| charge.provider_id.as_deref()).min();
        (ours.or(theirs).map(str::to_owned), their_id.or(our_id).map(str::to_owned))
    }

    /// Where it stands, for findings without any key.
    fn place(&self, rules: &Rules) -> String {
        if let Some(charge) = self.local.first() {
            return format!("charge_id={}", charge.charge_id);
        }
        self.provider
            .first()
            .map_or_else(String::new, |row| format!("{}:{}", file_name(rules, row.file), row.entry.line))
    }

    fn local_view(&self) -> Option<SideView> {
        let first = self.local.first()?;
        let single = self.local.iter().all(|charge| charge.currency == first.currency);
        let sum: i128 = self.local.iter().map(|charge| i128::from(charge.amount_minor)).sum();
        Some(SideView {
            ids: self.local.iter().take(IDS_MAX).map(|charge| charge.charge_id.to_string()).collect(),
            amount_minor: i64::try_from(sum).ok().filter(|_| single),
            currency: single.then_some(first.currency),
            status: statuses(self.local.iter().map(|charge| charge.status)),
            occurred_at: Some(first.created_at),
        })
    }

    fn provider_view(&self) -> Option<SideView> {
        let first = self.provider.first()?;
        let (amount_minor, currency) = match self.provider_net {
            Some(Net::Amount(minor, currency)) => (i64::try_from(minor).ok(), Some(currency)),
            None if self.provider.len() == 1 => {
                let (minor, currency) = first.entry.charge_side();
                (minor, Some(currency))
            }
            Some(Net::Mixed | Net::InDoubt) | None => (None, None),
        };
        let ids = distinct(self.provider.iter().filter_map(|row| event_id(&row.entry)).collect());
        Some(SideView {
            ids,
            amount_minor,
            currency,
            status: statuses(self.provider.iter().map(|row| row.entry.status)),
            occurred_at: self.provider.iter().find_map(|row| row.entry.time_utc),
        })
    }

    /// The fields in which the sides differ, with both values.
    fn differences(&self, rules: &Rules, local: Option<&SideView>, provider: Option<&SideView>) -> Vec<Difference> {
        let amount = |view: Option<&SideView>| {
            let (minor, currency) = view.and_then(|view| view.amount_minor.zip(view.currency))?;
            Some(format_minor(i128::from(minor), currency.exponent()))
        };
        let currency = |view: Option<&SideView>| view?.currency.map(|currency| currency.to_string());
        let status = |view: Option<&SideView>| view?.status.clone();
        // A text that one side does not have is no contradiction.
        let texts = |field: &str, ours: Vec<&str>, theirs: Vec<&str>| {
            let (ours, theirs) = (listed(ours)?, listed(theirs)?);
            difference(field, Some(ours), Some(theirs))
        };
        let entries = || self.provider.iter().map(|row| &row.entry).filter(|entry| takes_part(entry.kind));
        let match_key = rules.match_key;
        let fields = [
            difference("amount", amount(local), amount(provider)),
            difference("currency", currency(local), currency(provider)),
            difference("status", status(local), status(provider)),
            texts(
                "provider_id",
                self.local.iter().filter_map(|charge| charge.provider_id.as_deref()).collect(),
                entries().filter_map(payment_id).collect(),
            ),
            texts(
                "match_key",
                self.local.iter().filter_map(|charge| charge_key(charge, match_key)).collect(),
                entries().filter_map(|entry| entry_key(entry, match_key)).collect(),
            ),
        ];
        fields.into_iter().flatten().collect()
    }

    fn evidence(&self, rules: &Rules) -> Vec<Evidence> {
        let report = self.provider.iter().map(|row| Evidence {
            side: "report".to_owned(),
            source: file_name(rules, row.file),
            line: Some(row.entry.line),
            text: entry_text(&row.entry),
        });
        let local = self.local.iter().map(|charge| Evidence {
            side: "local".to_owned(),
            source: charge.charge_id.to_string(),
            line: None,
            text: format!(
                "charge {} {}, made {}",
                amount_text(i128::from(charge.amount_minor), charge.currency),
                status_word(charge.status),
                time_text(charge.created_at)
            ),
        });
        let mut evidence: Vec<Evidence> = report.take(EVIDENCE_MAX).collect();
        evidence.extend(local.take(EVIDENCE_MAX));
        evidence
    }
}

/// A record of the report that could not be read.
pub(super) fn refused_row(row: &RefusedRow, rules: &Rules) -> Mismatch {
    let file = file_name(rules, row.file);
    let fingerprint =
        fingerprint(&rules.provider, &rules.account, Kind::UnparseableRow, &format!("{file}:{}:{}", row.line, row.raw));
    let column = row.column.as_deref().map_or_else(String::new, |column| format!("column {column}: "));
    Mismatch {
        id: short_id(&fingerprint),
        fingerprint,
        kind: Kind::UnparseableRow,
        severity: Kind::UnparseableRow.base_severity(),
        seen: Standing::New,
        state: State::Open,
        reference: None,
        idempotency_key: None,
        provider_ids: Vec::new(),
        local: None,
        provider: None,
        diff: Vec::new(),
        at_risk_minor: 0,
        currency: None,
        rule: format!("{column}{}", row.reason),
        suggestion: "look at the line; state how the report is read, or ask the provider for it again".to_owned(),
        occurred_at: None,
        evidence: vec![Evidence {
            side: "report".to_owned(),
            source: file,
            line: Some(row.line),
            text: row.raw.clone(),
        }],
    }
}

/// An entry of a type that the format does not know.
pub(super) fn unknown_row(row: &ProviderRow, rules: &Rules) -> Mismatch {
    let entry = &row.entry;
    let word = entry.type_raw.as_deref().unwrap_or("none");
    let group_key = match entry.entry_id.as_deref().or(entry.provider_id.as_deref()) {
        Some(id) => format!("{word}:{id}"),
        None => format!("{word}:{}:{}", file_name(rules, row.file), entry.line),
    };
    let finding = Finding {
        kind: Kind::UnknownRowType,
        local: Vec::new(),
        provider: vec![row],
        provider_net: None,
        at_risk: entry.amount_minor.map(|minor| (i128::from(minor).abs(), entry.currency)),
        rule: format!("the format has no meaning for the type {word:?}; the row was kept and not compared"),
        suggestion: "find out what the type means; nothing was done with its money".to_owned(),
    };
    let reference = entry.reference.as_deref().map(str::to_owned);
    Mismatch { reference, ..finding.into_mismatch(rules, &group_key) }
}

fn difference(field: &str, local: Option<String>, provider: Option<String>) -> Option<Difference> {
    (local != provider).then(|| Difference { field: field.to_owned(), local, provider })
}

/// Distinct texts in order, joined; `None` when there is none.
fn listed(mut texts: Vec<&str>) -> Option<String> {
    texts.sort_unstable();
    texts.dedup();
    texts.truncate(IDS_MAX);
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The id that names a row's event at the provider.
fn event_id(entry: &Entry<'_>) -> Option<String> {
    entry.provider_id.as_deref().or(entry.parent_id.as_deref()).map(str::to_owned)
}

/// The first of each, in order, at most [`IDS_MAX`].
fn distinct(texts: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    for text in texts {
        if seen.len() == IDS_MAX {
            break;
        }
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen
}

fn file_name(rules: &Rules, file: usize) -> String {
    rules.files.get(file).cloned().unwrap_or_else(|| format!("file {file}"))
}

fn entry_text(entry: &Entry<'_>) -> String {
    let (minor, currency) = entry.charge_side();
    let amount = match (minor, &entry.amount_decimal) {
        (Some(minor), _) => amount_text(i128::from(minor), currency),
        (None, Some(printed)) => format!("{currency} {printed} (in doubt)"),
        (None, None) => format!("{currency} without an amount"),
    };
    let time = entry.time_utc.map_or_else(String::new, |at| format!(", {}", time_text(at)));
    format!("{} {amount} {}{time}", kind_word(entry.kind), status_word(entry.status))
}

/// `USD 50.00`.
pub(super) fn amount_text(minor: i128, currency: Currency) -> String {
    format!("{currency} {}", format_minor(minor, currency.exponent()))
}

pub(super) fn net_text(net: Net) -> String {
    match net {
        Net::Amount(minor, currency) => amount_text(minor, currency),
        Net::Mixed => "several currencies".to_owned(),
        Net::InDoubt => "an amount in doubt".to_owned(),
    }
}

/// `2026-05-01 10:00:00 UTC`.
pub(super) fn time_text(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The distinct statuses, joined.
fn statuses(all: impl Iterator<Item = Status>) -> Option<String> {
    let mut words: Vec<&str> = all.map(status_word).collect();
    words.sort_unstable();
    words.dedup();
    (!words.is_empty()).then(|| words.join(" + "))
}

/// Our word, as in the JSON of an entry.
pub(super) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Succeeded => "succeeded",
        Status::Pending => "pending",
        Status::Authorized => "authorized",
        Status::Failed => "failed",
        Status::Canceled => "canceled",
    }
}

/// Our word, as in the JSON of an entry.
pub(super) fn kind_word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Charge => "charge",
        EntryKind::Refund => "refund",
        EntryKind::ChargeReversal => "charge_reversal",
        EntryKind::RefundReversal => "refund_reversal",
        EntryKind::Chargeback => "chargeback",
        EntryKind::ChargebackReversal => "chargeback_reversal",
        EntryKind::Authorization => "authorization",
        EntryKind::Void => "void",
        EntryKind::Fee => "fee",
        EntryKind::Payout => "payout",
        EntryKind::PayoutReversal => "payout_reversal",
        EntryKind::Transfer => "transfer",
        EntryKind::Conversion => "conversion",
        EntryKind::Hold => "hold",
        EntryKind::HoldRelease => "hold_release",
        EntryKind::Reserve => "reserve",
        EntryKind::Adjustment => "adjustment",
        EntryKind::Unknown => "unknown",
    }
}

/// An amount of money that fits the finding's field, however absurd the input.
fn clamp(minor: i128) -> i64 {
    i64::try_from(minor).unwrap_or(i64::MAX)
}
