//! Folders of private servers: claimed by a lock on their marker, never touched without one, swept when abandoned.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use sha2::{Digest as _, Sha256};

use super::account::Account;
use super::{LocalPostgresError, server, stale};

/// Marks a folder as ours; whoever runs a server there holds a lock on it.
const MARKER: &str = "idem-postgres.lock";
const MARKER_TEXT: &[u8] =
    b"A private PostgreSQL of idem-jobs. The whole folder may be deleted while no idem-jobs uses it.\n";
/// How the names of temporary folders begin.
const TEMPORARY_PREFIX: &str = "idem-postgres-";
/// Where sockets go whose own folder has too long a path.
const SHORT_DIR: &str = "/tmp";
/// Bytes of a socket's path. The kernels allow 104 (macOS) and 108 (Linux) with the closing zero; some tools less.
const SOCKET_PATH_BYTES_MAX: usize = 80;
/// A process that was just killed may still hold its lock for a moment, and so may a child between fork and exec.
const LOCK_WAIT: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(10);
/// Fresh temporary folders that a sweep may take from us before we hold their lock.
const CLAIM_ATTEMPTS_MAX: u32 = 8;
/// Entries of the temporary folder that one sweep looks at.
const SWEEP_ENTRIES_MAX: usize = 100_000;

/// A folder that we hold the lock of.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    temporary: bool,
    /// Closing it frees the lock.
    _lock: File,
}

impl Folder {
    /// Claims a folder that the user named.
    pub(super) fn claim(dir: &Path) -> Result<Self, LocalPostgresError> {
        fs::create_dir_all(dir).map_err(LocalPostgresError::io("make the folder", dir))?;
        let path = fs::canonicalize(dir).map_err(LocalPostgresError::io("find the folder", dir))?;
        let mut entries = fs::read_dir(&path).map_err(LocalPostgresError::io("list the folder", &path))?;
        if entries.next().is_some() && !path.join(MARKER).exists() {
            return Err(LocalPostgresError::NotOurs { dir: path });
        }
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match lock(&path).map_err(LocalPostgresError::io("lock the folder", &path))? {
                Some(lock) => return Ok(Self { path, temporary: false, _lock: lock }),
                None if Instant::now() < deadline => thread::sleep(POLL),
                None => return Err(LocalPostgresError::InUse { dir: path }),
            }
        }
    }

    /// Makes and claims a fresh folder in `temp_dir`.
    pub(super) fn claim_temporary(temp_dir: &Path) -> Result<Self, LocalPostgresError> {
        let real = fs::canonicalize(temp_dir).map_err(LocalPostgresError::io("find the folder", temp_dir))?;
        for _ in 0..CLAIM_ATTEMPTS_MAX {
            let path = tempfile::Builder::new()
                .prefix(TEMPORARY_PREFIX)
                .tempdir_in(&real)
                .map_err(LocalPostgresError::io("make a temporary folder in", &real))?
                .keep();
            match lock(&path) {
                Ok(Some(lock)) => return Ok(Self { path, temporary: true, _lock: lock }),
                // A sweep of another run was faster: it may take what nobody holds yet.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(LocalPostgresError::io("lock the folder", &path)(error)),
            }
        }
        Err(LocalPostgresError::InUse { dir: real })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The data folder. It exists only when `initdb` has completed it.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Whether the folder goes when its server stops.
    pub(super) const fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Where the server puts its socket: the folder itself, unless its path is too long for one.
    pub(super) fn socket_dir(&self) -> PathBuf {
        socket_dir(&self.path)
    }

    /// The major version that made the data; `None` when there are none yet.
    pub(super) fn data_major(&self) -> Result<Option<u32>, LocalPostgresError> {
        let path = self.data().join("PG_VERSION");
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map(Some).map_err(|_| {
                let source = io::Error::new(io::ErrorKind::InvalidData, "it does not hold a major version");
                LocalPostgresError::Io { doing: "read", path, source }
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LocalPostgresError::io("read", &path)(error)),
        }
    }

    /// Whom the server runs as when it is not us.
    pub(super) fn account(&self) -> Result<Option<Account>, LocalPostgresError> {
        let data = self.data();
        match fs::metadata(&data) {
            Ok(metadata) => Account::owner_of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Account::for_new_folder(),
            Err(error) => Err(LocalPostgresError::io("look at", &data)(error)),
        }
    }

    /// Closes the folder to everybody but the server's account, and makes the socket's folder.
    pub(super) fn hand_over_to(&self, account: Option<&Account>) -> Result<(), LocalPostgresError> {
        if let Some(account) = account
            && let Some(closed) = account.closed_ancestor(&self.path)?
        {
            return Err(LocalPostgresError::Unreachable { dir: self.path.clone(), closed, user: account.name.clone() });
        }
        give(&self.path, account)?;
        let socket_dir = self.socket_dir();
        if socket_dir != self.path {
            make_short_dir(&socket_dir, account)?;
        }
        Ok(())
    }

    /// Ends the claim after the server has stopped: a temporary folder goes, another stays with its data.
    pub(super) fn leave(&self) -> Result<(), LocalPostgresError> {
        let socket_dir = self.socket_dir();
        if self.temporary {
            remove(&self.path).map_err(LocalPostgresError::io("remove", &self.path))?;
        }
        if socket_dir != self.path {
            remove(&socket_dir).map_err(LocalPostgresError::io("remove", &socket_dir))?;
        }
        Ok(())
    }

    /// As [`Self::leave`], where another error is already on its way to the caller.
    pub(super) fn leave_or_warn(&self) {
        if let Err(error) = self.leave() {
            tracing::warn!(%error, "a folder of the private PostgreSQL stays behind");
        }
    }
}

