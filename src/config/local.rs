//! `[[reconcile.local]]`: where the local charges are, and what must hold of a table or query of the operator's own.

use crate::domain::charge::MatchKey;
use crate::domain::money::MinorUnits;

use super::check::Check;
use super::file;
use super::resolve::{status, word};
use super::settings::{GenericStatus, LocalFrom, LocalSource, LocalTable, ProviderSettings, Reading};
use super::value;

/// Longest local query, in bytes.
const QUERY_BYTES_MAX: usize = 64 * 1024;
/// Longest name of a PostgreSQL table or column, in bytes.
const IDENTIFIER_BYTES_MAX: usize = 63;

/// Reads one entry.
pub(super) fn source(check: &mut Check<'_>, key: &str, entry: &file::Local) -> LocalSource {
    let provider = check.text(&format!("{key}.provider"), entry.provider.as_ref(), value::provider_name);
    let account = check.text(&format!("{key}.account"), entry.account.as_ref(), value::account);
    let word = entry.match_key.as_ref().and_then(|key| key.local.as_ref());
    let match_key = check.text(&format!("{key}.match"), word, match_key).unwrap_or_default();
    let from = match (&entry.table, &entry.query) {
        (Some(table), None) => LocalFrom::Table(local_table(check, key, table, entry.columns.as_ref())),
        (None, Some(query)) => {
            if entry.columns.is_some() {
                check.problem(&format!("{key}.columns"), "a query names its columns itself: use AS");
            }
            check.text(&format!("{key}.query"), Some(query), local_query);
            LocalFrom::Query(query.trim().to_owned())
        }
        _ => {
            check.problem(key, "expected either table or query");
            LocalFrom::Query(String::new())
        }
    };
    // Charges of another provider would all come out as missing.
    let one_provider = match &from {
        LocalFrom::Table(table) => table.provider_column.is_some(),
        LocalFrom::Query(query) => query.contains("$provider"),
    };
    if provider.is_none() && !one_provider {
        check.problem(
            key,
            "nothing selects the provider's rows: set provider, or columns.provider_column, or use $provider in the query",
        );
    }
    if let LocalFrom::Table(table) = &from {
        let (column, there) = match match_key {
            MatchKey::MerchantReference => ("merchant_reference", table.merchant_reference.is_some()),
            MatchKey::IdempotencyKey => ("idempotency_key", table.idempotency_key.is_some()),
            MatchKey::ProviderId => ("provider_id", table.provider_id.is_some()),
        };
        if !there {
            check.problem(&format!("{key}.columns.{column}"), "is the match key and cannot be left out");
        }
    }
    let mut statuses = GenericStatus::words();
    statuses.extend(check.words(&format!("{key}.statuses"), &entry.statuses, str::to_lowercase, status));
    let minor_units = check.text(&format!("{key}.minor_units"), entry.minor_units.as_ref(), minor_units);
    LocalSource { provider, account, from, match_key, minor_units: minor_units.unwrap_or_default(), statuses }
}

fn local_table(check: &mut Check<'_>, key: &str, table: &String, columns: Option<&file::LocalColumns>) -> LocalTable {
    let (schema, table) = check.text(&format!("{key}.table"), Some(table), qualified).unwrap_or_default();
    let mut names = LocalTable { schema, table, ..LocalTable::idem_charges() };
    let Some(columns) = columns else { return names };
    let needed = [
        ("charge_id", &columns.charge_id, &mut names.charge_id),
        ("amount_minor", &columns.amount_minor, &mut names.amount_minor),
        ("currency", &columns.currency, &mut names.currency),
        ("status", &columns.status, &mut names.status),
        ("created_at", &columns.created_at, &mut names.created_at),
    ];
    for (column, given, name) in needed {
        if let Some(given) = check.text(&format!("{key}.columns.{column}"), given.as_ref(), identifier) {
            *name = given;
        }
    }
    let optional = [
        ("idempotency_key", &columns.idempotency_key, &mut names.idempotency_key),
        ("merchant_reference", &columns.merchant_reference, &mut names.merchant_reference),
        ("provider_id", &columns.provider_id, &mut names.provider_id),
        ("refunded_minor", &columns.refunded_minor, &mut names.refunded_minor),
        ("provider_column", &columns.provider_column, &mut names.provider_column),
        ("account_column", &columns.account_column, &mut names.account_column),
    ];
    for (column, given, name) in optional {
        if given.as_ref().is_some_and(String::is_empty) {
            *name = None;
        } else if let Some(given) = check.text(&format!("{key}.columns.{column}"), given.as_ref(), identifier) {
            *name = Some(given);
        }
    }
    names
}

/// Keeps the report's title of a `match` in the provider's reading options, where readers of reports look.
pub(super) fn state_reference_column(
    check: &mut Check<'_>,
    key: &str,
    entry: &file::Local,
    source: &LocalSource,
    providers: &mut Vec<ProviderSettings>,
) {
    let title = entry.match_key.as_ref().and_then(|key| key.report.as_ref());
    let key = format!("{key}.match.report");
    let Some(title) = check.text(&key, title, value::title) else { return };
    let Some(name) = &source.provider else {
        return check.problem(&key, "needs provider beside it: a title belongs to one provider's reports");
    };
    let account = source.account.clone().unwrap_or_default();
    let position = providers.iter().position(|entry| entry.name == *name && entry.account == account);
    let position = position.unwrap_or_else(|| {
        let reading = Reading::default();
        providers.push(ProviderSettings { name: name.clone(), account, reading, settlement_lag: None });
        providers.len() - 1
    });
    let entry = &mut providers[position];
    match &entry.reading.reference_column {
        Some(other) if *other != title => {
            check.problem(&key, format!("{title:?}: the provider's reference_column is {other:?}; keep one of them"));
        }
        _ => entry.reading.reference_column = Some(title),
    }
}

/// Whether no charge can come to `below` because `above` stands before it.
pub(super) fn hides(above: &LocalSource, below: &LocalSource) -> bool {
    (above.provider.is_none() || above.provider == below.provider)
        && (above.account.is_none() || above.account == below.account)
}

fn match_key(text: &str) -> Result<MatchKey, String> {
    word(text, "merchant_reference, idempotency_key or provider_id")
}

fn minor_units(text: &str) -> Result<MinorUnits, String> {
    word(text, "iso, stripe or adyen")
}

fn local_query(text: &str) -> Result<(), String> {
    let first = text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    if text.len() > QUERY_BYTES_MAX {
        Err(format!("a query has at most {} KiB", QUERY_BYTES_MAX / 1024))
    } else if !["select", "with"].contains(&first.as_str()) {
        Err("expected one statement that begins with SELECT or WITH".to_owned())
    } else if text.trim_end().ends_with(';') {
        Err("leave the last `;` out: the query becomes a part of a larger one".to_owned())
    } else {
        Ok(())
    }
}

/// A schema and a table; `public` where no schema is named.
fn qualified(text: &str) -> Result<(String, String), String> {
    let (schema, table) = text.split_once('.').unwrap_or(("public", text));
    let both = identifier(schema).and_then(|schema| Ok((schema, identifier(table)?)));
    both.map_err(|_| "expected a table such as shop.payments".to_owned()).and_then(|both| {
        if table.contains('.') {
            Err("expected at most one point, between schema and table".to_owned())
        } else {
            Ok(both)
        }
    })
}

/// The name of a table or column as PostgreSQL stores it (case matters); it is quoted wherever it is used.
fn identifier(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.len() <= IDENTIFIER_BYTES_MAX && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected the name of a column: 1 to {IDENTIFIER_BYTES_MAX} bytes, no control characters"))
    }
}
