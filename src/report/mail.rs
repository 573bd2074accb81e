//! The mismatch mail: one a run, said in its subject, complete in its text, with the findings attached.
//!
//! The wording stands in `reports/mismatch/`. Addresses, message ids and sending are the outbox's business.

use std::io::Write;

use chrono::{DateTime, Utc};
use flate2::{Compression, GzBuilder};
use minijinja::{Value, context};

use super::clean::foreign;
use super::html::render;
use super::view::{View, day, who};
use super::{csv, json, text};
use crate::domain::document::Document;
use crate::domain::run::{Reconciliation, RunHead};

/// Most rows of the attached CSV.
const CSV_ROWS_MAX: usize = 10_000;
/// From this size on an attachment is compressed, in bytes.
const GZIP_ABOVE_BYTES: usize = 1 << 20;
/// A compressed `report.json` above this size stays on disk, in bytes. With the CSV it keeps a mail under 10 MB.
const JSON_BYTES_MAX: usize = 4 << 20;
/// Longest subject, in characters; relays and clients cut longer ones.
const SUBJECT_CHARS_MAX: usize = 240;
/// Longest provider and account in a subject, in characters.
const WHO_CHARS_MAX: usize = 60;

/// A mail without addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// One header line without control characters.
    pub subject: String,
    /// The plain body.
    pub text: String,
    /// The same as HTML.
    pub html: String,
    /// `mismatches.csv` and, unless too large, `report.json`; compressed above 1 MiB.
    pub attachments: Vec<Document>,
}

/// The mail about a finished run. `folder` says where its files are, for the text.
pub fn mail(found: &Reconciliation, now: DateTime<Utc>, folder: Option<&str>) -> Mail {
    let view = View::new(found, now);
    let mut suppressed = Vec::new();
    let mut attachments = Vec::new();
    if !found.mismatches.is_empty() {
        let sheet = csv::first(found, now, CSV_ROWS_MAX);
        let names = ["mismatches.csv", "mismatches.csv.gz"];
        attachments.push(attachment(names, "text/csv; charset=utf-8", sheet));
    }
    if found.mismatches.len() > CSV_ROWS_MAX {
        suppressed.push(format!(
            "The attached CSV has the first 10,000 of {} findings; the run's mismatches.csv has them all.",
            super::figures::count(found.mismatches.len() as u64)
        ));
    }
    if view.findings > view.listed {
        suppressed.push(format!(
            "{} findings are counted and not listed one by one.",
            super::figures::count(view.findings - view.listed)
        ));
    }
    let data = attachment(["report.json", "report.json.gz"], "application/json", json(found).into_bytes());
    if data.bytes.len() <= JSON_BYTES_MAX {
        attachments.push(data);
    } else {
        suppressed.push("report.json is too large for a mail; it stands in the run's folder.".to_owned());
    }

    let values = context! {
        suppressed,
        folder => folder.map(foreign),
        text => context! {
            verdict => text::verdict(&view, false),
            todo => text::todo(&view),
            control => text::control(&view),
            money => text::money(&view),
            kinds => text::kinds(&view, false),
            ageing => text::ageing(&view),
            top => text::top(&view, false),
            refused => text::refused(&view),
            remarks => text::remarks(&view),
            foot => text::foot(&view),
        },
        who => short(&view.who),
        tops => view.top.iter().map(text::sides).collect::<Vec<_>>(),
        refused_reason => None::<String>,
        ..Value::from_serialize(&view)
    };
    written(values, attachments)
}

/// The mail about a report that was refused or is implausible: nothing was compared, and that must be seen.
/// `reason` is one sentence; of `head` only what is known by then is used.
pub fn refused_mail(head: &RunHead, reason: &str, now: DateTime<Utc>) -> Mail {
    let files: Vec<_> = head
        .files
        .iter()
        .map(|f| context! { name => foreign(&f.name), bytes => super::figures::count(f.bytes), sha256 => f.sha256 })
        .collect();
    let values = context! {
        alarm => "NOT RECONCILED",
        who => short(&foreign(&who(head))),
        day => day(head),
        refused_reason => foreign(reason.trim_end_matches('.')),
        files,
        run_id => head.id,
        started_at => super::figures::moment(head.started_at),
        rendered_at => super::figures::moment(now),
        version => head.version,
    };
    written(values, Vec::new())
}

fn written(values: Value, attachments: Vec<Document>) -> Mail {
    Mail {
        subject: header_line(&render("subject.txt", values.clone())),
        text: render("body.txt", values.clone()),
        html: render("body.html", values),
        attachments,
    }
}

/// A name that leaves the subject room for what happened.
fn short(name: &str) -> String {
    match name.char_indices().nth(WHO_CHARS_MAX) {
        Some((cut, _)) => format!("{}...", &name[..cut]),
        None => name.to_owned(),
    }
}

/// One line that can stand in a header: blanks for line breaks, no control characters, bounded.
fn header_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(SUBJECT_CHARS_MAX) {
        Some((cut, _)) => format!("{}...", &line[..cut]),
        None => line,
    }
}

