//! Makes a data folder and brings its server up and down.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::account::Account;
use super::binaries::Binaries;
use super::child::{End, Guarded, Launch};
use super::folder::{self, Folder};
use super::{Durability, LocalPostgresError, SUPERUSER, stale};

/// The socket's name; the port is only a part of it, nothing listens on a network.
pub(super) const SOCKET: &str = ".s.PGSQL.5432";
pub(super) const PORT: &str = "5432";
const LOG: &str = "server.log";
pub(super) const PID_FILE: &str = "postmaster.pid";
/// Data folders in the making begin like this, so that `data` is always whole.
const UNFINISHED: &str = "data.tmp";

const INITDB_LIMIT: Duration = Duration::from_mins(3);
/// Includes the recovery after a crash.
const READY_LIMIT: Duration = Duration::from_mins(2);
/// After a crash of us and of the server its last processes may hold the data for a moment.
const RETRY_LIMIT: Duration = Duration::from_secs(10);
/// A fast shutdown writes everything down first, on a slow disk too.
const FAST_STOP_LIMIT: Duration = Duration::from_mins(1);
const IMMEDIATE_STOP_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The end of a log that goes into an error.
const LOG_TAIL_BYTES: u64 = 2_000;

/// A server that accepts connections.
#[derive(Debug)]
pub(super) struct Server(Guarded);

impl Server {
    /// Makes the data folder when there is none, ends a stale server, and starts ours.
    pub(super) fn start(
        folder: &Folder,
        binaries: &Binaries,
        account: Option<&Account>,
        durability: Durability,
    ) -> Result<Self, LocalPostgresError> {
        let data = folder.data();
        stale::stop(folder.path(), &data)?;
        remove_unfinished(folder.path())?;
        if !data.exists() {
            initialise(folder, binaries, account, durability)?;
        }
        let retry_until = Instant::now() + RETRY_LIMIT;
        loop {
            match start_once(folder, binaries, account, durability) {
                Err(LocalPostgresError::Start { log, .. })
                    if is_held_by_another(&log) && Instant::now() < retry_until =>
                {
                    thread::sleep(RETRY_PAUSE);
                    stale::stop(folder.path(), &data)?;
                }
                result => return result,
            }
        }
    }

    /// Asks for a fast shutdown, insists when it does not come, and waits for the end.
    pub(super) fn stop(self, dir: &Path) -> Result<(), LocalPostgresError> {
        let wrap = || LocalPostgresError::io("stop the server in", dir);
        let mut server = self.0;
        let ladder = [
            (Signal::SIGINT, FAST_STOP_LIMIT),
            (Signal::SIGQUIT, IMMEDIATE_STOP_LIMIT),
            (Signal::SIGKILL, Duration::ZERO),
        ];
        for (signal, limit) in ladder {
            server.signal(signal, false).map_err(wrap())?;
            if server.wait_for(limit).map_err(wrap())?.is_some() {
                break;
            }
        }
        server.wait().map_err(wrap())?;
        Ok(())
    }
}

/// Runs initdb beside the final place and renames its result, so that a crash leaves all or nothing.
fn initialise(
    folder: &Folder,
    binaries: &Binaries,
    account: Option<&Account>,
    durability: Durability,
) -> Result<(), LocalPostgresError> {
    let dir = folder.path();
    // Its own name each time: an initdb that a crash left behind must not write into ours.
    let unfinished = dir.join(format!("{UNFINISHED}.{}", process::id()));
    let mut args: Vec<OsString> = vec!["-D".into(), unfinished.clone().into()];
    let fixed = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"];
    args.extend(fixed.map(OsString::from));
    if durability == Durability::Nothing {
        args.push("--no-sync".into());
    }
    let mut initdb = Guarded::launch(Launch {
        program: binaries.initdb(),
        args,
        account,
        dir,
        log: fresh_log(dir)?,
        end: End::Starve,
        pid_file: unfinished.join(PID_FILE),
        remove: removed_with_us(folder),
    })?;
    let wrap = || LocalPostgresError::io("run initdb in", dir);
    let ended = initdb.wait_for(INITDB_LIMIT).map_err(wrap())?;
    if ended.is_none() {
        initdb.signal(Signal::SIGKILL, true).map_err(wrap())?;
    }
    let status = initdb.wait().map_err(wrap())?;
    if ended.is_none() {
        let limit_s = INITDB_LIMIT.as_secs();
        return Err(LocalPostgresError::Timeout { doing: "initdb", dir: dir.to_owned(), limit_s });
    }
    if !status.success() {
        return Err(LocalPostgresError::Init { dir: dir.to_owned(), log: log_tail(dir) });
    }
    fs::rename(&unfinished, folder.data()).map_err(LocalPostgresError::io("rename", &unfinished))?;
    if durability == Durability::Crash {
        // initdb has synced what it wrote; the new name is ours to sync.
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(LocalPostgresError::io("sync", dir))?;
    }
    Ok(())
}

