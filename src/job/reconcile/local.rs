//! The local side: a CSV file of ours, or the configured table or query.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::config::LocalSource;
use crate::domain::charge::{Charge, MatchKey};
use crate::domain::run::RunHead;
use crate::formats::{Item, LocalFile, Report};
use crate::matching::recall::{ROUNDS_MAX, Wanted};
use crate::matching::{ProviderRow, Recall, Window};
use crate::store::{LocalQuery, LocalReader};

use super::{Ctx, ReconcileError, Request, joined};

/// Where local charges come from.
pub(super) enum LocalSide {
    /// `--local FILE`.
    File(Arc<LocalFile>),
    /// A snapshot of the database.
    Database(Box<LocalReader>),
}

/// Opens what `--local` or `[[reconcile.local]]` names.
pub(super) async fn open(ctx: &Ctx<'_>, request: &Request, head: &RunHead) -> Result<LocalSide, ReconcileError> {
    let source = ctx.settings.local_for(&head.provider, &head.account);
    if let Some(path) = &request.local {
        let (path, source) = (path.clone(), source.cloned().unwrap_or_else(LocalSource::idem_charges));
        let opened = spawn_blocking(move || LocalFile::open(&path, source.minor_units, &source.statuses));
        return Ok(LocalSide::File(Arc::new(joined(opened.await)??)));
    }
    let database = ctx.database.as_ref().ok_or(ReconcileError::NoLocalSide)?;
    let source = source.ok_or_else(|| ReconcileError::NoLocalSource {
        provider: head.provider.clone(),
        account: head.account.clone(),
    })?;
    let query = LocalQuery::new(source, &head.provider, &head.account)?;
    let reader = database.store.local_reader(query, ctx.settings.statement_timeout).await?;
    Ok(LocalSide::Database(Box::new(reader)))
}

impl LocalSide {
    /// Ends the snapshot.
    pub(super) async fn close(self) -> Result<(), ReconcileError> {
        match self {
            Self::File(_) => Ok(()),
            Self::Database(reader) => Ok(reader.close().await?),
        }
    }
}

/// The full rows of everything that did not cancel.
#[derive(Default)]
pub(super) struct Recalled {
    pub(super) provider: Vec<ProviderRow>,
    pub(super) local: Vec<Charge<'static>>,
}

/// Reads the wanted rows of both sides again, until no row brings up another.
pub(super) async fn recall(
    report: &Arc<Report>,
    local: &mut LocalSide,
    read: Window,
    match_key: MatchKey,
    recall: Recall,
) -> Result<Recalled, ReconcileError> {
    let mut recall = Arc::new(recall);
    let mut provider = Vec::new();
    // By id: the database is asked by several keys, and a charge may answer to more than one of them.
    let mut by_id: BTreeMap<String, Charge<'static>> = BTreeMap::new();
    let mut charges = Vec::new();
    let mut due = Wanted::default();
    for round in 0..ROUNDS_MAX {
        provider = entries(report, &recall).await?;
        let wanting = Arc::get_mut(&mut recall).expect("the scan has given its reference back");
        for row in &provider {
            wanting.learn_entry(&row.entry);
        }
        let fresh = wanting.take_fresh();
        due.keys.extend(fresh.keys);
        due.ids.extend(fresh.ids);
        match local {
            LocalSide::File(file) => charges = charges_of_file(file, &recall).await?,
            LocalSide::Database(reader) => {
                let mut keep = |charge: Charge<'_>| {
                    by_id.insert(charge.charge_id.to_string(), charge.into_owned());
                };
                if round == 0 {
                    let range = read.from..read.to;
                    reader
                        .copy_all(range, |charge| {
                            if recall.wants_charge(&charge) {
                                keep(charge);
                            }
                            ControlFlow::Continue(())
                        })
                        .await?;
                }
                reader.lookup(match_key, &due.keys, &mut keep).await?;
                reader.lookup(MatchKey::ProviderId, &due.ids, &mut keep).await?;
            }
        }
        let wanting = Arc::get_mut(&mut recall).expect("the scan has given its reference back");
        for charge in charges.iter().chain(by_id.values()) {
            wanting.learn_charge(charge);
        }
        due = wanting.take_fresh();
        if due.is_empty() {
            break;
        }
    }
    charges.extend(by_id.into_values());
    Ok(Recalled { provider, local: charges })
}

async fn entries(report: &Arc<Report>, recall: &Arc<Recall>) -> Result<Vec<ProviderRow>, ReconcileError> {
    let (report, recall) = (Arc::clone(report), Arc::clone(recall));
    joined(
        spawn_blocking(move || {
            let mut rows = Vec::new();
            report.read(&mut |item| {
                if let Item::Entry { file, entry } = item
                    && recall.wants_entry(&entry)
                {
                    rows.push(ProviderRow { file, entry: entry.into_owned() });
                }
                ControlFlow::Continue(())
            })?;
            Ok(rows)
        })
        .await,
    )?
}

async fn charges_of_file(file: &Arc<LocalFile>, recall: &Arc<Recall>) -> Result<Vec<Charge<'static>>, ReconcileError> {
    let (file, recall) = (Arc::clone(file), Arc::clone(recall));
    joined(
        spawn_blocking(move || {
            let mut rows = Vec::new();
            file.read(&mut |charge| {
                if recall.wants_charge(&charge) {
                    rows.push(charge.into_owned());
                }
                ControlFlow::Continue(())
            })?;
            Ok(rows)
        })
        .await,
    )?
}
