//! From the mirror to checked settings: defaults, ranges, and what has to agree between keys.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};

use crate::domain::entry::DatedBy;
use crate::domain::money::MinorUnits;

use super::check::Check;
use super::error::Problem;
use super::file;
use super::local;
use super::partition;
use super::settings::{
    GenericColumns, GenericFormat, GenericStatus, LocalSource, MailSettings, ProviderSettings, Reading,
    ReconcileSettings, Settings,
};
use super::tree::Node;
use super::value::{self, Secret};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Checks everything and gives the settings, or all that is wrong.
pub(super) fn resolve(file: file::File, root: &Node, file_name: &str) -> Result<Settings, Vec<Problem>> {
    let mut check = Check { root, file: file_name, problems: Vec::new() };
    let settings = Settings {
        database_url: database_url(&mut check, file.database),
        reconcile: reconcile(&mut check, &file.reconcile),
        mail: mail(&mut check, &file.mail),
        partitions: partition::partitions(&mut check, &file.partitions),
    };
    if check.problems.is_empty() { Ok(settings) } else { Err(check.problems) }
}

fn database_url(check: &mut Check<'_>, database: file::Database) -> Option<Secret> {
    let url = check.secret("database.url", database.url, database.url_file.as_ref())?;
    // The rest is judged by the driver; the text itself never stands in a message.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.expose().starts_with(scheme)) {
        check.problem("database.url", "expected a URL that begins with postgres:// or postgresql://");
    }
    Some(url)
}

fn mail(check: &mut Check<'_>, mail: &file::Mail) -> MailSettings {
    let from = check.text("mail.from", mail.from.as_ref(), address).unwrap_or_else(|| "idem-jobs@localhost".to_owned());
    let to = mail.to.iter().flatten().enumerate();
    let to = to.filter_map(|(at, text)| check.text(&format!("mail.to[{at}]"), Some(text), address)).collect();
    MailSettings { from, to }
}

/// An address for a mail header: what could begin another header is refused, the rest is the mail server's to judge.
fn address(text: &str) -> Result<String, String> {
    let whole = text.split_once('@').is_some_and(|(local, host)| !local.is_empty() && !host.is_empty());
    if whole && text.len() <= 254 && !text.chars().any(|c| c.is_control() || c.is_whitespace() || ",;<>".contains(c)) {
        Ok(text.to_owned())
    } else {
        Err("expected a plain address such as payments@example.com".to_owned())
    }
}

fn reconcile(check: &mut Check<'_>, file: &file::Reconcile) -> ReconcileSettings {
    let to_90_days = Duration::ZERO..=90 * DAY;
    let percent = 0..=100;
    let mut settings = ReconcileSettings {
        grace: check.span("reconcile.grace", file.grace.as_ref(), 72 * HOUR, &to_90_days),
        slack: check.span("reconcile.slack", file.slack.as_ref(), 24 * HOUR, &to_90_days),
        settlement_lag: check.span("reconcile.settlement_lag", file.settlement_lag.as_ref(), 7 * DAY, &to_90_days),
        lock_wait: check.span("reconcile.lock_wait", file.lock_wait.as_ref(), 10 * MINUTE, &(Duration::ZERO..=DAY)),
        statement_timeout: check.span(
            "reconcile.statement_timeout",
            file.statement_timeout.as_ref(),
            30 * MINUTE,
            &(Duration::from_secs(1)..=DAY),
        ),
        missing_percent_max: percent_of(check.count("reconcile.missing_percent", file.missing_percent, 5, &percent)),
        missing_floor: check.count("reconcile.missing_floor", file.missing_floor, 100, &(0..=1_000_000_000)),
        empty_key_percent_max: percent_of(check.count(
            "reconcile.empty_key_percent",
            file.empty_key_percent,
            20,
            &percent,
        )),
        severity_at_risk: severity(check, file.severity_at_risk.as_deref()),
        reports_dir: check
            .text("reconcile.reports_dir", file.reports_dir.as_ref(), folder)
            .unwrap_or_else(|| PathBuf::from("reports/out")),
        local: Vec::new(),
        providers: Vec::new(),
        generic: Vec::new(),
    };
    for (at, entry) in file.provider.iter().enumerate() {
        let key = format!("reconcile.provider[{at}]");
        let provider = provider(check, &key, entry);
        if settings.provider(&provider.name, &provider.account).is_some() {
            check.problem(&key, "this provider and account has an entry above");
        }
        settings.providers.push(provider);
    }
    for (at, entry) in file.local.iter().enumerate() {
        let key = format!("reconcile.local[{at}]");
        let source = local::source(check, &key, entry);
        local::state_reference_column(check, &key, entry, &source, &mut settings.providers);
        if settings.local.iter().any(|above| local::hides(above, &source)) {
            check.problem(&key, "is never reached: an entry above serves the same provider and account");
        }
        settings.local.push(source);
    }
    if file.local.is_empty() {
        settings.local.push(LocalSource::idem_charges());
    }
    for (at, entry) in file.format.iter().enumerate() {
        let key = format!("reconcile.format[{at}]");
        settings.generic.push(format(check, &key, entry));
    }
    settings
}

