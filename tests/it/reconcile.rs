//! `reconcile` through the command line: what is found, what is written, what is not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::testbed::{LOCAL_TITLES, NOW, REPORT_TITLES, TestBed, charge, line};

const RUN_FILES: [&str; 4] = ["mismatches.csv", "report.html", "report.json", "report.txt"];

/// Kinds with their references, from `kind reference` pairs.
fn wanted(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut wanted: Vec<_> = pairs.iter().map(|(kind, reference)| ((*kind).into(), (*reference).into())).collect();
    wanted.sort();
    wanted
}

async fn rows(bed: &TestBed) -> [i64; 5] {
    let mut counts = [0; 5];
    for (at, table) in
        ["reconciliation_runs", "mismatches", "mismatch_events", "outbox", "provider_reports"].iter().enumerate()
    {
        counts[at] = bed.database().number(&format!("SELECT count(*) FROM idem.{table}")).await;
    }
    counts
}

#[test]
fn a_double_charge_is_one_break_that_keeps_the_id_we_know() {
    let bed = TestBed::stateless();
    let ran = bed
        .compare(
            "1,k1,r1,ch_A,5000,USD,succeeded,2026-05-01T08:00:00Z\n",
            "ch_A,r1,50.00,USD,succeeded,2026-05-01 08:00:01,0.3\nch_B,r1,50.00,USD,succeeded,2026-05-01 08:00:30,0.3\n",
        )
        .expect(0);
    assert_eq!(ran.mismatches(), wanted(&[("duplicate_at_provider", "r1")]));
    let json = ran.json();
    assert_eq!(json["mismatches"][0]["at_risk_minor"], 5000);
    assert_eq!(json["mismatches"][0]["currency"], "USD");
}

#[test]
fn a_double_charge_that_both_sides_know_does_not_cancel_pair_by_pair() {
    let bed = TestBed::stateless();
    let local =
        "1,k1,r1,ch_A,5000,USD,succeeded,2026-05-01T08:00:00Z\n2,k1,r1,ch_B,5000,USD,succeeded,2026-05-01T08:00:30Z\n";
    let a = "ch_A,r1,50.00,USD,succeeded,2026-05-01 08:00:01,0.3\n";
    let b = "ch_B,r1,50.00,USD,succeeded,2026-05-01 08:00:31,0.3\n";
    for report in [format!("{a}{b}"), format!("{b}{a}")] {
        let ran = bed.compare(local, &report).expect(0);
        assert_eq!(ran.mismatches(), wanted(&[("duplicate_at_provider", "r1")]));
    }
}

#[test]
fn decimals_follow_the_currency_and_never_a_guess() {
    let bed = TestBed::stateless();
    let local =
        |minor: &str, currency: &str| format!("1,k1,r1,ch_1,{minor},{currency},succeeded,2026-05-01T08:00:00Z\n");
    let report =
        |amount: &str, currency: &str| format!("ch_1,r1,{amount},{currency},succeeded,2026-05-01 08:00:01,0\n");
    let table = [
        ("10000", "JPY", "100", "amount_under"),
        ("10000", "JPY", "10000", ""),
        ("10000", "JPY", "10000.00", ""),
        ("1234", "KWD", "1.234", ""),
        ("255768", "USD", "2557.68", ""),
        ("115", "USD", "1.15", ""),
        ("29", "USD", "0.29", ""),
        ("5000", "USD", "50.01", "amount_over"),
        ("5000", "USD", "5000.00", "amount_over"),
    ];
    for (minor, currency, amount, kind) in table {
        let ran = bed.compare(&local(minor, currency), &report(amount, currency)).expect(0);
        let kinds: Vec<_> = ran.mismatches().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, if kind.is_empty() { vec![] } else { vec![kind.to_owned()] }, "{minor} against {amount}");
    }
    for (amount, currency) in [("10000.50", "JPY"), ("1.000", "EUR"), ("\"1.355,90\"", "EUR"), ("\"1,5\"", "EUR")] {
        let good = "ch_2,r2,1.00,USD,failed,2026-05-01 08:00:01,0\n";
        let ran = bed.compare("", &format!("{good}{}", report(amount, currency))).expect(0);
        let kinds: Vec<_> = ran.mismatches().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, ["unparseable_row"], "{amount} {currency}");
    }
}

