//! What makes two calls the same run: the bytes, and everything that decides how they are read and compared.

use std::fs::File;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::config::{Reading, WindowEdge};
use crate::domain::run::{ReportFile, RunHead};
use crate::formats::{Report, ReportError};

use super::{Ctx, ReconcileError, Request};

/// Identity of a report that could be opened: the decompressed bytes of its files, provider, account, window and
/// reading options, and of the local side where that is a file. The order of the files counts, names and folders do
/// not.
pub(super) fn of_report(report: &Report, request: &Request, reading: &Reading, local: &str) -> String {
    let mut parts = vec![
        "reconcile/1".to_owned(),
        report.provider().to_owned(),
        request.account.clone(),
        report.format().name().to_owned(),
        edge(request.from),
        edge(request.to),
        format!("{reading:?}"),
        local.to_owned(),
    ];
    parts.extend(report.files().iter().map(|file| file.sha256.clone()));
    hashed(&parts)
}

/// Hash of the local side, where that is a file.
pub(super) fn of_local(path: &Path) -> Result<String, ReconcileError> {
    raw_file(path)
        .map(|file| file.sha256)
        .map_err(|source| ReconcileError::Local(ReportError::Unreadable { name: path.display().to_string(), source }))
}

/// A second comparison of the same report (`--rerun`) is a run of its own.
pub(super) fn of_rerun(head: &RunHead) -> String {
    hashed(&["rerun/1".to_owned(), head.identity.clone(), head.id.clone()])
}

/// What can be said of a report that could not even be opened. Nothing is recorded for standard input (the bytes are
/// gone) nor for files that cannot be read again.
pub(super) fn head_of_refused(ctx: &Ctx<'_>, request: &Request) -> Option<RunHead> {
    let files: Vec<ReportFile> = request.files.iter().map(|path| raw_file(path).ok()).collect::<Option<_>>()?;
    let provider = request.provider.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut parts =
        vec!["refused/1".to_owned(), provider.clone(), request.account.clone(), format!("{:?}", request.reading)];
    parts.extend(files.iter().map(|file| file.sha256.clone()));
    Some(RunHead {
        id: Uuid::now_v7().to_string(),
        provider,
        account: request.account.clone(),
        format: String::new(),
        identity: hashed(&parts),
        files,
        window_from: None,
        window_to: None,
        started_at: ctx.now,
        duration_ms: 0,
        grace_hours: 0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        not_compared: Vec::new(),
    })
}

/// The file as it lies on disk, still compressed if it is.
fn raw_file(path: &Path) -> io::Result<ReportFile> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let bytes = io::copy(&mut file, &mut hash)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(ReportFile { name, bytes, sha256: hex(&hash.finalize()) })
}

fn edge(edge: Option<WindowEdge>) -> String {
    edge.map(|edge| format!("{edge:?}")).unwrap_or_default()
}

/// SHA-256 over length-prefixed parts, so that no two lists of parts run into each other.
fn hashed(parts: &[String]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        use std::fmt::Write;
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}
