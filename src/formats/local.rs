//! Our own side as a CSV file (`--local FILE`). A bad row here is our own mistake: an error with its place, never skipped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use encoding_rs::Encoding;

use crate::config::Reading;
use crate::config::settings::GenericStatus;
use crate::domain::charge::{Charge, ChargeNames};
use crate::domain::entry::Status;
use crate::domain::money::{Currency, MinorUnits, NumberStyle};

use super::Format;
use super::error::ReportError;
use super::generic::status_word;
use super::mask::masked;
use super::recognise::shown;
use super::records::Records;
use super::row::{Fault, Row, Rules};
use super::scan::{bad_text, whole};
use super::source::Source;
use super::text::{Text, encoding};
use super::titles::{Column, Need, Places, Wanted, needed, normalise, optional};
use super::when::{self, When};

const CHARGE_ID: usize = 0;
const KEY: usize = 1;
const REFERENCE: usize = 2;
const PROVIDER_ID: usize = 3;
const AMOUNT: usize = 4;
const CURRENCY: usize = 5;
const STATUS: usize = 6;
const CREATED: usize = 7;
const REFUNDED: usize = 8;

const COLUMNS: &[Column] = &[
    needed(CHARGE_ID, &["charge_id"]),
    optional(KEY, &["idempotency_key"]),
    optional(REFERENCE, &["merchant_reference"]),
    optional(PROVIDER_ID, &["provider_id"]),
    needed(AMOUNT, &["amount_minor"]),
    needed(CURRENCY, &["currency"]),
    needed(STATUS, &["status"]),
    needed(CREATED, &["created_at"]),
    optional(REFUNDED, &["refunded_minor"]),
];

/// An opened file of local charges.
pub struct LocalFile {
    source: Source,
    encoding: &'static Encoding,
    delimiter: u8,
    titles: Vec<String>,
    places: Places,
    rules: Rules,
    minor_units: MinorUnits,
    statuses: BTreeMap<String, GenericStatus>,
}

impl fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalFile").field("name", &self.source.name).finish_non_exhaustive()
    }
}

impl LocalFile {
    /// Opens the file: `minor_units` is what its amounts count, `statuses` are own words besides the usual ones.
    pub fn open(
        path: &Path,
        minor_units: MinorUnits,
        statuses: &BTreeMap<String, GenericStatus>,
    ) -> Result<Self, ReportError> {
        let source = Source::open_unnamed(path)?;
        let encoding = encoding(&source, None)?;
        let wanted = Wanted::of(COLUMNS);
        let mut nearest = (Vec::new(), Vec::new());
        for delimiter in *b",;\t" {
            let mut records = Records::new(&source.name, Text::new(&source, encoding), delimiter);
            let Some(head) = records.next()? else {
                return Err(ReportError::Empty(source.name.clone()));
            };
            let titles = head.texts();
            let normal: Vec<String> = titles.iter().map(|t| normalise(t)).collect();
            let places = Places::find(&wanted, &normal);
            let missing: Vec<String> = places.missing(&wanted, &[Need::Needed]).collect();
            if missing.is_empty() {
                if let Some(&(first, _)) = places.twins.first() {
                    return Err(ReportError::DuplicateTitle { name: source.name, title: titles[first].clone() });
                }
                if [KEY, REFERENCE, PROVIDER_ID].iter().all(|&column| places.slots[column].is_none()) {
                    let missing = "idempotency_key, merchant_reference or provider_id".to_owned();
                    return Err(ReportError::LocalTitles { name: source.name, missing, seen: shown(&titles) });
                }
                let rules = rules();
                let statuses = statuses.clone();
                return Ok(Self { source, encoding, delimiter, titles, places, rules, minor_units, statuses });
            }
            if nearest.0.is_empty() || missing.len() < nearest.0.len() {
                nearest = (missing, titles);
            }
        }
        let (missing, seen) = nearest;
        Err(ReportError::LocalTitles { name: source.name, missing: missing.join(", "), seen: shown(&seen) })
    }