fn percent_of(number: u64) -> u8 {
    u8::try_from(number).expect("its range ends at 100")
}

fn folder(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') { Err("expected a folder".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn severity(check: &mut Check<'_>, numbers: Option<&[i64]>) -> [u64; 3] {
    let key = "reconcile.severity_at_risk";
    let Some(numbers) = numbers else { return [1_000, 10_000, 100_000] };
    let steps: Vec<u64> = numbers.iter().filter_map(|number| u64::try_from(*number).ok()).collect();
    match <[u64; 3]>::try_from(steps) {
        Ok(steps) if numbers.len() == 3 && steps.is_sorted() => steps,
        _ => {
            check.problem(
                key,
                format!("{numbers:?}: expected three whole numbers from 0, none below the one before it"),
            );
            [0; 3]
        }
    }
}

fn provider(check: &mut Check<'_>, key: &str, entry: &file::Provider) -> ProviderSettings {
    let longest = Duration::ZERO..=90 * DAY;
    let lag = entry.settlement_lag.as_ref();
    ProviderSettings {
        name: check.needed(&format!("{key}.name"), entry.name.as_ref(), value::provider_name),
        account: check.text(&format!("{key}.account"), entry.account.as_ref(), value::account).unwrap_or_default(),
        settlement_lag: lag.map(|_| check.span(&format!("{key}.settlement_lag"), lag, Duration::ZERO, &longest)),
        reading: Reading {
            reference_column: check.text(
                &format!("{key}.reference_column"),
                entry.reference_column.as_ref(),
                value::title,
            ),
            decimal_mark: check.text(
                &format!("{key}.decimal_separator"),
                entry.decimal_separator.as_ref(),
                value::decimal_mark,
            ),
            delimiter: check.text(&format!("{key}.delimiter"), entry.delimiter.as_ref(), value::delimiter),
            encoding: check.text(&format!("{key}.encoding"), entry.encoding.as_ref(), value::encoding),
            timezone: check.text(&format!("{key}.timezone"), entry.timezone.as_ref(), value::timezone),
            currency: check.text(&format!("{key}.currency"), entry.currency.as_ref(), value::currency),
            date_order: check.text(&format!("{key}.date_order"), entry.date_order.as_ref(), value::date_order),
        },
    }
}