/// Removes the temporary folders of runs that are gone, after stopping a server that still works there.
///
/// What cannot be removed is logged and left to a later run: it must not keep this one from starting.
pub(super) fn sweep(temp_dir: &Path, account: Option<&Account>) {
    let entries = match fs::canonicalize(temp_dir).and_then(fs::read_dir) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(%error, dir = %temp_dir.display(), "old folders of the private PostgreSQL were not swept");
            return;
        }
    };
    for entry in entries.take(SWEEP_ENTRIES_MAX).flatten() {
        if !entry.file_name().as_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) {
            continue;
        }
        if let Err(error) = sweep_one(&entry.path(), account) {
            tracing::warn!(%error, dir = %entry.path().display(), "an old folder of the private PostgreSQL was not removed");
        }
    }
}

fn sweep_one(path: &Path, account: Option<&Account>) -> Result<(), LocalPostgresError> {
    let wrap = || LocalPostgresError::io("sweep", path);
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(wrap()(error)),
    };
    let ours = metadata.uid() == geteuid().as_raw() || account.is_some_and(|account| account.uid == metadata.uid());
    if !metadata.is_dir() || !ours {
        return Ok(());
    }
    if !path.join(MARKER).exists() {
        // Killed between making the folder and marking it; removing works only while it is empty.
        return match fs::remove_dir(path) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                Err(wrap()(error))
            }
            _ => Ok(()),
        };
    }
    let lock = match lock(path) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(wrap()(error)),
    };
    stale::stop(path, &path.join("data"))?;
    remove(path).map_err(wrap())?;
    let socket_dir = socket_dir(path);
    if socket_dir != path {
        remove(&socket_dir).map_err(wrap())?;
    }
    drop(lock);
    Ok(())
}

/// Takes the lock of a folder, marking it as ours; `None` when another process holds it.
///
/// `NotFound` when the folder or the marker went away meanwhile: then the lock would protect nothing.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let path = dir.join(MARKER);
    let mut marker = open_own(&path)?;
    match marker.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let held = marker.metadata()?;
    let there = fs::symlink_metadata(&path)?;
    if (held.dev(), held.ino()) != (there.dev(), there.ino()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    if held.len() == 0 {
        marker.write_all(MARKER_TEXT)?;
    }
    Ok(Some(marker))
}

/// Opens a file of ours for writing, made when missing. The server's account could have put a link in its place to make
/// root write elsewhere, so links are not followed.
pub(super) fn open_own(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
}

fn give(dir: &Path, account: Option<&Account>) -> Result<(), LocalPostgresError> {
    fs::set_permissions(dir, Permissions::from_mode(0o700))
        .map_err(LocalPostgresError::io("close to other users the folder", dir))?;
    if let Some(account) = account {
        chown(dir, Some(account.uid), Some(account.gid))
            .map_err(LocalPostgresError::io("hand over the folder", dir))?;
    }
    Ok(())
}

fn socket_dir(dir: &Path) -> PathBuf {
    let socket = dir.join(server::SOCKET);
    if socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return dir.to_owned();
    }
    short_dir(dir)
}

/// A short path that belongs to `dir` alone, and that the next run in `dir` finds again.
fn short_dir(dir: &Path) -> PathBuf {
    let digest: [u8; 32] = Sha256::digest(dir.as_os_str().as_bytes()).into();
    let half = u128::from_be_bytes(*digest.first_chunk().expect("16 bytes are within 32"));
    Path::new(SHORT_DIR).join(format!("idem-pg-{half:032x}"))
}

/// Everybody may write to the folder above, so what stands there already must be a real folder of ours.
fn make_short_dir(path: &Path, account: Option<&Account>) -> Result<(), LocalPostgresError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let metadata = fs::symlink_metadata(path).map_err(LocalPostgresError::io("look at", path))?;
            let owner = metadata.uid();
            let ours = owner == geteuid().as_raw() || account.is_some_and(|account| account.uid == owner);
            if !metadata.is_dir() || !ours {
                return Err(LocalPostgresError::NotOurs { dir: path.to_owned() });
            }
        }
        Err(error) => return Err(LocalPostgresError::io("make the socket's folder", path)(error)),
    }
    give(path, account)
}

/// Removes a folder that may be half gone already: the watchdog of a killed run removes it too.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match fs::remove_dir_all(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !dir.exists() => return Ok(()),
            // A process that is just ending still writes there, or somebody else removes beside us.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty)
                    && Instant::now() < deadline =>
            {
                thread::sleep(POLL);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{SOCKET_PATH_BYTES_MAX, server, short_dir, socket_dir};

    #[test]
    fn a_socket_stands_in_its_folder_until_the_path_would_be_too_long() {
        let longest = SOCKET_PATH_BYTES_MAX - server::SOCKET.len() - 1;
        let fits = PathBuf::from(format!("/{}", "d".repeat(longest - 1)));
        let too_long = PathBuf::from(format!("/{}", "d".repeat(longest)));

        assert_eq!(socket_dir(&fits), fits);
        assert_eq!(socket_dir(&too_long), short_dir(&too_long));
        assert!(short_dir(&too_long).join(server::SOCKET).as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        assert_ne!(short_dir(&too_long), short_dir(Path::new("/other")));
    }
}
