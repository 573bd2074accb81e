//! `jobs.toml` as it is written: one struct a table, one field a key, nothing checked.
//!
//! Every key may be absent; its default stands in `settings.rs` and `resolve.rs`. Every key stands in the embedded
//! `jobs.toml`, which a test makes sure of.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::value::Secret;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) database: Database,
    pub(super) reconcile: Reconcile,
    pub(super) mail: Mail,
    pub(super) partitions: Partitions,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Database {
    #[serde(deserialize_with = "secret")]
    pub(super) url: Option<Secret>,
    pub(super) url_file: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mail {
    pub(super) from: Option<String>,
    pub(super) to: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Reconcile {
    pub(super) grace: Option<String>,
    pub(super) slack: Option<String>,
    pub(super) settlement_lag: Option<String>,
    pub(super) lock_wait: Option<String>,
    pub(super) statement_timeout: Option<String>,
    pub(super) missing_percent: Option<i64>,
    pub(super) missing_floor: Option<i64>,
    pub(super) empty_key_percent: Option<i64>,
    pub(super) severity_at_risk: Option<Vec<i64>>,
    pub(super) reports_dir: Option<String>,
    pub(super) local: Vec<Local>,
    pub(super) provider: Vec<Provider>,
    pub(super) format: Vec<Format>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Partitions {
    pub(super) wait_budget: Option<String>,
    pub(super) lock_timeout: Option<String>,
    pub(super) removals_max: Option<i64>,
    pub(super) detached_grace: Option<String>,
    pub(super) pending_max: Option<String>,
    pub(super) skew_max: Option<String>,
    pub(super) client_retry_window: Option<String>,
    pub(super) largest_ttl: Option<String>,
    pub(super) table: Vec<PartitionTable>,
}

/// `[[partitions.table]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PartitionTable {
    pub(super) name: Option<String>,
    pub(super) column: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) interval: Option<String>,
    pub(super) premake: Option<i64>,
    pub(super) retention: Option<String>,
    pub(super) retention_floor: Option<String>,
    pub(super) create: Option<bool>,
    pub(super) detach: Option<bool>,
    pub(super) drop: Option<bool>,
    pub(super) analyze: Option<bool>,
    pub(super) unfinished: Option<String>,
}

/// `[[reconcile.local]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Local {
    pub(super) provider: Option<String>,
    pub(super) account: Option<String>,
    pub(super) table: Option<String>,
    pub(super) query: Option<String>,
    pub(super) columns: Option<LocalColumns>,
    #[serde(rename = "match")]
    pub(super) match_key: Option<Match>,
    pub(super) minor_units: Option<String>,
    pub(super) statuses: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LocalColumns {
    pub(super) charge_id: Option<String>,
    pub(super) idempotency_key: Option<String>,
    pub(super) merchant_reference: Option<String>,
    pub(super) provider_id: Option<String>,
    pub(super) amount_minor: Option<String>,
    pub(super) refunded_minor: Option<String>,
    pub(super) currency: Option<String>,
    pub(super) status: Option<String>,
    pub(super) created_at: Option<String>,
    pub(super) provider_column: Option<String>,
    pub(super) account_column: Option<String>,
}

/// `match`: the name of the local side's key, or a table with the report's title beside it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MatchTable {
    local: Option<String>,
    report: Option<String>,
}

#[derive(Default)]
pub(super) struct Match {
    pub(super) local: Option<String>,
    pub(super) report: Option<String>,
}

/// `[[reconcile.provider]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Provider {
    pub(super) name: Option<String>,
    pub(super) account: Option<String>,
    pub(super) settlement_lag: Option<String>,
    pub(super) reference_column: Option<String>,
    pub(super) decimal_separator: Option<String>,
    pub(super) delimiter: Option<String>,
    pub(super) encoding: Option<String>,
    pub(super) timezone: Option<String>,
    pub(super) currency: Option<String>,
    pub(super) date_order: Option<String>,
}

/// `[[reconcile.format]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the names are the file's keys")]
pub(super) struct Format {
    pub(super) provider: Option<String>,
    pub(super) columns: FormatColumns,
    pub(super) unit: Option<String>,
    pub(super) kinds: BTreeMap<String, String>,
    pub(super) statuses: BTreeMap<String, String>,
    pub(super) dated_by: Option<String>,
    pub(super) time_format: Option<String>,
    pub(super) decimal_separator: Option<String>,
    pub(super) delimiter: Option<String>,
    pub(super) encoding: Option<String>,
    pub(super) timezone: Option<String>,
    pub(super) currency: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FormatColumns {
    pub(super) provider_id: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) amount: Option<String>,
    pub(super) currency: Option<String>,
    pub(super) status: Option<String>,
    pub(super) time: Option<String>,
    pub(super) fee: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) parent: Option<String>,
}

impl<'de> Deserialize<'de> for Match {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrTable;

        impl<'de> Visitor<'de> for WordOrTable {
            type Value = Match;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a key or a table such as { local = \"merchant_reference\", report = \"title\" }",
                )
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Match, E> {
                Ok(Match { local: Some(word.to_owned()), report: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Match, A::Error> {
                let table = MatchTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Match { local: table.local, report: table.report })
            }
        }

        deserializer.deserialize_any(WordOrTable)
    }
}

/// A secret of the wrong sort is not repeated in the message.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    let text = String::deserialize(deserializer).map_err(|_| serde::de::Error::custom("expected a string"))?;
    Ok(Some(Secret::new(text)))
}