fn start_once(
    folder: &Folder,
    binaries: &Binaries,
    account: Option<&Account>,
    durability: Durability,
) -> Result<Server, LocalPostgresError> {
    let dir = folder.path();
    let data = folder.data();
    let mut args: Vec<OsString> =
        vec!["-D".into(), data.clone().into(), "-k".into(), folder.socket_dir().into(), "-p".into(), PORT.into()];
    let mut set = |setting: &str| args.extend(["-c".into(), setting.into()]);
    set("listen_addresses=");
    set("unix_socket_permissions=0700");
    set("timezone=UTC");
    set("log_timezone=UTC");
    set("logging_collector=off");
    set("log_destination=stderr");
    if durability == Durability::Nothing {
        set("fsync=off");
        set("synchronous_commit=off");
        set("full_page_writes=off");
        set("shared_buffers=32MB");
    }
    let mut server = Guarded::launch(Launch {
        program: binaries.postgres(),
        args,
        account,
        dir,
        log: fresh_log(dir)?,
        end: End::FastShutdown,
        pid_file: data.join(PID_FILE),
        remove: removed_with_us(folder),
    })?;
    let wrap = || LocalPostgresError::io("wait for the server in", dir);
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        if is_ready(&data, server.pid()).map_err(wrap())? {
            return Ok(Server(server));
        }
        if server.try_wait().map_err(wrap())?.is_some() {
            server.wait().map_err(wrap())?;
            return Err(LocalPostgresError::Start { dir: dir.to_owned(), log: log_tail(dir) });
        }
        if Instant::now() >= deadline {
            Server(server).stop(dir)?;
            let (doing, limit_s) = ("the start of the server", READY_LIMIT.as_secs());
            return Err(LocalPostgresError::Timeout { doing, dir: dir.to_owned(), limit_s });
        }
        thread::sleep(POLL);
    }
}

/// Our child, and nobody else's server, accepts connections when its pid file says so: line 1 is the process,
/// line 8 its state.
fn is_ready(data: &Path, pid: u32) -> io::Result<bool> {
    let Some(text) = stale::read_if_there(&data.join(PID_FILE))? else { return Ok(false) };
    let mut lines = text.lines();
    let is_ours = lines.next().is_some_and(|line| line.trim() == pid.to_string());
    Ok(is_ours && lines.nth(6).is_some_and(|line| line.trim() == "ready"))
}

fn remove_unfinished(dir: &Path) -> Result<(), LocalPostgresError> {
    let wrap = || LocalPostgresError::io("list the folder", dir);
    for entry in fs::read_dir(dir).map_err(wrap())? {
        let path = entry.map_err(wrap())?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED)) {
            folder::remove(&path).map_err(LocalPostgresError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// The folders that the watchdog removes when we are killed.
fn removed_with_us(folder: &Folder) -> Vec<PathBuf> {
    if !folder.is_temporary() {
        return Vec::new();
    }
    let (path, socket_dir) = (folder.path().to_owned(), folder.socket_dir());
    if socket_dir == path { vec![path] } else { vec![path, socket_dir] }
}

/// What the server says when another server, or the last backends of a dead one, still has the data or the socket.
fn is_held_by_another(log: &str) -> bool {
    log.contains("pre-existing shared memory block") || (log.contains("lock file") && log.contains("already exists"))
}

fn fresh_log(dir: &Path) -> Result<File, LocalPostgresError> {
    let path = dir.join(LOG);
    let log = folder::open_own(&path).map_err(LocalPostgresError::io("open", &path))?;
    log.set_len(0).map_err(LocalPostgresError::io("empty", &path))?;
    Ok(log)
}

fn log_tail(dir: &Path) -> String {
    let path = dir.join(LOG);
    let read = || -> io::Result<String> {
        let mut file = File::open(&path)?;
        let start = file.metadata()?.len().saturating_sub(LOG_TAIL_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    match read() {
        Ok(text) if text.is_empty() => "it said nothing".to_owned(),
        Ok(text) => text,
        Err(error) => format!("its log {} cannot be read: {error}", path.display()),
    }
}
