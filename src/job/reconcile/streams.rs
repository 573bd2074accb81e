//! Both sides at once through the difference: two producers, bounded channels, one consumer.
//!
//! Rows become hashes in the thread that reads them; the consumer takes from the side that lags, so that what is
//! held is the skew between the streams and not their length.

use std::ops::ControlFlow;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use indicatif::ProgressBar;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;

use crate::domain::charge::{Charge, MatchKey};
use crate::domain::entry::RefusedRow;
use crate::formats::{Item, Report};
use crate::matching::tally::WRITTEN_MAX;
use crate::matching::{Difference, KeyHasher, Leftover, LocalTally, ProviderTally, Route, Row, Side};

use super::local::LocalSide;
use super::{ReconcileError, joined};

/// Rows that travel together: large enough that the channel costs nothing a row.
const BATCH_ROWS: usize = 4096;
/// Batches on their way; with [`BATCH_ROWS`] about 1 MiB a side.
const BATCHES_MAX: usize = 8;

/// What both streams left behind.
pub(super) struct Streamed {
    pub(super) report: ReportSide,
    pub(super) local: LocalTally,
    pub(super) leftover: Leftover,
    /// Rows without a match key, which the difference never saw.
    pub(super) keyless: u64,
}

/// What the report's stream left behind.
pub(super) struct ReportSide {
    pub(super) tally: ProviderTally,
    keyless: u64,
    pub(super) refused: Vec<RefusedRow>,
    pub(super) refused_total: u64,
    pub(super) ignored_total: u64,
}

impl ReportSide {
    /// Nothing to compare must not look like everything matched. `may_be_empty`: the report proves that it has no
    /// rows, or the operator says so.
    pub(super) fn require_rows(&self, may_be_empty: bool) -> Result<(), ReconcileError> {
        match self.refused.first() {
            _ if self.tally.rows > 0 => Ok(()),
            Some(first) => Err(ReconcileError::NothingReadable {
                rows: self.refused_total,
                line: first.line,
                reason: first.reason.clone(),
            }),
            None if may_be_empty => Ok(()),
            None => Err(ReconcileError::NoRows),
        }
    }
}

/// What is the same for both producers.
#[derive(Clone, Copy)]
pub(super) struct Keying {
    pub(super) hasher: KeyHasher,
    pub(super) match_key: MatchKey,
}

struct Batch {
    rows: Vec<Row>,
    /// Time of the last row, where it is known.
    last: Option<DateTime<Utc>>,
}

/// Streams the report against the local charges.
pub(super) async fn difference(
    report: &Arc<Report>,
    local: &mut LocalSide,
    keying: Keying,
    rows_expected: u64,
    progress: &ProgressBar,
) -> Result<Streamed, ReconcileError> {
    let (provider_sender, provider_receiver) = channel(BATCHES_MAX);
    let (local_sender, local_receiver) = channel(BATCHES_MAX);
    let (reading, bar) = (Arc::clone(report), progress.clone());
    let provider = spawn_blocking(move || {
        let mut outgoing = Outgoing::new(provider_sender);
        let side = read_report(&reading, keying, |row, at| outgoing.push(row, at, Some(&bar)))?;
        // Nobody listening any more means that the other side has failed; its error is the one to tell.
        let _ = outgoing.flush();
        Ok::<_, ReconcileError>(side)
    });
    let consumer = spawn_blocking(move || consume(provider_receiver, local_receiver, rows_expected));
    let local = read_local(local, keying, local_sender).await;
    // A producer that failed has closed its channel, so the others end by themselves. The report's own error
    // comes first: it says what is wrong with the input.
    let leftover = joined(consumer.await)?;
    let report = joined(provider.await)??;
    let (local, local_keyless) = local?;
    Ok(Streamed { keyless: report.keyless + local_keyless, report, local, leftover })
}

/// Reads the report alone: its time must be known before charges can be asked for.
pub(super) async fn survey(report: &Arc<Report>, keying: Keying) -> Result<ReportSide, ReconcileError> {
    let reading = Arc::clone(report);
    joined(spawn_blocking(move || read_report(&reading, keying, |_, _| ControlFlow::Continue(()))).await)?
}

