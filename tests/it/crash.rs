//! The real executable, killed with SIGKILL: nothing is lost, nothing is written twice, nobody is left behind.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::local_postgres::{assert_nothing_left, room};
use crate::testbed::{REPORT_TITLES, TestBed, charge, line};

const MAIL: &str = "[mail]\nfrom = \"idem@shop.example\"\nto = [\"finance@shop.example\"]\n";

/// A bed whose run has `breaks` breaks, and the name of its report.
async fn bed(breaks: u64) -> (TestBed, String) {
    let bed = TestBed::new().await;
    bed.file("jobs.toml", MAIL);
    let charges: Vec<_> = (1..=breaks).map(|n| charge(n, 5_000)).collect();
    bed.charges(&charges).await;
    let report: String = (1..=breaks).map(|n| line(n, "49.00")).collect();
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{report}"));
    (bed, report)
}

async fn count(bed: &TestBed, table: &str) -> i64 {
    bed.database().number(&format!("SELECT count(*) FROM idem.{table}")).await
}

#[tokio::test]
async fn killed_between_commit_and_files_the_next_call_writes_the_files_and_nothing_else() {
    let (bed, report) = bed(5_000).await;
    let mut child = bed.start(&["reconcile", "--as-of", crate::testbed::NOW, "--report", &report]);
    let deadline = Instant::now() + Duration::from_mins(1);
    while count(&bed, "reconciliation_runs").await == 0 {
        assert!(Instant::now() < deadline, "the run was never committed");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(bed.files("reports/out").len() < 4, "the files of 5,000 breaks take longer than a look at the table");
    let written = [count(&bed, "mismatches").await, count(&bed, "mismatch_events").await];
    assert_eq!(written, [5_000, 5_000]);

    let ran = bed.reconcile(&["--report", &report]).expect(0);
    assert!(ran.stderr.contains("already reconciled"), "{}", ran.stderr);
    assert_eq!(bed.files("reports/out").iter().filter(|f| !f.contains(".part-")).count(), 4);
    assert_eq!(count(&bed, "reconciliation_runs").await, 1);
    assert_eq!(count(&bed, "outbox").await, 1);
    assert_eq!([count(&bed, "mismatches").await, count(&bed, "mismatch_events").await], written);
}

#[tokio::test]
async fn killed_at_ten_random_moments_a_run_ends_as_if_undisturbed() {
    let (undisturbed, report) = bed(3_000).await;
    let begun = Instant::now();
    let wanted = undisturbed.reconcile(&["--report", &report]).expect(0);
    let takes = begun.elapsed();

    let (bed, report) = bed(3_000).await;
    for moment in 1..=10_u32 {
        let mut child = bed.start(&["reconcile", "--as-of", crate::testbed::NOW, "--report", &report]);
        thread::sleep(takes * moment / 10);
        child.kill().unwrap();
        child.wait().unwrap();
        let (runs, mails) = (count(&bed, "reconciliation_runs").await, count(&bed, "outbox").await);
        assert!(runs == mails && runs <= 1, "after moment {moment}: {runs} runs, {mails} mails");
        assert_eq!(count(&bed, "mismatches").await, runs * 3_000, "all breaks or none");
    }
    let found = bed.reconcile(&["--report", &report]).expect(0);
    assert_eq!(found.json()["control"], wanted.json()["control"]);
    assert_eq!(found.json()["mismatches"], wanted.json()["mismatches"], "row for row");
    assert_eq!(count(&bed, "outbox").await, 1);
}

#[test]
fn a_demo_that_is_killed_leaves_no_server_and_the_next_one_works() {
    let bed = TestBed::stateless();
    let temp = room();
    let demo = || {
        let mut command = bed.command(&["demo", "--charges", "2000", "--dir", "demo"]);
        command.env("TMPDIR", temp.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let begun = Instant::now();
    let output = demo().output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let takes = begun.elapsed();
    for moment in 0..10_u32 {
        let mut child = demo().spawn().unwrap();
        // Prime steps, so that the moments fall into different phases on a machine of any speed.
        thread::sleep(takes * (moment * 7 + 3) / 70);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_nothing_left(temp.path(), &format!("the demo was killed at moment {moment}"));
    }
    let output = demo().output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("report.html"));
}

#[tokio::test]
async fn a_run_that_is_asked_to_stop_says_so_and_leaves_nothing_half_written() {
    let (bed, report) = bed(3_000).await;
    let mut child = bed.start(&["reconcile", "--as-of", crate::testbed::NOW, "--report", &report]);
    thread::sleep(Duration::from_millis(150));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let status = child.wait().unwrap();
    assert!(matches!(status.code(), Some(0 | 143)), "{status:?}");
    let (runs, breaks) = (count(&bed, "reconciliation_runs").await, count(&bed, "mismatches").await);
    assert_eq!(breaks, runs * 3_000);
    bed.reconcile(&["--report", &report]).expect(0);
    assert_eq!(count(&bed, "mismatches").await, 3_000);
}