    /// Reads all charges until `on` breaks. Can be called again; a file that has changed is an error.
    pub fn read(&self, on: &mut dyn FnMut(Charge<'_>) -> ControlFlow<()>) -> Result<(), ReportError> {
        self.read_some(&|_| true, on)
    }

    /// Reads the charges that are `asked` for by their names, until `on` breaks.
    pub fn read_some(
        &self,
        asked: &dyn Fn(&ChargeNames<'_>) -> bool,
        on: &mut dyn FnMut(Charge<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReportError> {
        let text = Text::new(&self.source, self.encoding);
        let mut records = Records::new(&self.source.name, text, self.delimiter);
        let mut at_titles = true;
        while let Some(record) = records.next()? {
            if std::mem::take(&mut at_titles) || record.is_blank() {
                continue;
            }
            let (line, width) = (record.line, self.titles.len());
            if !record.ended && record.len() < width {
                let reason = format!("its last record has {} of {width} cells and no line end", record.len());
                return Err(ReportError::Cut { name: self.source.name.clone(), line, reason });
            }
            let sound = if let Some(why) = record.damage {
                Err(whole(&record, why))
            } else if record.len() != width {
                Err(whole(&record, &format!("the record has {} cells, the title line has {width}", record.len())))
            } else {
                Ok(())
            };
            let row = Row::new(record, &self.titles, &self.places.slots, &[], &self.rules);
            let is_text = || {
                let fault = || bad_text(&record, record.bad_text().unwrap_or_default(), &self.titles);
                row.is_text().then_some(()).ok_or_else(fault)
            };
            let charge = sound
                .and_then(|()| is_text())
                .and_then(|()| self.charge(&row, asked))
                .map_err(|fault| self.local_row(line, fault))?;
            if charge.is_some_and(|charge| on(charge).is_break()) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The charge of a row; `None` when it is not asked for.
    fn charge<'a>(&self, row: &Row<'a>, asked: &dyn Fn(&ChargeNames<'_>) -> bool) -> Result<Option<Charge<'a>>, Fault> {
        let (idempotency_key, merchant_reference) = (row.id(KEY)?, row.id(REFERENCE)?);
        let provider_id = row.id(PROVIDER_ID)?;
        let names = ChargeNames {
            idempotency_key: idempotency_key.as_deref(),
            merchant_reference: merchant_reference.as_deref(),
            provider_id: provider_id.as_deref(),
        };
        if !asked(&names) {
            return Ok(None);
        }
        let charge_id = row.id(CHARGE_ID)?.ok_or_else(|| row.fault(CHARGE_ID, "blank charge_id"))?;
        let currency = row.currency(CURRENCY)?;
        let amount_minor = self.minor(row, AMOUNT, currency)?.ok_or_else(|| row.fault(AMOUNT, "blank amount_minor"))?;
        let status_raw = row.text(STATUS);
        let word = status_word(&self.statuses, status_raw)
            .ok_or_else(|| row.fault(STATUS, "unknown status word: declare it under statuses in jobs.toml"))?;
        let When::At(created_at) = row.time(CREATED, when::utc) else {
            return Err(row.fault(CREATED, "expected a time such as 2026-05-01T12:00:00Z"));
        };
        let refunded = self.minor(row, REFUNDED, currency)?;
        let (status, refunded_minor) = match word {
            GenericStatus::Is(status) => (status, refunded),
            GenericStatus::Refunded => (Status::Succeeded, refunded.or(Some(amount_minor))),
        };
        Ok(Some(Charge {
            charge_id,
            idempotency_key,
            merchant_reference,
            provider_id,
            amount_minor,
            currency,
            status,
            status_raw: Cow::Borrowed(status_raw),
            refunded_minor,
            created_at,
        }))
    }

    fn minor(&self, row: &Row<'_>, column: usize, currency: Currency) -> Result<Option<i64>, Fault> {
        let text = row.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let minor = text.parse().map_err(|_| row.fault(column, "not a whole number of minor units"))?;
        let iso = self.minor_units.to_iso(minor, currency);
        iso.map(Some).ok_or_else(|| row.fault(column, "not a whole number of the currency's minor units"))
    }

    fn local_row(&self, line: u64, fault: Fault) -> ReportError {
        ReportError::LocalRow {
            name: self.source.name.clone(),
            line,
            column: fault.column.unwrap_or_else(|| "(whole row)".to_owned()),
            raw: masked(&fault.raw),
            reason: fault.reason,
        }
    }
}

fn rules() -> Rules {
    let Reading { timezone, currency, date_order, .. } = Reading::default();
    Rules {
        format: Format::Generic,
        number: NumberStyle::POINT,
        timezone,
        currency,
        date_order,
        generic: None,
        title_says_utc: true,
        survey: Arc::default(),
    }
}
