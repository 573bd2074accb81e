//! The files of a run on disk: each appears whole or not at all, readable by its owner only.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::domain::document::Document;
use crate::domain::run::RunHead;

/// Files that could not be written; the run itself is not harmed.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct FilesError {
    path: PathBuf,
    source: io::Error,
}

/// Where a run's files go: `<reports>/<provider>/<day>/<run>`, the account being part of the provider's folder.
pub(super) fn folder(reports: &Path, head: &RunHead) -> PathBuf {
    let provider =
        if head.account.is_empty() { head.provider.clone() } else { format!("{}-{}", head.provider, head.account) };
    let day = head.window_from.unwrap_or(head.started_at).format("%Y-%m-%d").to_string();
    reports.join(plain(&provider)).join(day).join(plain(&head.id))
}

/// A name that is one path component whatever it was made from.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' }).collect()
}

/// Proves that reports can be written before anything else is done, so that a wrong folder costs nothing.
pub(super) fn probe(reports: &Path) -> Result<(), FilesError> {
    let failed = |source| FilesError { path: reports.to_owned(), source };
    create_folder(reports).map_err(failed)?;
    let mut file = tempfile::Builder::new().prefix(".probe-").tempfile_in(reports).map_err(failed)?;
    file.write_all(b"idem-jobs").and_then(|()| file.flush()).map_err(failed)
}

/// Writes those of `documents` that are not there yet. Returns how many were written.
pub(super) fn write_missing(folder: &Path, documents: &[Document]) -> Result<usize, FilesError> {
    create_folder(folder).map_err(|source| FilesError { path: folder.to_owned(), source })?;
    let mut written = 0;
    for document in documents {
        let path = folder.join(document.name);
        if path.exists() {
            continue;
        }
        write_whole(folder, &path, &document.bytes).map_err(|source| FilesError { path, source })?;
        written += 1;
    }
    Ok(written)
}

/// A temporary neighbour, filled and synced, then renamed: a reader sees all of it or nothing.
fn write_whole(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        tempfile::Builder::new().prefix(".part-").permissions(fs::Permissions::from_mode(0o600)).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()
}

/// Folders of ours are for the owner alone; folders that are there keep their mode.
fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_once_for_the_owner_alone_and_leave_no_parts() {
        let reports = tempfile::tempdir().unwrap();
        let folder = reports.path().join("stripe/2026-05-01/run");
        let documents =
            |text: &str| [Document { name: "report.txt", media_type: "text/plain", bytes: text.as_bytes().to_vec() }];
        assert_eq!(write_missing(&folder, &documents("first")).unwrap(), 1);
        assert_eq!(write_missing(&folder, &documents("second")).unwrap(), 0, "a file that is there stays");
        assert_eq!(fs::read_to_string(folder.join("report.txt")).unwrap(), "first");
        assert_eq!(fs::metadata(folder.join("report.txt")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn a_name_cannot_leave_its_folder() {
        assert_eq!(plain("../../etc/passwd"), "______etc_passwd");
    }
}
