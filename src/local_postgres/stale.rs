//! Ends what an earlier run left working in a folder, and nothing else. Every caller holds the folder's lock.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::LocalPostgresError;
use super::server::{PID_FILE, SOCKET};

const STOP_LIMIT: Duration = Duration::from_secs(10);
const KILL_LIMIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// Stops the server that works in `data` although nobody holds the lock of `dir` any more, and clears what dead ones
/// left.
pub(super) fn stop(dir: &Path, data: &Path) -> Result<(), LocalPostgresError> {
    let pid_file = data.join(PID_FILE);
    let text = read_if_there(&pid_file).map_err(LocalPostgresError::io("read", &pid_file))?;
    let pid = text.as_deref().and_then(|text| text.lines().next()?.trim().parse::<i32>().ok());
    // 0 and negative numbers would mean groups of processes to kill().
    if let Some(pid) = pid.filter(|pid| *pid > 1 && is_server_of(*pid, data)) {
        tracing::warn!(pid, dir = %dir.display(), "stopping the PostgreSQL server that an earlier run left behind");
        stop_server(pid, dir, data)?;
    }
    end_orphans(dir)?;
    // A dead server's files name a process that may be somebody else by now, which would keep ours from starting. The
    // interlock against its last backends is the shared memory segment, not these files.
    let lock = format!("{SOCKET}.lock");
    for leftover in [pid_file, dir.join(SOCKET), dir.join(lock)] {
        match fs::remove_file(&leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LocalPostgresError::io("remove", &leftover)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn stop_server(pid: i32, dir: &Path, data: &Path) -> Result<(), LocalPostgresError> {
    for signal in [Signal::SIGINT, Signal::SIGQUIT] {
        send(pid, signal, dir)?;
        let deadline = Instant::now() + STOP_LIMIT;
        while is_server_of(pid, data) && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        if !is_server_of(pid, data) {
            return Ok(());
        }
    }
    Err(LocalPostgresError::StillRunning { pid, dir: dir.to_owned() })
}

/// Ends backends whose server is dead, and an initdb that nobody waits for. Backends should notice by themselves, but in PostgreSQL 14 the autovacuum launcher
/// can miss it for a minute, and as long as one lives no server starts. The next start recovers as after any crash.
///
/// Only where /proc shows who works where; elsewhere the next start waits for them.
fn end_orphans(dir: &Path) -> Result<(), LocalPostgresError> {
    let deadline = Instant::now() + KILL_LIMIT;
    loop {
        let orphans = working_below(dir);
        if orphans.is_empty() || Instant::now() >= deadline {
            return Ok(());
        }
        for pid in orphans {
            send(pid, Signal::SIGKILL, dir)?;
        }
        thread::sleep(POLL);
    }
}

fn working_below(dir: &Path) -> Vec<i32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.filter(|pid| works(*pid, &["postgres", "initdb"], |folder| folder.starts_with(dir))).collect()
}

fn send(pid: i32, signal: Signal, dir: &Path) -> Result<(), LocalPostgresError> {
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(LocalPostgresError::errno("stop what an earlier run left in", dir)(errno)),
    }
}

/// Whether the process is a PostgreSQL server of this data folder; numbers of processes are used again.
fn is_server_of(pid: i32, data: &Path) -> bool {
    if Path::new("/proc/self").exists() {
        return works(pid, &["postgres"], |folder| folder == data);
    }
    let output = Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| {
        let command = String::from_utf8_lossy(&output.stdout);
        command.contains("postgres") && command.contains(&*data.to_string_lossy())
    })
}

/// Whether the process has one of these names and works in such a folder: a server and its backends work inside their
/// data folder. A dead process that nobody has reaped has no folder any more, and another user's cannot be seen.
fn works(pid: i32, names: &[&str], in_folder: impl Fn(&Path) -> bool) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    fs::read_link(process.join("cwd")).is_ok_and(|cwd| in_folder(&cwd))
        && fs::read_to_string(process.join("comm")).is_ok_and(|name| names.contains(&name.trim()))
}

pub(super) fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        // A pid file names the data folder, whose path need not be UTF-8.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
