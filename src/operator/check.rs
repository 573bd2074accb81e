//! `check`: whether configuration and database are what the jobs need. One line a probe.
//!
//! The configuration has been loaded when this is called: a wrong one has ended the call before. Only reads, so it can
//! be a monitor's probe, also on a standby.

use std::io::Write;

use chrono::{DateTime, Utc};

use crate::config::Settings;
use crate::store::{LocalQuery, Store, StoreError};

use super::check_partitions;

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Sound,
    /// Worth a look, harms nobody today.
    Warning,
    /// The configuration cannot be right.
    Config,
    /// A human has to decide.
    NeedsHuman,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) verdict: Verdict,
    pub(super) subject: String,
    pub(super) sentence: String,
}

impl Probe {
    pub(super) fn new(verdict: Verdict, subject: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self { verdict, subject: subject.into(), sentence: sentence.into() }
    }
}

/// Prints the probes and gives the worst verdict. `store` is `None` offline.
pub async fn run(
    store: Option<&Store>,
    settings: &Settings,
    offline: bool,
    machine_now: DateTime<Utc>,
    out: &mut impl Write,
) -> anyhow::Result<Verdict> {
    let mut probes = vec![Probe::new(Verdict::Sound, "configuration", "every key is known and in range")];
    probes.extend(check_partitions::promises(&settings.partitions));
    // A standby can be read: its partitions are worth a look, and then it is what it is.
    let mut standby = None;
    match store {
        Some(store) => {
            match store.require_ready().await {
                Ok(()) => {
                    let sentence = "primary, direct, schema idem as this program knows it";
                    probes.push(Probe::new(Verdict::Sound, "database", sentence));
                }
                Err(error @ StoreError::NotPrimary) => standby = Some(error),
                Err(error) => {
                    print(&probes, out)?;
                    return Err(error.into());
                }
            }
            probes.extend(local_sides(store, settings).await?);
            probes.extend(check_partitions::probe(store, &settings.partitions, machine_now).await?);
        }
        None if offline => probes.push(Probe::new(Verdict::Sound, "database", "not asked (--offline)")),
        None => {
            let sentence = "none is configured: only `inspect` and `reconcile --local` work";
            probes.push(Probe::new(Verdict::Warning, "database", sentence));
        }
    }
    print(&probes, out)?;
    match standby {
        Some(error) => Err(error.into()),
        None => Ok(probes.iter().map(|probe| probe.verdict).max().unwrap_or(Verdict::Sound)),
    }
}

/// Each `[[reconcile.local]]` is opened as a run would open it: its table, columns and types must be there.
async fn local_sides(store: &Store, settings: &Settings) -> Result<Vec<Probe>, StoreError> {
    let mut probes = Vec::new();
    for source in &settings.reconcile.local {
        let (provider, account) = (source.provider.as_deref().unwrap_or("any"), source.account.as_deref());
        let subject = format!("local {provider}");
        let opened = match LocalQuery::new(source, provider, account.unwrap_or_default()) {
            Ok(query) => store.local_reader(query, settings.reconcile.statement_timeout).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok(reader) => {
                reader.close().await?;
                probes.push(Probe::new(Verdict::Sound, subject, "the charges can be read"));
            }
            Err(error @ StoreError::LocalSource { .. }) => {
                probes.push(Probe::new(Verdict::Config, subject, error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(probes)
}

fn print(probes: &[Probe], out: &mut impl Write) -> std::io::Result<()> {
    for Probe { verdict, subject, sentence } in probes {
        let word = match verdict {
            Verdict::Sound => "ok",
            Verdict::Warning => "warn",
            Verdict::Config | Verdict::NeedsHuman => "fail",
        };
        writeln!(out, "{word:<5} {subject:<14} {sentence}")?;
    }
    Ok(())
}
