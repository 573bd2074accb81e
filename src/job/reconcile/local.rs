//! The local side: a CSV file of ours, or the configured table or query.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::config::LocalSource;
use crate::domain::charge::{Charge, MatchKey};
use crate::domain::run::RunHead;
use crate::formats::{Item, LocalFile, Report};
use crate::matching::recall::{ROUNDS_MAX, Wanted};
use crate::matching::{ProviderRow, Recall, Window};
use crate::store::{LocalQuery, LocalReader};

use super::{Ctx, ReconcileError, joined};

/// Where local charges come from.
pub(super) enum LocalSide {
    /// `--local FILE`.
    File(Arc<LocalFile>),
    /// A snapshot of the database, and the time in which charges are streamed from it.
    Database(Box<LocalReader>, Window),
}

/// Opens the file that `--local` names.
pub(super) async fn file(ctx: &Ctx<'_>, head: &RunHead, path: &Path) -> Result<LocalSide, ReconcileError> {
    let source = ctx.settings.local_for(&head.provider, &head.account);
    let (path, source) = (path.to_owned(), source.cloned().unwrap_or_else(LocalSource::idem_charges));
    let opened = spawn_blocking(move || LocalFile::open(&path, source.minor_units, &source.statuses));
    Ok(LocalSide::File(Arc::new(joined(opened.await)?.map_err(ReconcileError::Local)?)))
}

/// Opens a snapshot of what `[[reconcile.local]]` names, to be streamed for the time of `read`.
pub(super) async fn database(ctx: &Ctx<'_>, head: &RunHead, read: Window) -> Result<LocalSide, ReconcileError> {
    let database = ctx.database.as_ref().ok_or(ReconcileError::NoLocalSide)?;
    let source = ctx.settings.local_for(&head.provider, &head.account).ok_or_else(|| {
        ReconcileError::NoLocalSource { provider: head.provider.clone(), account: head.account.clone() }
    })?;
    let query = LocalQuery::new(source, &head.provider, &head.account)?;
    let reader = database.store.local_reader(query, ctx.settings.statement_timeout).await?;
    Ok(LocalSide::Database(Box::new(reader), read))
}

impl LocalSide {
    /// In which time charges are streamed; `None` when all are, as from a file.
    pub(super) fn read(&self) -> Option<Window> {
        match self {
            Self::File(_) => None,
            Self::Database(_, read) => Some(*read),
        }
    }

    /// Ends the snapshot.
    pub(super) async fn close(self) -> Result<(), ReconcileError> {
        match self {
            Self::File(_) => Ok(()),
            Self::Database(reader, _) => Ok(reader.close().await?),
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
    match_key: MatchKey,
    recall: Recall,
) -> Result<Recalled, ReconcileError> {
    let mut recall = Arc::new(recall);
    let mut recalled = Recalled::default();
    // By id: the database is asked by several keys, and a charge may answer to more than one of them.
    let mut by_id: BTreeMap<String, Charge<'static>> = BTreeMap::new();
    let mut due = Wanted { read_again: true, ..Wanted::default() };
    for _ in 0..ROUNDS_MAX {
        if due.read_again {
            recalled.provider = entries(report, &recall).await?;
        }
        let wanting = Arc::get_mut(&mut recall).expect("the scan has given its reference back");
        recalled.provider.iter().for_each(|row| wanting.learn_entry(&row.entry));
        due.absorb(wanting.take_fresh());
        match local {
            LocalSide::File(file) if due.read_again => recalled.local = charges_of_file(file, &recall).await?,
            LocalSide::File(_) => {}
            LocalSide::Database(reader, read) => {
                let mut keep = |charge: Charge<'_>| {
                    by_id.insert(charge.charge_id.to_string(), charge.into_owned());
                };
                if due.read_again {
                    let mut streamed = HashSet::new();
                    let mut repeated = None;
                    reader
                        .copy_all(read.from..read.to, |charge| {
                            if recall.wants_charge(&charge.names()) {
                                if !streamed.insert(charge.charge_id.to_string()) {
                                    repeated = Some(charge.charge_id.to_string());
                                }
                                keep(charge);
                            }
                            ControlFlow::Continue(())
                        })
                        .await?;
                    if let Some(charge_id) = repeated {
                        return Err(ReconcileError::RepeatedCharge { charge_id });
                    }
                }
                reader.lookup(match_key, &due.keys, &mut keep).await?;
                reader.lookup(MatchKey::ProviderId, &due.ids, &mut keep).await?;
            }
        }
        let wanting = Arc::get_mut(&mut recall).expect("the scan has given its reference back");
        recalled.local.iter().for_each(|charge| wanting.learn_charge(charge));
        for charge in by_id.values() {
            match local {
                LocalSide::Database(_, read) if !read.contains(charge.created_at) => wanting.learn_stranger(charge),
                _ => wanting.learn_charge(charge),
            }
        }
        due = wanting.take_fresh();
        if due.is_empty() {
            break;
        }
    }
    recalled.local.extend(by_id.into_values());
    Ok(recalled)
}

async fn entries(report: &Arc<Report>, recall: &Arc<Recall>) -> Result<Vec<ProviderRow>, ReconcileError> {
    let (report, recall) = (Arc::clone(report), Arc::clone(recall));
    joined(
        spawn_blocking(move || {
            let mut rows = Vec::new();
            report.read_some(&|row| recall.may_want(row), &mut |item| {
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
            file.read_some(&|names| recall.wants_charge(names), &mut |charge| {
                rows.push(charge.into_owned());
                ControlFlow::Continue(())
            })
            .map_err(ReconcileError::Local)?;
            Ok(rows)
        })
        .await,
    )?
}