fn read_report(
    report: &Report,
    keying: Keying,
    mut compare: impl FnMut(Row, Option<DateTime<Utc>>) -> ControlFlow<()>,
) -> Result<ReportSide, ReconcileError> {
    let mut side = ReportSide {
        tally: ProviderTally::new(&keying.hasher, keying.match_key),
        keyless: 0,
        refused: Vec::new(),
        refused_total: 0,
        ignored_total: 0,
    };
    report.read(&mut |item| {
        match item {
            Item::Entry { file, entry } => match side.tally.entry(file, &entry) {
                Route::Compare(row) => return compare(row, entry.time_utc),
                Route::Keyless => side.keyless += 1,
                Route::Counted => {}
            },
            Item::Ignored(..) => side.ignored_total += 1,
            Item::Refused(row) => {
                side.refused_total += 1;
                if side.refused.len() < WRITTEN_MAX {
                    side.refused.push(row);
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(side)
}

async fn read_local(
    local: &mut LocalSide,
    keying: Keying,
    sender: Sender<Batch>,
) -> Result<(LocalTally, u64), ReconcileError> {
    let mut tally = LocalTally::new(&keying.hasher, keying.match_key);
    let mut keyless = 0;
    match local {
        LocalSide::File(file) => {
            let file = Arc::clone(file);
            joined(
                spawn_blocking(move || {
                    let mut outgoing = Outgoing::new(sender);
                    file.read(&mut |charge| match tally.charge(&charge) {
                        Route::Compare(row) => outgoing.push(row, Some(charge.created_at), None),
                        Route::Keyless | Route::Counted => {
                            keyless += 1;
                            ControlFlow::Continue(())
                        }
                    })
                    .map_err(ReconcileError::Local)?;
                    let _ = outgoing.flush();
                    Ok((tally, keyless))
                })
                .await,
            )?
        }
        LocalSide::Database(reader, read) => {
            let mut stream = reader.copy_out(read.from..read.to).await?;
            loop {
                let mut batch = Batch { rows: Vec::with_capacity(BATCH_ROWS), last: None };
                let pulled = stream
                    .read(BATCH_ROWS, |charge: Charge<'_>| {
                        batch.last = Some(charge.created_at);
                        match tally.charge(&charge) {
                            Route::Compare(row) => batch.rows.push(row),
                            Route::Keyless | Route::Counted => keyless += 1,
                        }
                    })
                    .await?;
                if pulled == 0 || sender.send(batch).await.is_err() {
                    return Ok((tally, keyless));
                }
            }
        }
    }
}

/// Fills batches and sends them from a blocking thread.
struct Outgoing {
    sender: Sender<Batch>,
    batch: Batch,
}

impl Outgoing {
    fn new(sender: Sender<Batch>) -> Self {
        Self { sender, batch: Batch { rows: Vec::with_capacity(BATCH_ROWS), last: None } }
    }

    /// Breaks when nobody listens any more: the other side has failed.
    fn push(&mut self, row: Row, at: Option<DateTime<Utc>>, progress: Option<&ProgressBar>) -> ControlFlow<()> {
        self.batch.rows.push(row);
        self.batch.last = at.or(self.batch.last);
        if self.batch.rows.len() < BATCH_ROWS {
            return ControlFlow::Continue(());
        }
        if let Some(bar) = progress {
            bar.inc(BATCH_ROWS as u64);
        }
        self.flush()
    }

    fn flush(&mut self) -> ControlFlow<()> {
        let full = std::mem::replace(&mut self.batch, Batch { rows: Vec::with_capacity(BATCH_ROWS), last: None });
        match self.sender.blocking_send(full) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// One side of the consumer.
struct Inlet {
    side: Side,
    receiver: Receiver<Batch>,
    is_open: bool,
    rows: u64,
    last: Option<DateTime<Utc>>,
    /// Whether rows have come in order of time so far.
    in_order: bool,
}

impl Inlet {
    fn new(side: Side, receiver: Receiver<Batch>) -> Self {
        Self { side, receiver, is_open: true, rows: 0, last: None, in_order: true }
    }

    fn note(&mut self, batch: &Batch) {
        self.rows += batch.rows.len() as u64;
        self.in_order &= batch.last.is_some() && self.last <= batch.last;
        self.last = batch.last;
    }
}

fn consume(provider: Receiver<Batch>, local: Receiver<Batch>, rows_expected: u64) -> Leftover {
    let mut difference = Difference::new(rows_expected);
    let mut inlets = [Inlet::new(Side::Local, local), Inlet::new(Side::Provider, provider)];
    while inlets[0].is_open || inlets[1].is_open {
        let inlet = &mut inlets[lagging(&inlets[0], &inlets[1])];
        match inlet.receiver.blocking_recv() {
            Some(batch) => {
                inlet.note(&batch);
                for row in batch.rows {
                    difference.add(inlet.side, row);
                }
            }
            None => inlet.is_open = false,
        }
    }
    difference.finish()
}

/// Index of the side to take from: by time while both come in order of time, else by the number of rows.
fn lagging(a: &Inlet, b: &Inlet) -> usize {
    let b_lags = if a.in_order && b.in_order && a.rows > 0 && b.rows > 0 { b.last < a.last } else { b.rows < a.rows };
    match (a.is_open, b.is_open) {
        (true, true) => usize::from(b_lags),
        (true, false) => 0,
        (false, _) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inlet(rows: u64, last: Option<&str>, in_order: bool) -> Inlet {
        let (_, receiver) = channel(1);
        Inlet { rows, last: last.map(|t| t.parse().unwrap()), in_order, ..Inlet::new(Side::Local, receiver) }
    }

    #[test]
    fn the_side_that_lags_in_time_comes_first_and_in_rows_when_time_tells_nothing() {
        let early = || inlet(900, Some("2026-05-01T10:00:00Z"), true);
        let late = || inlet(100, Some("2026-05-01T11:00:00Z"), true);
        assert_eq!(lagging(&early(), &late()), 0);
        assert_eq!(lagging(&late(), &early()), 1);
        let shuffled = || inlet(500, Some("2026-05-01T23:00:00Z"), false);
        assert_eq!(lagging(&early(), &shuffled()), 1, "500 rows lag behind 900");
        assert_eq!(lagging(&late(), &shuffled()), 0, "100 rows lag behind 500");
        let closed = || Inlet { is_open: false, ..early() };
        assert_eq!(lagging(&closed(), &late()), 1);
        assert_eq!(lagging(&late(), &closed()), 0);
    }
}
