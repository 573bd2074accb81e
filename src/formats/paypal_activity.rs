//! PayPal, activity download and monthly statement, in English, German, Spanish, French and Japanese.
//!
//! developer.paypal.com/reports/reference/changed-fields and the downloads' own titles. Signed amounts in major units,
//! the fee negative, `net = gross + fee`. Rows that are memos change no balance. The order of day and month is an
//! account's setting, so the file has to settle it.

use std::borrow::Cow;

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::{Currency, DecimalMark, NumberStyle};

use super::Format;
use super::paypal_words::{IMPACTS, Impact, Meaning, STATES, State, TYPES, find};
use super::row::{Emit, Fault, Row, flag};
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder, key, needed, optional, useful};
use super::when;

const DATE: usize = 0;
const TIME: usize = 1;
const ZONE: usize = 2;
const TYPE: usize = 3;
const STATUS: usize = 4;
const CURRENCY: usize = 5;
const GROSS: usize = 6;
const FEE: usize = 7;
const NET: usize = 8;
const ID: usize = 9;
const PARENT: usize = 10;
const INVOICE: usize = 11;
const CUSTOM: usize = 12;
const IMPACT: usize = 13;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::PaypalActivity,
    name: "paypal-activity",
    provider: "paypal",
    dated_by: DatedBy::Settled,
    // English, German, Spanish, French, Japanese; where two stand for one language, the statement has its own word.
    columns: &[
        needed(DATE, &["date", "datum", "fecha", "日付"]),
        needed(TIME, &["time", "uhrzeit", "hora", "heure", "時間"]),
        useful(ZONE, &["timezone", "time zone", "zeitzone", "zona horaria", "fuseau horaire", "タイムゾーン"]),
        needed(TYPE, &["type", "typ", "tipo", "タイプ", "description", "beschreibung", "descripción", "説明"]),
        useful(STATUS, &["status", "estado", "état", "ステータス"]),
        key(CURRENCY, &["currency", "währung", "divisa", "devise", "通貨"]),
        key(GROSS, &["gross", "brutto", "bruto", "avant commission", "合計"]),
        needed(FEE, &["fee", "gebühr", "entgelt", "comisión", "tarifa", "commission", "手数料"]),
        key(NET, &["net", "netto", "neto", "正味"]),
        key(ID, &["transaction id", "transaktionscode", "id. de transacción", "numéro de transaction", "取引id"]),
        useful(
            PARENT,
            &[
                "reference txn id",
                "zugehöriger transaktionscode",
                "id. de referencia de trans.",
                "numéro de la transaction de référence",
                "リファレンス トランザクションid",
            ],
        ),
        useful(
            INVOICE,
            &["invoice number", "invoice id", "rechnungsnummer", "id. de factura", "numéro de facture", "請求書番号"],
        ),
        // "Zollnummer" is how PayPal translates Custom Number.
        optional(CUSTOM, &["custom number", "zollnummer", "カスタム番号"]),
        useful(IMPACT, &["balance impact", "auswirkung auf guthaben", "impact sur le solde", "残高への影響"]),
    ],
    number: NumberStyle { mark: Some(DecimalMark::Point), grouping: true },
    reference: ReferenceOrder::Columns(&[INVOICE, CUSTOM]),
    missing_hint: "download the activity report with all transaction details (the short form of personal accounts has \
                   no transaction id)",
    read_row,
    extra: Extra { number_of: Some(number_of), order_column: Some(DATE), ..PLAIN },
};

/// Titles of the languages that write a decimal comma.
const COMMA_TITLES: &[&str] = &["brutto", "bruto", "avant commission"];

