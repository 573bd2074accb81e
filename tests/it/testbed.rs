//! A folder, a database and the real executable: what an operator has.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use chrono::{DateTime, Utc};
use idem_jobs::domain::charge::Charge;
use idem_jobs::domain::entry::Status;
use idem_jobs::domain::money::Currency;
use serde_json::Value;

use crate::harness::TestDatabase;

/// The instant that the tests take as now: three and a half days after the report's day.
pub(crate) const NOW: &str = "2026-05-04T12:00:00Z";

/// Titles of the report that needs no configuration.
pub(crate) const REPORT_TITLES: &str = "provider_id,merchant_reference,amount,currency,status,created_utc,fee\n";
/// Titles of our own side as a file.
pub(crate) const LOCAL_TITLES: &str =
    "charge_id,idempotency_key,merchant_reference,provider_id,amount_minor,currency,status,created_at\n";

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Kind and reference of each mismatch, sorted.
    pub(crate) fn mismatches(&self) -> Vec<(String, String)> {
        let json = self.json();
        let mut found: Vec<_> = json["mismatches"]
            .as_array()
            .unwrap_or_else(|| panic!("no mismatches in {json}"))
            .iter()
            .map(|m| (m["kind"].as_str().unwrap().to_owned(), m["reference"].as_str().unwrap_or_default().to_owned()))
            .collect();
        found.sort();
        found
    }

    /// Ends the test unless the code is this one.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// A working folder, with or without a database.
pub(crate) struct TestBed {
    pub(crate) database: Option<TestDatabase>,
    folder: tempfile::TempDir,
}

impl TestBed {
    /// With a migrated database of its own.
    pub(crate) async fn new() -> Self {
        Self { database: Some(TestDatabase::new().await), folder: tempfile::tempdir().unwrap() }
    }

    /// With a database that has no schema.
    pub(crate) async fn unmigrated() -> Self {
        Self { database: Some(TestDatabase::empty().await), folder: tempfile::tempdir().unwrap() }
    }

    /// With files only.
    pub(crate) fn stateless() -> Self {
        Self { database: None, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn database(&self) -> &TestDatabase {
        self.database.as_ref().expect("this bed has a database")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its path as an argument.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).unwrap();
        name.to_owned()
    }

    /// The command, ready to be started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_idem-jobs"));
        command
            .args(arguments)
            .args(["--log-format", "text", "--color", "never", "--no-progress"])
            .current_dir(self.folder.path())
            .env_remove("DATABASE_URL")
            .stdin(Stdio::null());
        if let Some(database) = &self.database {
            command.env("DATABASE_URL", database.url.expose());
        }
        command
    }

    /// Runs the real executable to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.command(arguments).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts the real executable and lets it run.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// `reconcile` at [`NOW`] with JSON on standard output.
    pub(crate) fn reconcile(&self, arguments: &[&str]) -> Ran {
        let mut all = vec!["reconcile", "--as-of", NOW, "--output", "json"];
        all.extend(arguments);
        self.run(&all)
    }

    /// Compares two texts in the files' own titles.
    pub(crate) fn compare(&self, local: &str, report: &str) -> Ran {
        let local = self.file("local.csv", format!("{LOCAL_TITLES}{local}"));
        let report = self.file("report.csv", format!("{REPORT_TITLES}{report}"));
        self.reconcile(&["--report", &report, "--local", &local])
    }

    /// Records charges of the provider `generic`.
    pub(crate) async fn charges(&self, charges: &[Charge<'_>]) {
        self.database().store.record_charges("generic", "", charges).await.unwrap();
    }

    /// Every file below a folder, sorted, relative to it.
    pub(crate) fn files(&self, name: &str) -> Vec<String> {
        let root = self.path(name);
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(relative(&root, &path));
                }
            }
        }
        found.sort();
        found
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().to_string_lossy().into_owned()
}

/// A local charge of the report's day, succeeded: reference `r<n>`, provider id `ch_<n>`.
pub(crate) fn charge(number: u64, minor: i64) -> Charge<'static> {
    let at: DateTime<Utc> = "2026-05-01T08:00:00Z".parse().unwrap();
    Charge {
        charge_id: format!("L{number}").into(),
        idempotency_key: Some(format!("k{number}").into()),
        merchant_reference: Some(format!("r{number}").into()),
        provider_id: Some(format!("ch_{number}").into()),
        amount_minor: minor,
        currency: Currency::parse("USD").unwrap(),
        status: Status::Succeeded,
        status_raw: "succeeded".into(),
        refunded_minor: None,
        created_at: at + chrono::TimeDelta::seconds(i64::try_from(number % 50_000).unwrap()),
    }
}

/// The report's line of [`charge`].
pub(crate) fn line(number: u64, major: &str) -> String {
    format!("ch_{number},r{number},{major},USD,succeeded,2026-05-01 08:00:02,0.30\n")
}