fn format(check: &mut Check<'_>, key: &str, entry: &file::Format) -> GenericFormat {
    let columns = &entry.columns;
    let mut optional =
        |name: &str, given: &Option<String>| check.text(&format!("{key}.columns.{name}"), given.as_ref(), value::title);
    let (reference, currency) = (optional("reference", &columns.reference), optional("currency", &columns.currency));
    let (status, time) = (optional("status", &columns.status), optional("time", &columns.time));
    let (fee, kind) = (optional("fee", &columns.fee), optional("kind", &columns.kind));
    let parent = optional("parent", &columns.parent);
    if !entry.kinds.is_empty() && kind.is_none() {
        check.problem(&format!("{key}.kinds"), "needs the title of the type column: columns.kind");
    }
    if !entry.statuses.is_empty() && status.is_none() {
        check.problem(&format!("{key}.statuses"), "needs the title of the status column: columns.status");
    }
    GenericFormat {
        provider: check.needed(&format!("{key}.provider"), entry.provider.as_ref(), value::provider_name),
        columns: GenericColumns {
            provider_id: check.needed(
                &format!("{key}.columns.provider_id"),
                columns.provider_id.as_ref(),
                value::title,
            ),
            amount: check.needed(&format!("{key}.columns.amount"), columns.amount.as_ref(), value::title),
            reference,
            currency,
            status: status.clone(),
            time,
            fee,
            kind: kind.clone(),
            parent,
        },
        minor_units: check.text(&format!("{key}.unit"), entry.unit.as_ref(), unit).unwrap_or_default(),
        kinds: check.words(&format!("{key}.kinds"), &entry.kinds, str::to_lowercase, |text| {
            word(text, "a kind such as charge, refund, chargeback, fee, payout or adjustment")
        }),
        statuses: check.words(&format!("{key}.statuses"), &entry.statuses, str::to_lowercase, self::status),
        dated_by: check
            .text(&format!("{key}.dated_by"), entry.dated_by.as_ref(), |text| word(text, "created or settled"))
            .unwrap_or(DatedBy::Created),
        time_format: check.text(&format!("{key}.time_format"), entry.time_format.as_ref(), time_format),
        reading: Reading {
            reference_column: None,
            decimal_mark: check.text(
                &format!("{key}.decimal_separator"),
                entry.decimal_separator.as_ref(),
                value::decimal_mark,
            ),
            delimiter: check.text(&format!("{key}.delimiter"), entry.delimiter.as_ref(), value::delimiter),
            encoding: check.text(&format!("{key}.encoding"), entry.encoding.as_ref(), value::encoding),
            timezone: check.text(&format!("{key}.timezone"), entry.timezone.as_ref(), value::timezone),
            currency: check.text(&format!("{key}.currency"), entry.currency.as_ref(), value::currency),
            date_order: None,
        },
    }
}

/// Reads one of our own words as the domain writes it.
pub(super) fn word<'a, T: Deserialize<'a>>(text: &'a str, expected: &str) -> Result<T, String> {
    let reader: StrDeserializer<'a, WordError> = text.into_deserializer();
    T::deserialize(reader).map_err(|_| format!("expected {expected}"))
}

fn unit(text: &str) -> Result<Option<MinorUnits>, String> {
    if text == "major" { Ok(None) } else { word(text, "major, iso, stripe or adyen").map(Some) }
}

pub(super) fn status(text: &str) -> Result<GenericStatus, String> {
    if text == "refunded" {
        return Ok(GenericStatus::Refunded);
    }
    word(text, "succeeded, pending, authorized, failed, canceled or refunded").map(GenericStatus::Is)
}

fn time_format(text: &str) -> Result<String, String> {
    let sound = |item| !matches!(item, chrono::format::Item::Error);
    if !text.is_empty() && chrono::format::StrftimeItems::new(text).all(sound) {
        Ok(text.to_owned())
    } else {
        Err("expected a pattern such as \"%d/%m/%Y %H:%M:%S\"".to_owned())
    }
}

/// The settings of an empty file and an empty environment.
impl Default for Settings {
    fn default() -> Self {
        resolve(file::File::default(), &Node::empty(), "jobs.toml").expect("the defaults are within their own ranges")
    }
}
