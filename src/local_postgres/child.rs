//! Starts a process that cannot outlive us, even when we are killed by SIGKILL at any instruction.
//!
//! Two helpers make that so. The *gate* is a shell that waits for a line from us before it becomes the program, so that
//! the program never runs without a watchdog. The *watchdog* is a shell that waits for the end of a pipe of which only
//! we hold the other end (it is close-on-exec), and then signals the program. Both, and the program, are in process
//! groups of their own: Ctrl-C reaches us first. A kernel's parent-death signal would not do: it follows the thread
//! that started the child, and macOS has none.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::LocalPostgresError;
use super::account::Account;

const SHELL: &str = "/bin/sh";
/// The end of the pipe instead of a line: we were killed, so there is nothing to start.
const GATE: &str = r#"read -r _ || exit 125; exec "$@" </dev/null"#;
/// Arguments: signal and target; a stronger signal and its target (negative: a process group), and after how many steps of
/// 0.05 s it goes to what has not ended; the pid file that PostgreSQL removes when it has ended in order; and the folders
/// to remove afterwards. A line from the pipe means "not needed any more", its end means that we are gone.
///
/// The pid file tells the end because a process may stay visible, dead, where nobody reaps orphans. After 2 s waiting ends.
const WATCHDOG: &str = r#"
trap '' HUP INT TERM
if read -r _; then exit 0; fi
signal=$1 target=$2 stronger=$3 last=$4 patience=$5 pid_file=$6 steps=0
shift 6
kill -s "$signal" -- "$target" 2>/dev/null
while [ -e "$pid_file" ] && [ "$steps" -lt 40 ] && kill -s 0 -- "$last" 2>/dev/null; do
    steps=$((steps + 1))
    if [ "$steps" -eq "$patience" ]; then
        [ "$stronger" != KILL ] || break
        kill -s "$stronger" -- "$last" 2>/dev/null
    fi
    sleep 0.05
done
[ "$stronger" != KILL ] || kill -s KILL -- "$last" 2>/dev/null
[ "$#" -eq 0 ] || rm -rf -- "$@" 2>/dev/null || { sleep 0.1; rm -rf -- "$@"; }
"#;
const POLL: Duration = Duration::from_millis(5);

/// What to start.
pub(super) struct Launch<'a> {
    /// Program and arguments.
    pub(super) program: PathBuf,
    pub(super) args: Vec<std::ffi::OsString>,
    pub(super) account: Option<&'a Account>,
    /// The folder that it starts in.
    pub(super) dir: &'a Path,
    /// Takes both output streams.
    pub(super) log: File,
    /// How the watchdog ends it.
    pub(super) end: End,
    /// Where PostgreSQL says that it works in the data folder.
    pub(super) pid_file: PathBuf,
    /// What the watchdog removes when we are gone.
    pub(super) remove: Vec<PathBuf>,
}

/// How a watchdog ends its process.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// For initdb: SIGKILL to it alone, since the backend that it feeds ends in order at the end of its input; killed as
    /// well, that backend would leave a shared memory segment behind, of which macOS has only 32. Then to its group.
    Starve,
    /// For a server: SIGINT, PostgreSQL's fast shutdown, which waits for backends; then SIGQUIT, which does not.
    FastShutdown,
}

/// A running child and its watchdog. Dropping it ends both, as our death does.
#[derive(Debug)]
pub(super) struct Guarded {
    child: Child,
    watchdog: Child,
    /// The pipe to the watchdog.
    lifeline: ChildStdin,
}

impl Guarded {
    pub(super) fn launch(launch: Launch<'_>) -> Result<Self, LocalPostgresError> {
        let program = launch.program.clone();
        let wrap = || LocalPostgresError::io("start", &program);
        let second_stream = launch.log.try_clone().map_err(wrap())?;
        let mut gate = shell(GATE, launch.account, launch.dir);
        gate.arg(&launch.program).args(&launch.args).stdout(launch.log).stderr(second_stream);
        let mut child = gate.spawn().map_err(wrap())?;

        let pid = child.id();
        let [target, group] = [pid.to_string(), format!("-{pid}")];
        let end = match launch.end {
            End::Starve => ["KILL", &target, "KILL", &group, "6"],
            End::FastShutdown => ["INT", &target, "QUIT", &target, "10"],
        };
        let mut guard = shell(WATCHDOG, launch.account, Path::new("/"));
        guard.args(end).arg(&launch.pid_file).args(&launch.remove).stdout(Stdio::null()).stderr(Stdio::null());
        let mut watchdog = match guard.spawn() {
            Ok(watchdog) => watchdog,
            Err(error) => {
                // Closes the gate's pipe first, which ends it.
                child.wait().map_err(wrap())?;
                return Err(wrap()(error));
            }
        };
        let lifeline = watchdog.stdin.take().expect("the watchdog was given a pipe");
        let mut guarded = Self { child, watchdog, lifeline };
        let opened = guarded.child.stdin.take().expect("the gate was given a pipe").write_all(b"go\n");
        match opened {
            Ok(()) => Ok(guarded),
            Err(error) => {
                guarded.wait().map_err(wrap())?;
                Err(wrap()(error))
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the child ended, if it has.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for at most `limit`; `None` when the child still runs then.
    pub(super) fn wait_for(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }

    /// Signals the child, or with `whole_group` all of its group. It cannot hit a stranger: the child is not reaped yet.
    pub(super) fn signal(&mut self, signal: Signal, whole_group: bool) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let pid = pid_of(self.child.id());
        let target = if whole_group { Pid::from_raw(-pid.as_raw()) } else { pid };
        kill(target, signal).map_err(io::Error::from)
    }

    /// Waits for the end of the child, however long it takes, and dismisses the watchdog.
    pub(super) fn wait(mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        match self.lifeline.write_all(b"done\n") {
            Ok(()) => {}
            // Somebody ended the watchdog, so there is nobody left to dismiss.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
        drop(self.lifeline);
        self.watchdog.wait()?;
        Ok(status)
    }
}

fn shell(script: &str, account: Option<&Account>, dir: &Path) -> Command {
    let mut command = Command::new(SHELL);
    command.args(["-c", script, "idem-postgres"]).current_dir(dir).process_group(0).stdin(Stdio::piped());
    // Messages that we look for in logs must be English, and a locale of the user must not get into the data.
    command.env("LC_ALL", "C").env_remove("LANGUAGE");
    Account::apply(account, &mut command);
    command
}

/// As the type that signals take.
pub(super) fn pid_of(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).expect("a process id is a positive i32"))
}