/// An attachment under its plain name, or compressed under the other one.
fn attachment(names: [&'static str; 2], media_type: &'static str, bytes: Vec<u8>) -> Document {
    if bytes.len() <= GZIP_ABOVE_BYTES {
        return Document { name: names[0], media_type, bytes };
    }
    // No file name and no time inside: the same findings give the same bytes.
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    gzip.write_all(&bytes).expect("a Vec takes every write");
    Document { name: names[1], media_type: "application/gzip", bytes: gzip.finish().expect("a Vec takes every write") }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{bad_day, clean_day, hostile_day, now, planted};
    use super::*;
    use crate::domain::mismatch::{Kind, Standing};

    #[test]
    fn the_subject_says_how_it_went() {
        let known = |mut day: Reconciliation, seen| {
            day.mismatches.iter_mut().for_each(|m| m.seen = seen);
            day.counts.values_mut().for_each(|count| count.new = 0);
            day
        };
        let only = |kind| {
            let mut day = clean_day();
            day.mismatches = vec![planted(kind, 0)];
            day
        };
        let mut broken = clean_day();
        broken.control.local_rows += 1;
        let mut days = bad_day(26);
        days.run.account = String::new();
        days.run.window_to = Some("2026-05-04T00:00:00Z".parse().unwrap());
        for (day, expected) in [
            (clean_day(), "OK stripe/acct_1 2026-05-01: 20,000 matched, 0 new, 0 open"),
            (
                bad_day(5),
                "CRITICAL stripe/acct_1 2026-05-01: 2 new, 3 open, at risk EUR 89.19 + JPY 24,757 + KWD 32.676 + USD 178.38",
            ),
            (only(Kind::AmountUnder), "HIGH stripe/acct_1 2026-05-01: 1 new, 0 open, at risk USD 10.00"),
            (only(Kind::UnparseableRow), "MEDIUM stripe/acct_1 2026-05-01: 1 new, 0 open"),
            (only(Kind::TimingPending), "OK stripe/acct_1 2026-05-01: 20,000 matched, 0 new, 0 open"),
            (known(bad_day(5), Standing::StillOpen), "OK stripe/acct_1 2026-05-01: 20,000 matched, 0 new, 5 open"),
            (
                known(only(Kind::AmountUnder), Standing::Reopened),
                "HIGH stripe/acct_1 2026-05-01: 0 new, 1 open, at risk USD 10.00",
            ),
            (broken, "CRITICAL stripe/acct_1 2026-05-01: the sums do not add up, 0 breaks"),
        ] {
            assert_eq!(mail(&day, now(), None).subject, format!("[idem-jobs] {expected}"));
        }
        assert!(mail(&days, now(), None).subject.starts_with("[idem-jobs] CRITICAL stripe 2026-05-01..2026-05-03: "));
    }

    #[test]
    fn the_text_of_a_bad_day() {
        insta::assert_snapshot!(mail(&bad_day(26), now(), Some("/srv/reports/0196a1b2")).text);
    }

    #[test]
    fn a_refused_report_is_no_clean_day() {
        let head = clean_day().run;
        let mail = refused_mail(&head, "trailer says 5,000,000 rows, file has 4,999,999", now());
        assert_eq!(
            mail.subject,
            "[idem-jobs] NOT RECONCILED stripe/acct_1 2026-05-01: trailer says 5,000,000 rows, file has 4,999,999"
        );
        assert!(mail.attachments.is_empty());
        insta::assert_snapshot!(mail.text);
        super::super::html::assert_well_formed(&mail.html);
        assert!(mail.html.contains("Not reconciled: trailer says 5,000,000 rows, file has 4,999,999."));
    }

    #[test]
    fn hostile_values_stay_in_their_place() {
        let day = hostile_day();
        let found = mail(&day, now(), Some("/srv/</style>\r\nBcc: x"));
        let reason = format!("bad row\r\nBcc: e@evil.example\r\n<b>4111111111111111</b>{}", "x".repeat(1_000_000));
        let refused = refused_mail(&day.run, &reason, now());
        for mail in [&found, &refused] {
            assert!(!mail.subject.chars().any(char::is_control), "{}", mail.subject);
            assert!(mail.subject.chars().count() <= SUBJECT_CHARS_MAX + 3);
            assert!(mail.subject.contains("2026-05-01: "), "long names leave room: {}", mail.subject);
            for body in [&mail.text, &mail.html] {
                assert!(!body.contains("4111111111111111"));
                assert!(body.chars().all(|c| c == '\n' || !super::super::clean::is_hidden(c)));
                assert!(body.len() < 100_000);
            }
            for tag in ["<script", "<img", "<b>4", "</style>"] {
                assert!(!mail.html.contains(tag), "{tag}");
            }
            super::super::html::assert_well_formed(&mail.html);
        }
    }

    #[test]
    fn large_attachments_are_capped_compressed_and_said() {
        let mail = mail(&bad_day(10_001), now(), None);
        let names: Vec<_> = mail.attachments.iter().map(|a| a.name).collect();
        assert_eq!(names, ["mismatches.csv.gz", "report.json.gz"]);
        assert!(mail.attachments.iter().map(|a| a.bytes.len()).sum::<usize>() < 10 << 20);
        assert!(mail.text.contains("The attached CSV has the first 10,000 of 10,001 findings"));
        assert!(mail.html.contains("The attached CSV has the first 10,000 of 10,001 findings"));

        let mut rows = String::new();
        let mut gunzip = flate2::read::GzDecoder::new(mail.attachments[0].bytes.as_slice());
        std::io::Read::read_to_string(&mut gunzip, &mut rows).unwrap();
        assert_eq!(rows.lines().count(), 10_001, "a title line and 10,000 rows");
    }

    #[test]
    fn a_clean_day_attaches_no_empty_list() {
        let names: Vec<_> = mail(&clean_day(), now(), None).attachments.iter().map(|a| a.name).collect();
        assert_eq!(names, ["report.json"]);
    }
}
