//! A report whose titles the operator has declared in jobs.toml, or that has our own titles:
//! `provider_id, merchant_reference, amount, currency, status, created_utc` and optionally `fee, type, parent`.
//!
//! Amounts are major units with a decimal point, signed from the merchant's side, unless declared otherwise.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use chrono::{DateTime, NaiveDate, NaiveDateTime};

use crate::config::Reading;
use crate::config::settings::{GenericColumns, GenericFormat, GenericStatus};
use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::{Currency, NumberStyle};

use super::Format;
use super::row::{Emit, Fault, Row, flag, word};
use super::titles::{Layout, Need, PLAIN, ReferenceOrder, Wanted, normalise};
use super::when::{self, When};

const PROVIDER_ID: usize = 0;
const REFERENCE: usize = 1;
const AMOUNT: usize = 2;
const CURRENCY: usize = 3;
const STATUS: usize = 4;
const TIME: usize = 5;
const KIND: usize = 6;
const PARENT: usize = 7;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::Generic,
    name: "generic",
    provider: "generic",
    dated_by: DatedBy::Created,
    columns: &[],
    number: NumberStyle { mark: None, grouping: false },
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "declare the file's own titles as a generic format in jobs.toml, or state --currency where it has \
                   no currency column",
    read_row,
    extra: PLAIN,
};

/// Status words that every generic report and our own local file may use.
const STATUS_WORDS: &[(&str, GenericStatus)] = &[
    ("succeeded", GenericStatus::Is(Status::Succeeded)),
    ("success", GenericStatus::Is(Status::Succeeded)),
    ("successful", GenericStatus::Is(Status::Succeeded)),
    ("paid", GenericStatus::Is(Status::Succeeded)),
    ("settled", GenericStatus::Is(Status::Succeeded)),
    ("captured", GenericStatus::Is(Status::Succeeded)),
    ("complete", GenericStatus::Is(Status::Succeeded)),
    ("completed", GenericStatus::Is(Status::Succeeded)),
    ("refunded", GenericStatus::Refunded),
    ("pending", GenericStatus::Is(Status::Pending)),
    ("processing", GenericStatus::Is(Status::Pending)),
    ("open", GenericStatus::Is(Status::Pending)),
    ("authorized", GenericStatus::Is(Status::Authorized)),
    ("authorised", GenericStatus::Is(Status::Authorized)),
    ("failed", GenericStatus::Is(Status::Failed)),
    ("declined", GenericStatus::Is(Status::Failed)),
    ("refused", GenericStatus::Is(Status::Failed)),
    ("expired", GenericStatus::Is(Status::Failed)),
    ("canceled", GenericStatus::Is(Status::Canceled)),
    ("cancelled", GenericStatus::Is(Status::Canceled)),
    ("void", GenericStatus::Is(Status::Canceled)),
    ("voided", GenericStatus::Is(Status::Canceled)),
];

/// Type words besides the names of our own kinds.
const KIND_WORDS: &[(&str, EntryKind)] = &[
    ("charge", EntryKind::Charge),
    ("payment", EntryKind::Charge),
    ("sale", EntryKind::Charge),
    ("capture", EntryKind::Charge),
    ("refund", EntryKind::Refund),
    ("charge_reversal", EntryKind::ChargeReversal),
    ("partial_capture_reversal", EntryKind::ChargeReversal),
    ("refund_reversal", EntryKind::RefundReversal),
    ("chargeback", EntryKind::Chargeback),
    ("dispute", EntryKind::Chargeback),
    ("chargeback_reversal", EntryKind::ChargebackReversal),
    ("dispute_reversal", EntryKind::ChargebackReversal),
    ("authorization", EntryKind::Authorization),
    ("void", EntryKind::Void),
    ("fee", EntryKind::Fee),
    ("payout", EntryKind::Payout),
    ("payout_reversal", EntryKind::PayoutReversal),
    ("transfer", EntryKind::Transfer),
    ("conversion", EntryKind::Conversion),
    ("hold", EntryKind::Hold),
    ("hold_release", EntryKind::HoldRelease),
    ("reserve", EntryKind::Reserve),
    ("adjustment", EntryKind::Adjustment),
];