#[test]
fn a_report_of_which_no_row_can_be_read_is_refused_and_never_called_clean() {
    let bed = TestBed::stateless();
    let ran = bed.compare("", "ch_1,r1,1.355;90,EUR,succeeded,2026-05-01 08:00:01,0\n").expect(6);
    assert!(ran.stderr.contains("none of the 1 rows"), "{}", ran.stderr);
    assert!(ran.stdout.is_empty());
}

#[test]
fn rows_within_the_grace_wait_and_are_no_breaks() {
    let bed = TestBed::stateless();
    let ran = bed
        .compare(
            "1,k1,r1,ch_1,5000,USD,succeeded,2026-05-01T08:00:00Z\n\
             2,k2,r2,ch_2,5000,USD,succeeded,2026-05-01T15:00:00Z\n\
             3,k3,r3,ch_3,5000,USD,succeeded,2026-05-01T16:00:00Z\n\
             4,k4,r4,ch_4,5000,USD,succeeded,2026-05-01T17:00:00Z\n\
             5,k5,r5,ch_5,5000,USD,succeeded,2026-05-01T09:00:00Z\n",
            "ch_5,r5,49.00,USD,succeeded,2026-05-01 09:00:01,0.3\n",
        )
        .expect(0);
    assert_eq!(
        ran.mismatches(),
        wanted(&[
            ("amount_under", "r5"),
            ("missing_at_provider", "r1"),
            ("timing_pending", "r2"),
            ("timing_pending", "r3"),
            ("timing_pending", "r4"),
        ])
    );
    assert_eq!(ran.json()["control"]["local_pending"], 3);
}

#[test]
fn references_are_text_and_equal_amounts_are_no_match() {
    let bed = TestBed::stateless();
    let ran = bed
        .compare(
            "1,k1,8390248270,ch_1,5000,USD,succeeded,2026-05-01T08:00:00Z\n\
             2,k2,839024827,ch_2,5000,USD,succeeded,2026-05-01T08:00:00Z\n\
             3,k3,r3,,7000,USD,succeeded,2026-05-01T08:00:00Z\n",
            "ch_1,8390248270,50.00,USD,succeeded,2026-05-01 08:00:01,0\n\
             ch_2,839024827,50.00,USD,succeeded,2026-05-01 08:00:01,0\n\
             ch_9,rX,70.00,USD,succeeded,2026-05-01 08:00:00,0\n",
        )
        .expect(0);
    let kinds: Vec<_> = ran.mismatches().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "missing_at_provider").count(), 1, "{kinds:?}");
    assert_eq!(ran.json()["control"]["provider_matched"], 2);
}

#[tokio::test]
async fn a_run_is_recorded_once_however_often_the_report_comes() {
    let bed = TestBed::new().await;
    bed.file("jobs.toml", "[mail]\nfrom = \"idem@shop.example\"\nto = [\"finance@shop.example\"]\n");
    bed.charges(&[charge(1, 5000), charge(2, 5000), charge(3, 5000)]).await;
    let report =
        bed.file("report.csv", format!("{REPORT_TITLES}{}{}{}", line(1, "50.00"), line(2, "49.00"), line(4, "9.00")));
    let first = bed.reconcile(&["--report", &report]).expect(0);
    let breaks = [("amount_under", "r2"), ("missing_at_provider", "r3"), ("missing_locally", "r4")];
    let found = first.mismatches();
    assert!(found.contains(&("amount_under".into(), "r2".into())), "{found:?}");
    assert_eq!(found.len(), breaks.len(), "{found:?}");
    let written = rows(&bed).await;
    assert_eq!(written, [1, 3, 3, 1, 1]);

    let again = bed.reconcile(&["--report", &report]).expect(0);
    assert!(again.stderr.contains("already reconciled"), "{}", again.stderr);
    assert_eq!(again.json()["run"]["id"], first.json()["run"]["id"]);
    bed.file("renamed.csv", fs::read(bed.path(&report)).unwrap());
    bed.reconcile(&["--report", "renamed.csv"]).expect(0);
    assert_eq!(rows(&bed).await, written, "the same bytes under another name are the same report");

    let files = bed.files("reports/out");
    assert_eq!(files.len(), 4, "{files:?}");
    for (file, name) in files.iter().zip(RUN_FILES) {
        assert!(file.ends_with(name), "{file}");
        let mode = fs::metadata(bed.path("reports/out").join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn files_that_are_missing_are_written_again_from_what_was_committed() {
    let bed = TestBed::new().await;
    bed.charges(&[charge(1, 5000)]).await;
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "49.00")));
    bed.reconcile(&["--report", &report]).expect(0);
    let before: Vec<_> =
        bed.files("reports/out").iter().map(|f| fs::read(bed.path("reports/out").join(f)).unwrap()).collect();
    fs::remove_dir_all(bed.path("reports/out")).unwrap();
    bed.reconcile(&["--report", &report]).expect(0);
    let after: Vec<_> =
        bed.files("reports/out").iter().map(|f| fs::read(bed.path("reports/out").join(f)).unwrap()).collect();
    assert_eq!(before.len(), 4);
    assert!(before == after, "the same run gives the same bytes");
}

