//! `migrate`: creates or upgrades the schema `idem`.

use std::io::Write;

use crate::store::Store;

/// Applies what is pending, or only lists it.
pub async fn run(store: &Store, dry_run: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let steps = store.migrate(dry_run).await?;
    for step in &steps {
        let state = match (step.was_applied, dry_run) {
            (true, _) => "was there",
            (false, true) => "would be applied",
            (false, false) => "applied",
        };
        writeln!(out, "{:04} {:<40} {state}", step.version, step.description)?;
    }
    Ok(())
}
