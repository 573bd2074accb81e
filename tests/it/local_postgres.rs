//! The private server: comes up, answers, goes, and never outlives the process that started it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use idem_jobs::local_postgres::{Environment, LocalPostgres, LocalPostgresError};
use sqlx::Connection as _;
use tempfile::TempDir;

/// Makes [`holder`] start a server in the named folder; `temporary` means a temporary one, below `HOLD_TEMP_DIR`.
const HOLD: &str = "IDEM_TEST_HOLD_POSTGRES";
const HOLD_TEMP_DIR: &str = "IDEM_TEST_HOLD_TEMP_DIR";
const TEMPORARY: &str = "temporary";
const READY: &str = "the server is ready";
/// How long a server may live on after its owner was killed.
const AFTERLIFE_MAX: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "a test stands where main does and takes the environment from outside")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

fn environment(temp_dir: &Path) -> Environment {
    Environment {
        postgres_bin: variable("IDEM_POSTGRES_BIN").map(PathBuf::from),
        search_path: variable("PATH"),
        temp_dir: temp_dir.to_owned(),
    }
}

/// A folder with the rights of `/tmp`.
pub(crate) fn room() -> TempDir {
    let room = tempfile::Builder::new().prefix("idem-test-").tempdir().unwrap();
    fs::set_permissions(room.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    room
}

async fn answer(url: &str, question: &'static str) -> String {
    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    let answer = sqlx::query_scalar(question).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    answer
}

/// Processes that work in `dir` or name it on their command line, the server's helpers included.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = fs::canonicalize(dir).unwrap();
    let text = dir.to_string_lossy();
    if !Path::new("/proc/self").exists() {
        let output = Command::new("ps").args(["-axo", "pid=,command="]).output().unwrap();
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        return lines.lines().filter(|line| line.contains(&*text)).map(str::to_owned).collect();
    }
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let works_there = fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&dir));
        if works_there || command.contains(&*text) {
            found.push(format!("{}: {command}", process.file_name().to_string_lossy()));
        }
    }
    found
}

/// Asserts that `processes_of` is empty within the time that a server may live on.
pub(crate) fn assert_nothing_left(dir: &Path, story: &str) {
    let deadline = Instant::now() + AFTERLIFE_MAX;
    loop {
        let left = processes_of(dir);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{story}: still there after {AFTERLIFE_MAX:?}: {left:#?}");
        thread::yield_now();
    }
}

/// Not a test of its own: run again by the tests below as the process that holds a server and is killed.
#[test]
fn holder() {
    let Some(dir) = variable(HOLD) else { return };
    let temp_dir = variable(HOLD_TEMP_DIR).map_or_else(std::env::temp_dir, PathBuf::from);
    let env = environment(&temp_dir);
    let server = if dir == OsStr::new(TEMPORARY) {
        LocalPostgres::start_temporary(&env)
    } else {
        LocalPostgres::start(Path::new(&dir), &env)
    };
    let server = server.unwrap();
    println!("{READY}");
    // Until the test that started us closes the pipe or kills us.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    server.stop().unwrap();
}

/// A process of its own that holds a server.
struct Holder {
    process: Child,
    ready: Receiver<()>,
}

impl Holder {
    fn start(dir: &Path, temp_dir: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "local_postgres::holder", "--nocapture"])
            .env(HOLD, dir)
            .env(HOLD_TEMP_DIR, temp_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (tell, ready) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test harness may have begun the line with the test's name.
                if line.ends_with(READY) {
                    tell.send(()).ok();
                }
            }
        });
        Self { process, ready }
    }

    fn wait_until_ready(&self) {
        self.ready.recv_timeout(Duration::from_mins(2)).unwrap();
    }

    /// SIGKILL: nothing of ours runs any more in that process, not even destructors.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn a_server_starts_answers_keeps_its_data_and_stops() {
    let room = room();
    let dir = room.path().join("made by us");
    let env = environment(room.path());

    let server = LocalPostgres::start(&dir, &env).unwrap();
    assert!(server.major() >= 14);
    let url = server.create_database("with \"odd\" name/é").await.unwrap();
    assert_eq!(answer(&url, "select current_database()::text").await, "with \"odd\" name/é");
    assert_eq!(answer(&url, "select current_setting('TimeZone')").await, "UTC");
    assert_eq!(answer(&url, "select current_setting('server_encoding')").await, "UTF8");
    assert_eq!(answer(&url, "select datcollate::text from pg_database where datname = current_database()").await, "C");
    assert_eq!(answer(&url, "select current_setting('listen_addresses')").await, "");
    assert_eq!(answer(&url, "select current_setting('fsync')").await, "on");
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    assert_ne!(fs::metadata(dir.join("data")).unwrap().uid(), 0, "PostgreSQL must not run as root");
    server.stop().unwrap();
    assert_eq!(processes_of(&dir), Vec::<String>::new());

    let again = LocalPostgres::start(&dir, &env).unwrap();
    assert_eq!(answer(&url, "select current_database()::text").await, "with \"odd\" name/é");
    drop(again);
    assert_eq!(processes_of(&dir), Vec::<String>::new(), "dropping stops the server as well");
}