#[tokio::test]
async fn a_dry_run_finds_the_same_and_writes_nothing() {
    let bed = TestBed::new().await;
    bed.charges(&[charge(1, 5000)]).await;
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "49.00")));
    let dry = bed.reconcile(&["--report", &report, "--dry-run"]).expect(0);
    assert_eq!(rows(&bed).await, [0; 5]);
    assert_eq!(bed.database().number("SELECT count(*) FROM idem.job_runs").await, 0);
    assert!(bed.files("reports").is_empty());
    let wet = bed.reconcile(&["--report", &report]).expect(0);
    assert_eq!(dry.mismatches(), wet.mismatches());
    assert_eq!(dry.json()["control"], wet.json()["control"]);
}

#[tokio::test]
async fn the_same_break_in_another_report_is_not_new_again() {
    let bed = TestBed::new().await;
    bed.charges(&[charge(1, 5000), charge(2, 5000)]).await;
    let day_one = bed.file("one.csv", format!("{REPORT_TITLES}{}{}", line(1, "49.00"), line(2, "50.00")));
    let day_two = bed.file("two.csv", format!("{REPORT_TITLES}{}{}", line(2, "50.00"), line(1, "49.00")));
    let first = bed.reconcile(&["--report", &day_one]).expect(0).json();
    let second = bed.reconcile(&["--report", &day_two]).expect(0).json();
    assert_ne!(first["run"]["id"], second["run"]["id"]);
    assert_eq!(first["mismatches"][0]["id"], second["mismatches"][0]["id"]);
    assert_eq!(first["counts"]["amount_under"]["new"], 1);
    assert_eq!(second["counts"]["amount_under"]["new"], 0);
    assert_eq!(second["mismatches"][0]["seen"], "still_open");
    assert_eq!(bed.database().number("SELECT count(*) FROM idem.mismatches").await, 1);
}

#[tokio::test]
async fn what_waited_becomes_a_break_under_the_same_name_when_its_grace_is_over() {
    let bed = TestBed::new().await;
    bed.charges(&[charge(1, 5000), charge(2, 5000)]).await;
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "50.00")));
    let early =
        bed.run(&["reconcile", "--as-of", "2026-05-02T06:00:00Z", "--output", "json", "--report", &report]).expect(0);
    assert_eq!(early.mismatches(), wanted(&[("timing_pending", "r2")]));
    assert_eq!(early.json()["mismatches"][0]["state"], "pending");
    let later = bed.reconcile(&["--report", &report, "--rerun"]).expect(0);
    assert_eq!(later.mismatches(), wanted(&[("missing_at_provider", "r2")]));
    assert_eq!(later.json()["mismatches"][0]["id"], early.json()["mismatches"][0]["id"]);
    assert_eq!(later.json()["mismatches"][0]["state"], "open");
    assert_eq!(later.json()["mismatches"][0]["seen"], "raised", "a break that was only waiting yesterday must be told");
    assert_eq!(
        bed.database().number("SELECT count(*) FROM idem.mismatches WHERE kind = 'missing_at_provider'").await,
        1
    );
}