static BUILT_IN: LazyLock<GenericFormat> = LazyLock::new(|| GenericFormat {
    provider: Format::Generic.provider().to_owned(),
    columns: GenericColumns {
        provider_id: "provider_id".to_owned(),
        reference: Some("merchant_reference".to_owned()),
        amount: "amount".to_owned(),
        currency: Some("currency".to_owned()),
        status: Some("status".to_owned()),
        time: Some("created_utc".to_owned()),
        fee: None,
        kind: Some("type".to_owned()),
        parent: Some("parent".to_owned()),
    },
    minor_units: None,
    kinds: BTreeMap::new(),
    statuses: BTreeMap::new(),
    dated_by: DatedBy::Created,
    time_format: None,
    reading: Reading::default(),
});

/// The titles that are read without any declaration.
pub(super) fn built_in() -> &'static GenericFormat {
    &BUILT_IN
}

/// The columns of a declaration, in the order of the constants above.
pub(super) fn wanted(declared: &GenericFormat, reading: &Reading) -> Vec<Wanted> {
    let columns = &declared.columns;
    let column = |title: &Option<String>, need: Need| match title {
        Some(title) => Wanted { need, titles: vec![normalise(title)] },
        None => Wanted { need: Need::Optional, titles: Vec::new() },
    };
    let key = |title: &String| Wanted { need: Need::Key, titles: vec![normalise(title)] };
    let unless = |stated: bool| if stated { Need::Optional } else { Need::Needed };
    // The built-in titles leave type and parent to the file; a declaration means what it says.
    let built_in = std::ptr::eq(declared, built_in());
    let other_reference = reading.reference_column.is_some();
    let stated_currency = reading.currency.is_some();
    vec![
        key(&columns.provider_id),
        column(&columns.reference, unless(other_reference)),
        key(&columns.amount),
        column(&columns.currency, unless(stated_currency)),
        column(&columns.status, Need::Needed),
        column(&columns.time, Need::Needed),
        column(&columns.kind, unless(built_in)),
        column(&columns.parent, unless(built_in)),
    ]
}

/// What a status word means, the operator's words first (they are lower case).
pub(super) fn status_word(own: &BTreeMap<String, GenericStatus>, text: &str) -> Option<GenericStatus> {
    // Nearly all words are lower case already, and this runs once a row.
    if !own.is_empty()
        && let Some(status) = own.get(text).or_else(|| own.get(&text.to_lowercase()))
    {
        return Some(*status);
    }
    word(STATUS_WORDS, text)
}

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let declared = row.rules.generic.as_ref().expect("a generic report is planned with its declaration");
    let provider_id = row.id(PROVIDER_ID)?;
    let reference = row.merchant_reference()?;
    let parent_id = row.id(PARENT)?;
    if !emit.is_asked(reference.as_deref(), [provider_id.as_deref(), parent_id.as_deref()]) {
        return Ok(());
    }
    let currency = row.currency(CURRENCY)?;
    let amount = amount(row, declared, currency)?;

    let status_raw = row.text(STATUS);
    let status = if status_raw.is_empty() {
        GenericStatus::Is(Status::Succeeded)
    } else {
        status_word(&declared.statuses, status_raw).ok_or_else(|| {
            row.fault(STATUS, "unknown status word: declare it under statuses of the generic format in jobs.toml")
        })?
    };
    let type_raw = row.text(KIND);
    let known = kind_word(&declared.kinds, type_raw);
    let kind = match (known, status) {
        // Authorised and not captured: no charge yet.
        (Some(EntryKind::Charge), GenericStatus::Is(Status::Authorized)) => EntryKind::Authorization,
        (Some(kind), _) => kind,
        (None, _) => EntryKind::Unknown,
    };
    if kind == EntryKind::Charge && provider_id.is_none() && reference.is_none() {
        return Err(row.fault(PROVIDER_ID, "neither a provider id nor a reference: a total, or a damaged row"));
    }

    let status_word = match status {
        GenericStatus::Is(status) => status,
        GenericStatus::Refunded => Status::Succeeded,
    };
    let mut entry = row.entry(kind, status_word, currency, Some(amount));
    time(row, declared).put(&mut entry);
    entry.provider_id = provider_id;
    entry.reference = reference;
    entry.parent_id = parent_id;
    entry.status_raw = (!status_raw.is_empty()).then_some(Cow::Borrowed(status_raw));
    entry.type_raw = (!type_raw.is_empty()).then_some(Cow::Borrowed(type_raw));
    match kind {
        EntryKind::Void => (entry.amount_minor, entry.authorized_minor) = (Some(0), Some(amount)),
        EntryKind::Unknown => flag(&mut entry, "unknown type word: declare it under kinds in jobs.toml"),
        EntryKind::Refund | EntryKind::Chargeback if amount > 0 => {
            flag(&mut entry, "money back to the customer should be negative here");
        }
        _ => {}
    }
    let refund = (kind == EntryKind::Charge && status == GenericStatus::Refunded).then(|| refund_of(&entry, amount));
    emit.entry(row, entry);
    if let Some(refund) = refund {
        emit.entry(row, refund);
    }
    Ok(())
}