#[tokio::test]
async fn a_temporary_server_goes_with_its_folder_even_with_a_client_connected() {
    let room = room();
    let server = LocalPostgres::start_temporary(&environment(room.path())).unwrap();
    let url = server.url("postgres");
    assert_eq!(answer(&url, "select current_setting('fsync')").await, "off");
    let client = sqlx::PgConnection::connect(&url).await.unwrap();
    server.stop().unwrap();
    drop(client);
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0);
}

#[test]
fn a_second_run_in_the_same_folder_is_refused_while_the_first_lives() {
    let room = room();
    let dir = room.path().join("shared");
    let env = environment(room.path());
    let first = LocalPostgres::start(&dir, &env).unwrap();
    let refused = LocalPostgres::start(&dir, &env).unwrap_err();
    assert!(matches!(refused, LocalPostgresError::InUse { .. }), "{refused:?}");
    assert!(
        refused.to_string().ends_with("is in use by another run; wait until it has ended or choose another folder")
    );
    first.stop().unwrap();
    LocalPostgres::start(&dir, &env).unwrap().stop().unwrap();
}

#[test]
fn a_folder_of_somebody_else_is_refused_and_left_as_it_was() {
    let room = room();
    fs::write(room.path().join("holiday.jpg"), b"precious").unwrap();
    let refused = LocalPostgres::start(room.path(), &environment(room.path())).unwrap_err();
    assert!(matches!(refused, LocalPostgresError::NotOurs { .. }), "{refused:?}");
    let names: Vec<_> = fs::read_dir(room.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["holiday.jpg"]);
    assert_eq!(fs::metadata(room.path()).unwrap().permissions().mode() & 0o7777, 0o1777);
}

#[test]
fn a_folder_without_binaries_is_refused_by_name_and_leaves_nothing_behind() {
    let room = room();
    let mut env = environment(room.path());
    env.postgres_bin = Some(room.path().to_owned());
    let refused = LocalPostgres::start_temporary(&env).unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with("IDEM_POSTGRES_BIN="), "{text}");
    assert!(text.contains("it has no initdb"), "{text}");
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0, "a failed start leaves no folder behind");
}

#[tokio::test]
async fn a_folder_with_a_long_path_gets_its_socket_elsewhere() {
    let room = room();
    let dir = room.path().join("d".repeat(120));
    let server = LocalPostgres::start(&dir, &environment(room.path())).unwrap();
    let url = server.url("postgres");
    assert!(url.contains("host=%2Ftmp%2Fidem-pg-"), "{url}");
    assert_eq!(answer(&url, "select 'here'").await, "here");
    let socket_dir = answer(&url, "select current_setting('unix_socket_directories')").await;
    server.stop().unwrap();
    assert!(!Path::new(&socket_dir).exists());
}

#[test]
fn a_server_ends_when_its_owner_is_killed_and_its_temporary_folder_goes_too() {
    let room = room();
    let holder = Holder::start(Path::new(TEMPORARY), room.path());
    holder.wait_until_ready();
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 1);
    holder.kill();
    assert_nothing_left(room.path(), "killed when ready");
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_server_ends_when_its_owner_is_killed_while_a_backend_is_busy() {
    let room = room();
    let dir = room.path().join("busy");
    let holder = Holder::start(&dir, room.path());
    holder.wait_until_ready();
    let url = format!("postgres://postgres@localhost/postgres?host={}", dir.display());
    let mut client = sqlx::PgConnection::connect(&url).await.unwrap();
    let busy = tokio::spawn(async move { sqlx::query("select pg_sleep(600)").execute(&mut client).await });
    holder.kill();
    assert_nothing_left(&dir, "killed with a busy backend");
    assert!(busy.await.unwrap().is_err());
}

#[test]
fn killed_at_ten_random_moments_nothing_is_left_and_the_next_run_works() {
    let room = room();
    let env = environment(room.path());
    // How long a whole start takes here and now, so that the moments fall into every phase of one, initdb included.
    let began = Instant::now();
    LocalPostgres::start(&room.path().join("measured"), &env).unwrap().stop().unwrap();
    let whole = began.elapsed();

    for round in 0..10 {
        // Every other round meets the remains of the one before.
        let dir = room.path().join(format!("round-{}", round / 2));
        let moment = whole.mul_f64(rand::random_range(0.0..1.2));
        let story = format!("round {round}, killed after {moment:?} of {whole:?}");
        let holder = Holder::start(&dir, room.path());
        let early = holder.ready.recv_timeout(moment);
        assert!(!matches!(early, Err(RecvTimeoutError::Disconnected)), "{story}: the holder failed");
        holder.kill();
        if dir.exists() {
            assert_nothing_left(&dir, &story);
        }
    }
    for folder in 0..5 {
        let dir = room.path().join(format!("round-{folder}"));
        LocalPostgres::start(&dir, &env).unwrap().stop().unwrap();
    }
}