fn number_of(titles: &[String]) -> NumberStyle {
    let comma = titles.iter().any(|t| COMMA_TITLES.contains(&t.as_str()));
    let mark = if comma { DecimalMark::Comma } else { DecimalMark::Point };
    NumberStyle { mark: Some(mark), grouping: true }
}

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let type_raw = row.text(TYPE);
    let meaning = find(TYPES, type_raw);
    let memo = find(IMPACTS, row.text(IMPACT)) == Some(Impact::Memo);
    if meaning == Some(Meaning::CartItem) {
        emit.ignored(row.record.line, "a cart item: it repeats the transaction id of its payment, which has a row");
        return Ok(());
    }
    let currency = row.currency(CURRENCY)?;
    let gross = row.needed_amount(GROSS, currency)?;
    let kind = kind(meaning, gross);
    let known_status = status(row, memo);
    if memo && known_status == Some(Status::Succeeded) && !of_authorization(kind) {
        emit.ignored(row.record.line, "Balance Impact is Memo: the balance did not change");
        return Ok(());
    }
    let status = match (kind, known_status) {
        (EntryKind::Void, _) => Status::Canceled,
        (EntryKind::Authorization, Some(Status::Succeeded | Status::Pending) | None) => Status::Authorized,
        (_, known) => known.unwrap_or(Status::Pending),
    };
    let mut entry = row.entry(kind, status, currency, Some(gross));
    if kind == EntryKind::Void {
        (entry.amount_minor, entry.authorized_minor) = (Some(0), Some(gross));
    }
    entry.provider_id = row.id(ID)?;
    entry.reference = row.merchant_reference()?;
    // Ids with a hyphen name agreements (B-..., I-...), which are no payments.
    entry.parent_id = row.id(PARENT)?.filter(|id| !id.contains('-'));
    entry.type_raw = Some(Cow::Borrowed(type_raw));
    time(row, &mut entry);
    if meaning.is_none() {
        flag(&mut entry, format!("unknown type {type_raw:?}"));
    }
    if known_status.is_none() {
        flag(&mut entry, format!("unknown status {:?}", row.text(STATUS)));
    }
    check_net(row, currency, gross, &mut entry)?;
    emit.entry(row, entry);
    Ok(())
}

/// The kind of a row: what its type says, and for words that serve both ways, the sign.
fn kind(meaning: Option<Meaning>, gross: i64) -> EntryKind {
    let money_in = gross >= 0;
    match meaning {
        Some(Meaning::Payment) if money_in => EntryKind::Charge,
        // Sent by this account; likewise money that it had sent and got back.
        Some(Meaning::Payment) => EntryKind::Transfer,
        Some(Meaning::Is(EntryKind::Refund | EntryKind::ChargeReversal)) if money_in => EntryKind::Transfer,
        Some(Meaning::Is(EntryKind::Chargeback)) if money_in => EntryKind::ChargebackReversal,
        Some(Meaning::Is(EntryKind::Hold)) if money_in => EntryKind::HoldRelease,
        Some(Meaning::Is(kind)) => kind,
        Some(Meaning::CartItem) | None => EntryKind::Unknown,
    }
}

/// Rows that never change the balance, and say something all the same.
fn of_authorization(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Authorization | EntryKind::Void)
}

/// `None` for an unknown word. A statement has no such column: all its rows are booked.
fn status(row: &Row<'_>, memo: bool) -> Option<Status> {
    let text = row.text(STATUS);
    if text.is_empty() {
        return Some(Status::Succeeded);
    }
    find(STATES, text).map(|state| match state {
        State::Is(status) => status,
        State::Reversed if memo => Status::Canceled,
        State::Reversed => Status::Succeeded,
    })
}

fn time<'a>(row: &Row<'a>, entry: &mut Entry<'a>) {
    let (date, clock) = (row.text(DATE), row.text(TIME));
    let day = when::account_date(date, row.rules.date_order);
    let local = day.and_then(|day| when::time_of_day(clock).map(|time| day.and_time(time)));
    when::labelled(date, local, row.text(ZONE), row.rules.timezone).put(entry);
    if entry.time_raw.is_some() {
        entry.time_raw = Some(Cow::Owned(format!("{date} {clock}")));
    }
}

/// The row's own arithmetic; where it fails, a wrong separator is the usual cause.
fn check_net(row: &Row<'_>, currency: Currency, gross: i64, entry: &mut Entry<'_>) -> Result<(), Fault> {
    if let (Some(fee), Some(net)) = (row.amount(FEE, currency)?, row.amount(NET, currency)?)
        && i128::from(gross) + i128::from(fee) != i128::from(net)
    {
        flag(entry, "gross and fee do not add up to net");
    }
    Ok(())
}