#[tokio::test]
async fn a_report_that_lacks_many_charges_is_not_believed_and_leaves_one_refusal() {
    let bed = TestBed::new().await;
    bed.file("jobs.toml", "[mail]\nfrom = \"idem@shop.example\"\nto = [\"finance@shop.example\"]\n");
    let charges: Vec<_> = (1..=400).map(|n| charge(n, 5000)).collect();
    bed.charges(&charges).await;
    let report: String = (1..=200).map(|n| line(n, "50.00")).collect();
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{report}"));
    for _ in 0..2 {
        let ran = bed.reconcile(&["--report", &report]).expect(6);
        assert!(ran.stderr.contains("200 of 400"), "{}", ran.stderr);
        assert!(ran.stderr.contains("--accept-missing"), "{}", ran.stderr);
    }
    let [runs, mismatches, events, outbox, _] = rows(&bed).await;
    assert_eq!([runs, mismatches, events, outbox], [1, 0, 0, 1], "one refused run, one mail, no break");
    let accepted = bed.reconcile(&["--report", &report, "--accept-missing"]).expect(0);
    assert_eq!(accepted.mismatches().len(), 200);
}

#[test]
fn breaks_are_exit_7_only_when_asked_for() {
    let bed = TestBed::stateless();
    let local = bed.file("local.csv", format!("{LOCAL_TITLES}1,k1,r1,ch_1,5000,USD,succeeded,2026-05-01T08:00:00Z\n"));
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "49.00")));
    let clean = bed.file("clean.csv", format!("{REPORT_TITLES}{}", line(1, "50.00")));
    bed.reconcile(&["--report", &report, "--local", &local]).expect(0);
    bed.reconcile(&["--report", &report, "--local", &local, "--exit-code"]).expect(7);
    bed.reconcile(&["--report", &clean, "--local", &local, "--exit-code"]).expect(0);
}

#[tokio::test]
async fn a_second_run_waits_for_the_first_and_then_gives_up_in_words() {
    let bed = TestBed::new().await;
    bed.file("jobs.toml", "[reconcile]\nlock_wait = \"1s\"\n");
    bed.charges(&[charge(1, 5000)]).await;
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "50.00")));
    let key = idem_jobs::store::LockKey::reconcile("generic", "");
    let lock =
        idem_jobs::store::Lock::acquire(&bed.database().url, key, std::time::Duration::ZERO).await.unwrap().unwrap();
    let ran = bed.reconcile(&["--report", &report]).expect(8);
    assert!(ran.stderr.contains("another reconciliation"), "{}", ran.stderr);
    assert_eq!(rows(&bed).await, [0; 5]);
    lock.release().await.unwrap();
    bed.reconcile(&["--report", &report]).expect(0);
}

#[test]
fn the_text_says_verdict_control_and_what_to_do() {
    let bed = TestBed::stateless();
    let local = bed.file("local.csv", format!("{LOCAL_TITLES}1,k1,r1,ch_1,5000,USD,succeeded,2026-05-01T08:00:00Z\n"));
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "49.00")));
    let ran = bed.run(&["reconcile", "--as-of", NOW, "--report", &report, "--local", &local]).expect(0);
    for part in ["amount_under", "r1", "1.00", "report.html"] {
        assert!(ran.stdout.contains(part), "{part} is not in\n{}", ran.stdout);
    }
}

#[test]
fn a_row_that_names_another_reference_is_another_claim_in_any_order() {
    let bed = TestBed::stateless();
    let local = "1,k1,r1,,500,USD,succeeded,2026-05-01T08:00:00Z\n";
    let (a, b) =
        ("c1,r1,5.00,USD,succeeded,2026-05-01 08:00:00,0\n", "c1,r9,5.00,USD,succeeded,2026-05-01 08:00:00,0\n");
    let one = bed.compare(local, &format!("{a}{b}")).expect(0);
    let other = bed.compare(local, &format!("{b}{a}")).expect(0);
    assert_eq!(one.mismatches(), other.mismatches());
    assert!(!one.mismatches().is_empty(), "one payment under two references is no clean match");
}

#[test]
fn a_charge_whose_row_could_not_be_read_is_not_to_be_reverted_unseen() {
    let bed = TestBed::stateless();
    let ran = bed
        .compare(
            "1,k1,r1,c1,500,USD,succeeded,2026-05-01T08:00:00Z\n2,k2,r2,c2,500,USD,succeeded,2026-05-01T08:00:00Z\n",
            "c1,r1,5.00 USD,USD,succeeded,2026-05-01 08:00:00,0\nc2,r2,5.00,USD,succeeded,2026-05-01 08:00:00,0\n",
        )
        .expect(0);
    let json = ran.json();
    let missing = json["mismatches"].as_array().unwrap().iter().find(|m| m["kind"] == "missing_at_provider").unwrap();
    assert!(missing["suggestion"].as_str().unwrap().contains("could not be read"), "{missing}");
}