/// Ends the watchdog too, as an out-of-memory killer or a careless `kill -9` of everything would.
#[test]
fn a_server_that_outlived_owner_and_watchdog_is_stopped_by_the_next_run() {
    let room = room();
    let dir = room.path().join("orphan");
    let env = environment(room.path());
    let holder = Holder::start(&dir, room.path());
    holder.wait_until_ready();
    let pid_file = dir.join("data/postmaster.pid");
    let orphan = first_line(&pid_file);
    kill_children_named_sh(holder.process.id());
    holder.kill();
    assert_eq!(first_line(&pid_file), orphan, "the server lives on");

    let next = LocalPostgres::start(&dir, &env).unwrap();
    assert_ne!(first_line(&pid_file), orphan);
    next.stop().unwrap();
    assert_eq!(processes_of(&dir), Vec::<String>::new());
}

#[test]
fn a_temporary_folder_that_outlived_owner_and_watchdog_is_swept_by_the_next_run() {
    let room = room();
    let holder = Holder::start(Path::new(TEMPORARY), room.path());
    holder.wait_until_ready();
    kill_children_named_sh(holder.process.id());
    holder.kill();
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 1, "the folder was left behind");

    let next = LocalPostgres::start_temporary(&environment(room.path())).unwrap();
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 1, "only the new folder is there");
    next.stop().unwrap();
    assert_eq!(processes_of(room.path()), Vec::<String>::new());
}

#[test]
fn an_initdb_that_outlived_owner_and_watchdog_does_not_disturb_the_next_run() {
    let room = room();
    let dir = room.path().join("half made");
    let holder = Holder::start(&dir, room.path());
    let deadline = Instant::now() + Duration::from_mins(1);
    let is_unfinished = |name: &OsStr| name.to_string_lossy().starts_with("data.tmp");
    while !fs::read_dir(&dir).is_ok_and(|entries| entries.flatten().any(|entry| is_unfinished(&entry.file_name()))) {
        assert!(Instant::now() < deadline, "initdb never began");
        thread::yield_now();
    }
    kill_children_named_sh(holder.process.id());
    holder.kill();

    LocalPostgres::start(&dir, &environment(room.path())).unwrap().stop().unwrap();
    assert_eq!(processes_of(&dir), Vec::<String>::new());
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| is_unfinished(name)), "{names:?}");
}

#[tokio::test]
async fn a_sweep_leaves_the_folder_of_a_living_run_alone() {
    let room = room();
    let env = environment(room.path());
    let first = LocalPostgres::start_temporary(&env).unwrap();
    let second = LocalPostgres::start_temporary(&env).unwrap();
    assert_eq!(answer(&first.url("postgres"), "select 'still here'").await, "still here");
    second.stop().unwrap();
    assert_eq!(answer(&first.url("postgres"), "select 'still here'").await, "still here");
    first.stop().unwrap();
}

#[test]
fn a_server_that_was_killed_itself_recovers() {
    let room = room();
    let dir = room.path().join("crashed");
    let env = environment(room.path());
    let server = LocalPostgres::start(&dir, &env).unwrap();
    let pid: i32 = first_line(&dir.join("data/postmaster.pid")).parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    server.stop().unwrap();
    LocalPostgres::start(&dir, &env).unwrap().stop().unwrap();
}

#[test]
fn a_pid_file_that_names_a_stranger_neither_blocks_the_start_nor_hurts_the_stranger() {
    let room = room();
    let dir = room.path().join("restored");
    let env = environment(room.path());
    LocalPostgres::start(&dir, &env).unwrap().stop().unwrap();
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    fs::write(dir.join("data/postmaster.pid"), format!("{}\n{}\n", stranger.id(), dir.display())).unwrap();
    fs::write(dir.join(".s.PGSQL.5432.lock"), format!("{}\n", stranger.id())).unwrap();

    LocalPostgres::start(&dir, &env).unwrap().stop().unwrap();
    assert_eq!(stranger.try_wait().unwrap(), None, "the stranger lives");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

fn first_line(path: &Path) -> String {
    fs::read_to_string(path).unwrap().lines().next().unwrap().trim().to_owned()
}

/// The watchdog is the only shell among the children of a holder that is past the start of its program.
fn kill_children_named_sh(parent: u32) {
    let mut killed = 0;
    for (pid, parent_of_pid, name) in running() {
        if parent_of_pid == parent.to_string() && name.ends_with("sh") {
            let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
            killed += 1;
        }
    }
    assert_eq!(killed, 1);
}

/// Process, parent and name of all that runs; slim images have no `ps`, macOS has no /proc.
fn running() -> Vec<(String, String, String)> {
    if !Path::new("/proc/self").exists() {
        let output = Command::new("ps").args(["-axo", "pid=,ppid=,comm="]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        return words.map(|words| (words[0].clone(), words[1].clone(), words[2].clone())).collect();
    }
    let statuses = fs::read_dir("/proc").unwrap().flatten();
    let texts = statuses.filter_map(|process| fs::read_to_string(process.path().join("status")).ok());
    let field = |text: &str, title: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(title));
        line.map(|value| value.trim().to_owned()).unwrap_or_default()
    };
    texts.map(|text| (field(&text, "Pid:"), field(&text, "PPid:"), field(&text, "Name:"))).collect()
}