/// A charge whose status is `refunded`: the report has no row of its own for the refund.
fn refund_of<'a>(charge: &Entry<'a>, amount: i64) -> Entry<'a> {
    let mut refund = charge.clone();
    refund.kind = EntryKind::Refund;
    refund.amount_minor = amount.checked_neg();
    refund.parent_id = refund.provider_id.take();
    refund.time_utc = None;
    refund.notes = vec![Cow::Borrowed("derived from the status; the report has no refund id, time or part amount")];
    refund
}

fn amount(row: &Row<'_>, declared: &GenericFormat, currency: Currency) -> Result<i64, Fault> {
    let Some(units) = declared.minor_units else {
        return row.needed_amount(AMOUNT, currency);
    };
    let text = row.text(AMOUNT);
    let minor: i64 = text.parse().map_err(|_| row.fault(AMOUNT, "not a whole number of minor units"))?;
    units.to_iso(minor, currency).ok_or_else(|| row.fault(AMOUNT, "not a whole number of the currency's minor units"))
}

fn kind_word(own: &BTreeMap<String, EntryKind>, text: &str) -> Option<EntryKind> {
    if text.is_empty() {
        return Some(EntryKind::Charge);
    }
    own.get(text).or_else(|| own.get(&text.to_lowercase())).copied().or_else(|| word(KIND_WORDS, text))
}

fn time<'a>(row: &Row<'a>, declared: &GenericFormat) -> When<'a> {
    match &declared.time_format {
        Some(pattern) => patterned(row, pattern),
        None if row.rules.title_says_utc => row.time(TIME, when::utc),
        None => row.time(TIME, when::local),
    }
}

/// Whether the title of the time column says that its times are UTC.
pub(super) fn says_utc(declared: &GenericFormat) -> bool {
    let title = declared.columns.time.as_deref().unwrap_or_default();
    normalise(title).split(|c: char| !c.is_alphanumeric()).any(|word| word == "utc")
}

/// A time in the operator's own pattern: with an offset, without, or a date only.
fn patterned<'a>(row: &Row<'a>, pattern: &str) -> When<'a> {
    let text = row.text(TIME);
    if text.is_empty() {
        When::Blank
    } else if let Ok(instant) = DateTime::parse_from_str(text, pattern) {
        When::At(instant.to_utc())
    } else if let Ok(local) = NaiveDateTime::parse_from_str(text, pattern) {
        match row.rules.timezone {
            None if row.rules.title_says_utc => When::At(local.and_utc()),
            stated => when::labelled(text, Some(local), "", stated),
        }
    } else if NaiveDate::parse_from_str(text, pattern).is_ok() {
        When::Date(text)
    } else {
        When::Doubt(text, "the time is not in the declared pattern")
    }
}