#[tokio::test]
async fn another_local_file_is_another_comparison() {
    let bed = TestBed::new().await;
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "50.00")));
    let row = |minor: u32| format!("{LOCAL_TITLES}1,k1,r1,ch_1,{minor},USD,succeeded,2026-05-01T08:00:00Z\n");
    let (a, b) = (bed.file("a.csv", row(5000)), bed.file("b.csv", row(4900)));
    assert!(bed.reconcile(&["--report", &report, "--local", &a]).expect(0).mismatches().is_empty());
    let other = bed.reconcile(&["--report", &report, "--local", &b]).expect(0);
    assert_eq!(other.mismatches(), wanted(&[("amount_over", "r1")]));
}

#[tokio::test]
async fn a_run_with_nothing_new_sends_no_mail_of_its_own() {
    let bed = TestBed::new().await;
    bed.file("jobs.toml", "[mail]\nfrom = \"idem@shop.example\"\nto = [\"finance@shop.example\"]\n");
    bed.charges(&[charge(1, 5000), charge(2, 5000)]).await;
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}{}", line(1, "49.00"), line(2, "50.00")));
    bed.reconcile(&["--report", &report]).expect(0);
    bed.reconcile(&["--report", &report, "--rerun"]).expect(0);
    assert_eq!(bed.database().number("SELECT count(*) FROM idem.reconciliation_runs").await, 2);
    assert_eq!(bed.database().number("SELECT count(*) FROM idem.outbox").await, 1);
}

#[tokio::test]
async fn a_refusal_is_filed_under_the_provider_whose_report_it_is() {
    let bed = TestBed::new().await;
    let charges: Vec<_> = (1..=300).map(|n| charge(n, 5000)).collect();
    bed.database().store.record_charges("stripe", "", &charges).await.unwrap();
    let report = "id,Created date (UTC),Amount,Amount Refunded,Currency,Captured,Status,order_id (metadata)\n\
                  ch_1,2026-05-01 08:00:02,50.00,0.00,usd,true,Paid,r1\n";
    let report = bed.file("stripe.csv", report);
    bed.reconcile(&["--report", &report]).expect(6);
    let filed = "SELECT count(*) FROM idem.reconciliation_runs WHERE provider = 'stripe' AND state = 'refused'";
    assert_eq!(bed.database().number(filed).await, 1);
}

#[tokio::test]
async fn a_query_that_repeats_a_charge_is_told_which_one() {
    let bed = TestBed::new().await;
    bed.charges(&[charge(1, 5000)]).await;
    bed.file(
        "jobs.toml",
        "[[reconcile.local]]\nprovider = \"generic\"\nquery = \"SELECT charge_id, idempotency_key, \
         merchant_reference, provider_id, amount_minor, currency, status, created_at FROM idem.charges, \
         generate_series(1, 2) WHERE created_at >= $from AND created_at < $to\"\n",
    );
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "50.00")));
    let ran = bed.reconcile(&["--report", &report]).expect(3);
    assert!(ran.stderr.contains("L1") && ran.stderr.contains("more than once"), "{}", ran.stderr);
}

#[test]
fn a_private_server_keeps_its_data_from_call_to_call() {
    let bed = TestBed::stateless();
    let report = bed.file("report.csv", format!("{REPORT_TITLES}{}", line(1, "50.00")));
    let private = ["--local-postgres", "data"];
    bed.run(&[&["migrate"][..], &private].concat()).expect(0);
    let first = bed.reconcile(&[&["--report", &report][..], &private].concat()).expect(0);
    assert_eq!(first.mismatches(), wanted(&[("missing_locally", "r1")]));
    let again = bed.reconcile(&[&["--report", &report][..], &private].concat()).expect(0);
    assert!(again.stderr.contains("already reconciled"), "{}", again.stderr);
}

#[test]
fn a_decline_that_both_sides_know_matches_without_the_providers_id() {
    let bed = TestBed::stateless();
    let ran = bed
        .compare("1,k1,r1,,500,USD,failed,2026-05-01T08:00:00Z\n", "c1,r1,5.00,USD,failed,2026-05-01 08:00:00,0\n")
        .expect(0);
    let control = &ran.json()["control"];
    assert_eq!((&control["provider_matched"], &control["local_matched"]), (&1.into(), &1.into()), "{control}");
}
