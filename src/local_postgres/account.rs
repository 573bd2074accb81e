//! Whom the server runs as. PostgreSQL refuses root, so root hands it to an unprivileged account.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Uid, User, geteuid};

use super::LocalPostgresError;

/// Tried in this order when root starts a new folder.
const NAMES: [&str; 2] = ["postgres", "nobody"];

/// The account that root runs the server as. For anybody else there is none: the server runs as we do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// For a folder without data: `None` unless we are root.
    pub(super) fn for_new_folder() -> Result<Option<Self>, LocalPostgresError> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        for name in NAMES {
            let found =
                User::from_name(name).map_err(LocalPostgresError::errno("look up the user", Path::new(name)))?;
            if let Some(user) = found.filter(|user| !user.uid.is_root()) {
                return Ok(Some(Self { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() }));
            }
        }
        Err(LocalPostgresError::NoAccount)
    }

    /// For a folder with data: their owner, who need not be the one that we would choose today.
    pub(super) fn owner_of(data: &Metadata) -> Result<Option<Self>, LocalPostgresError> {
        if !geteuid().is_root() || data.uid() == 0 {
            return Self::for_new_folder();
        }
        let uid = data.uid();
        let found = User::from_uid(Uid::from_raw(uid))
            .map_err(LocalPostgresError::errno("look up the user", Path::new(&uid.to_string())))?;
        let name = found.map_or_else(|| uid.to_string(), |user| user.name);
        Ok(Some(Self { name, uid, gid: data.gid() }))
    }

    /// Makes the command run as this account, without any of root's groups.
    pub(super) fn apply(account: Option<&Self>, command: &mut Command) {
        if let Some(account) = account {
            // The standard library drops the supplementary groups when root sets a user id.
            command.uid(account.uid).gid(account.gid);
        }
    }

    /// The first folder above `dir` that this account cannot enter.
    pub(super) fn closed_ancestor(&self, dir: &Path) -> Result<Option<PathBuf>, LocalPostgresError> {
        let mut ancestors: Vec<&Path> = dir.ancestors().skip(1).collect();
        ancestors.reverse();
        for ancestor in ancestors {
            let metadata = std::fs::metadata(ancestor).map_err(LocalPostgresError::io("look at", ancestor))?;
            if !self.may_enter((metadata.uid(), metadata.gid()), metadata.mode()) {
                return Ok(Some(ancestor.to_owned()));
            }
        }
        Ok(None)
    }

    /// `owner` is the user and the group of a folder with this mode.
    fn may_enter(&self, owner: (u32, u32), mode: u32) -> bool {
        let bit = if owner.0 == self.uid {
            0o100
        } else if owner.1 == self.gid {
            0o010
        } else {
            0o001
        };
        mode & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn the_first_class_that_fits_decides_whether_an_account_may_enter() {
        let account = Account { name: "postgres".to_owned(), uid: 101, gid: 104 };
        let rows = [
            ("root's home", 0, 0, 0o40_700, false),
            ("world", 0, 0, 0o40_755, true),
            ("sticky temp", 0, 0, 0o41_777, true),
            ("own", 101, 0, 0o40_700, true),
            ("own but closed to the owner", 101, 0, 0o40_077, false),
            ("own group", 0, 104, 0o40_710, true),
            ("own group but closed to the group", 0, 104, 0o40_701, false),
        ];
        for (name, uid, gid, mode, expected) in rows {
            assert_eq!(account.may_enter((uid, gid), mode), expected, "{name}");
        }
    }
}
