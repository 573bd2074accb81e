//! `check`: whether configuration and database are what the jobs need. One line a probe.
//!
//! The configuration has been loaded when this is called: a wrong one has ended the call before.

use std::io::Write;

use crate::store::Store;

/// Prints the probes. `store` is `None` offline.
pub async fn run(store: Option<&Store>, offline: bool, out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "ok    configuration  every key is known and in range")?;
    match store {
        Some(store) => {
            store.require_ready().await?;
            writeln!(out, "ok    database       primary, direct, schema idem as this program knows it")?;
        }
        None if offline => writeln!(out, "ok    database       not asked (--offline)")?,
        None => writeln!(out, "warn  database       none is configured: only `inspect` and `reconcile --local` work")?,
    }
    Ok(())
}
