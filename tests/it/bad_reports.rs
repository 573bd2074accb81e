//! What happens to reports that are damaged, incomplete, doubtful or in another dress: a clear sentence, never a guess.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use idem_jobs::config::Reading;
use idem_jobs::config::settings::{GenericColumns, GenericFormat, GenericStatus};
use idem_jobs::domain::entry::{DatedBy, EntryKind, Status};
use idem_jobs::domain::money::{Currency, DecimalMark, MinorUnits};
use idem_jobs::formats::{Format, Item, LocalFile, OpenOptions, Report, ReportError};
use idem_jobs::operator::inspect::{Output, inspect};

const GENERIC: &str = "provider_id,merchant_reference,amount,currency,status,created_utc";
const STL: &str = include_str!("../../reports/provider/paypal-stl.csv");
const ACTIVITY: &str = include_str!("../../reports/provider/paypal-activity.csv");
const PAYMENTS: &str = include_str!("../../reports/provider/stripe-payments.csv");

/// Files of a test in a folder of their own.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// One line for each thing that a report says.
fn told(paths: &[PathBuf], provider: Option<&str>, reading: &Reading) -> Result<Vec<String>, ReportError> {
    let report = Report::open(paths, &OpenOptions { provider, reading_for: &|_| reading.clone(), generic: &[] })?;
    let mut told = Vec::new();
    report.read(&mut |item| {
        told.push(match item {
            Item::Entry { entry, .. } => format!(
                "{} {} {:?} {:?} {:?}{}",
                entry.line,
                entry.reference.as_deref().unwrap_or("-"),
                entry.kind,
                entry.amount_minor,
                entry.status,
                if entry.review { format!(" review: {}", entry.notes.join("; ")) } else { String::new() }
            ),
            Item::Ignored(_, line) => format!("{} ignored: {}", line.line, line.reason),
            Item::Refused(row) => {
                format!("{} refused {} {:?}: {}", row.line, row.column.as_deref().unwrap_or("-"), row.raw, row.reason)
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(told)
}

fn read(bytes: impl AsRef<[u8]>, reading: &Reading) -> Result<Vec<String>, ReportError> {
    told(&[Folder::new().file("report.csv", bytes)], None, reading)
}

fn generic(rows: &str) -> Vec<String> {
    read(format!("{GENERIC}\n{rows}"), &Reading::default()).unwrap()
}

#[test]
fn a_report_that_cannot_be_trusted_is_refused_whole() {
    let payments_head = PAYMENTS.lines().next().unwrap();
    let default_columns =
        "balance_transaction_id,created_utc,available_on_utc,currency,gross,fee,net,reporting_category,description\n";
    let table: &[(&str, Vec<u8>, &[&str])] = &[
        ("empty", b"".to_vec(), &["is empty"]),
        ("only a byte order mark", "\u{feff}".into(), &["is empty"]),
        ("only blank lines", b"\n\r\n\n".to_vec(), &["is empty"]),
        ("binary", b"\x7fELF\0\0\0\x01".to_vec(), &["NUL", "not a CSV"]),
        ("unknown format", b"alpha,beta\n1,2\n".to_vec(), &["unknown report format", "alpha, beta", "stripe-payments"]),
        (
            "no currency column",
            b"provider_id,merchant_reference,amount,status,created_utc\na,b,1,paid,\n".to_vec(),
            &["needs the column(s) currency", "titles seen: provider_id, merchant_reference", "--currency"],
        ),
        ("default columns of a balance report", default_columns.into(), &["source_id", "run it again with"]),
        ("a needed title twice", format!("{GENERIC},amount\n").into(), &["\"amount\" stands twice"]),
        ("cut in a row", format!("{GENERIC}\na,r,1.00,EUR,paid,\nb,r2,2.0").into(), &["line 3", "cut off", "3 of 6"]),
        ("cut in a quoted cell", format!("{payments_head}\nch_1,\"2026").into(), &["line 2", "inside a quoted field"]),
        ("settlement without its last footer", STL.replace("\"FF\",15\n", "").into(), &["cut off", "FF footer"]),
        ("settlement with a missing row", without_line(STL, 6).into(), &["does not add up", "gross credits in USD"]),
        ("settlement with another count", STL.replace("\"SC\",15", "\"SC\",16").into(), &["line 23", "\"16\""]),
        (
            "settlement with another sum",
            STL.replace("\"SF\",\"JPY\",498000", "\"SF\",\"JPY\",498001").into(),
            &["498001"],
        ),
        ("settlement without a currency's sum", without_line(STL, 21).into(), &["no SF record", "JPY"]),
        ("a field without end", format!("{GENERIC}\n\"{}", "x".repeat(1 << 21)).into(), &["line 2", "1048576 bytes"]),
    ];
    for (flaw, bytes, sentences) in table {
        let error = read(bytes, &Reading::default()).expect_err(flaw);
        for sentence in *sentences {
            assert!(error.to_string().contains(sentence), "{flaw}: {error}");
        }
        assert!(!error.is_usage(), "{flaw}: {error}");
    }
}

fn without_line(text: &str, line: usize) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.remove(line - 1);
    lines.concat()
}

#[test]
fn a_wrong_call_says_what_to_state() {
    let folder = Folder::new();
    let good = folder.file("good.csv", format!("{GENERIC}\n"));
    let payments = folder.file("payments.csv", PAYMENTS);
    let in_doubt = folder.file("dates.csv", ACTIVITY.replace("03/29", "03/09").replace("03/", "04/"));
    let column = Reading { reference_column: Some("Order".into()), ..Reading::default() };
    let encoding = Reading { encoding: Some("klingon".into()), ..Reading::default() };
    let plain = Reading::default();
    let table: &[(Vec<PathBuf>, &Reading, &str)] = &[
        (vec![], &plain, "no report given"),
        (vec![folder.0.path().join("none.csv")], &plain, "no such file"),
        (vec![folder.0.path().to_owned()], &plain, "is a directory"),
        (vec![good.clone()], &column, "no column \"Order\" for --reference-column; its titles are: provider_id"),
        (vec![good.clone()], &encoding, "unknown encoding \"klingon\""),
        (vec![good, payments], &plain, "stripe-payments report, but the first file is a generic report"),
    ];
    for (paths, reading, sentence) in table {
        let error = told(paths, None, reading).unwrap_err();
        assert!(error.to_string().contains(sentence) && error.is_usage(), "{error}");
    }
    // 04/01 and 04/09 read in both orders, 04/12 too: nothing above twelve is left.
    let error = told(&[in_doubt], None, &plain).unwrap_err();
    assert!(error.to_string().contains("day/month or month/day") && error.is_usage(), "{error}");
}

#[test]
fn one_bad_row_is_refused_with_its_place_and_the_rest_goes_on() {
    let rows = "ch_1,r1,10000.50,JPY,paid,\n\
                ch_2,r2,1.00,QQQ,paid,\n\
                9.91214E+15,r3,1.00,EUR,paid,\n\
                ch_4,r4,1.00,EUR,mystery,\n\
                ch_5,r5,1.00,EUR\n\
                \"ch_6\"x,r6,1.00,EUR,paid,\n\
                ,,12.00,EUR,,\n\
                ch_8,r8,,EUR,paid,\n\
                4242424242424242,r9,4242 4242 4242 4242,EUR,paid,\n\
                ch_10,r10,1.00,EUR,paid,2026-05-01T00:00:00Z\n";
    let expected = [
        "2 refused amount \"10000.50\": more decimals than the currency has (currency JPY)",
        "3 refused currency \"QQQ\": unknown currency: its decimals are not known",
        "4 refused provider_id \"9.91214E+15\": spreadsheet number: the id was rounded, download the report again",
        "5 refused status \"mystery\": unknown status word: declare it under statuses of the generic format in jobs.toml",
        "6 refused - \"ch_5,r5,1.00,EUR\": the record has 4 cells, the title line has 6",
        "7 refused - \"\\\"ch_6\\\"x,r6,1.00,EUR,paid,\": text behind a closing quote",
        "8 refused provider_id \"\": neither a provider id nor a reference: a total, or a damaged row",
        "9 refused amount \"\": blank amount",
        "10 refused amount \"4242 42** **** 4242\": not a decimal number (currency EUR)",
        "11 r10 Charge Some(100) Succeeded",
    ];
    assert_eq!(generic(rows), expected);
}

#[test]
fn an_amount_is_never_guessed_without_its_decimal_mark() {
    let rows = "a,r1,1.000,EUR,paid,\nb,r2,\"1.355,90\",EUR,paid,\nc,r3,\"1,5\",EUR,paid,\n";
    for line in generic(rows) {
        assert!(line.contains("refused amount") && line.contains("state the decimal mark"), "{line}");
    }
    let comma = Reading { decimal_mark: Some(DecimalMark::Comma), ..Reading::default() };
    let read = read(format!("{GENERIC}\n{rows}"), &comma).unwrap();
    assert_eq!(
        read,
        ["2 r1 Charge Some(100000) Succeeded", "3 r2 Charge Some(135590) Succeeded", "4 r3 Charge Some(150) Succeeded"]
    );
    assert_eq!(generic("a,r1,1.234,KWD,paid,\n"), ["2 r1 Charge Some(1234) Succeeded"]);
}

#[test]
fn joined_files_preambles_and_blank_rows_are_told_and_skipped() {
    let text = format!(
        "My shop\n\"exported, today\"\n\n{GENERIC}\na,r1,1.00,EUR,paid,\n,,,,,\n\u{feff}{GENERIC}\nb,000123,2.00,EUR,,"
    );
    let expected = [
        "1 ignored: before the title line",
        "2 ignored: before the title line",
        "3 ignored: blank line",
        "4 ignored: the title line",
        "5 r1 Charge Some(100) Succeeded",
        "6 ignored: blank row",
        "7 ignored: the title line again: joined files",
        "8 000123 Charge Some(200) Succeeded",
    ];
    assert_eq!(read(text, &Reading::default()).unwrap(), expected);
}

#[test]
fn a_file_of_titles_only_is_readable_and_says_so() {
    let path = Folder::new();
    let path = path.file("titles.csv", GENERIC);
    let reading = Reading::default();
    let options = OpenOptions { provider: Some("acme"), reading_for: &|_| reading.clone(), generic: &[] };
    let report = Report::open(&[path], &options).unwrap();
    assert_eq!((report.format(), report.provider()), (Format::Generic, "acme"));
    assert!(report.notes().iter().any(|n| n.contains("titles and no rows")), "{:?}", report.notes());
}

#[test]
fn encodings_are_strict_and_told_or_stated() {
    let text = format!("{GENERIC}\nch_1,Müller,1.00,EUR,paid,\n");
    let expected = ["2 Müller Charge Some(100) Succeeded"];
    for little in [true, false] {
        let bytes: Vec<u8> = format!("\u{feff}{text}")
            .encode_utf16()
            .flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() })
            .collect();
        assert_eq!(read(bytes, &Reading::default()).unwrap(), expected);
    }
    let windows = text.replace('ü', "\u{fffd}").into_bytes();
    let windows: Vec<u8> =
        String::from_utf8(windows).unwrap().chars().map(|c| if c == '\u{fffd}' { 0xfc } else { c as u8 }).collect();
    let refused = read(&windows, &Reading::default()).unwrap();
    assert_eq!(
        refused,
        [
            "2 refused merchant_reference \"M\\\\xfcller\": the text is not UTF-8: state --encoding (windows-1252 for older files)"
        ]
    );
    let stated = Reading { encoding: Some("windows-1252".into()), ..Reading::default() };
    assert_eq!(read(&windows, &stated).unwrap(), expected);
    let mut broken: Vec<u8> = format!("\u{feff}{GENERIC}\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
    broken.extend([0x00, 0xd8, b'x', 0]);
    assert!(read(broken, &Reading::default()).unwrap_err().to_string().contains("not valid UTF-16LE"));
}

#[test]
fn the_two_parts_of_a_report_are_one_report_and_keep_their_own_columns() {
    let folder = Folder::new();
    let first = folder.file("1.csv", format!("{GENERIC}\na,r1,1.00,EUR,paid,\n"));
    let second = folder
        .file("2.csv", "created_utc,status,currency,amount,provider_id,merchant_reference\n,paid,EUR,2.00,b,r2\n");
    let told = told(&[first, second], None, &Reading::default()).unwrap();
    assert_eq!(told, ["2 r1 Charge Some(100) Succeeded", "2 r2 Charge Some(200) Succeeded"]);
}

#[test]
fn paypal_dates_follow_the_order_that_one_of_them_shows() {
    let day_first = ACTIVITY.replace("\"03/29/2026\"", "\"29/03/2026\"");
    let folder = Folder::new();
    let path = folder.file("activity.csv", day_first);
    let reading = Reading::default();
    let report =
        Report::open(&[path], &OpenOptions { provider: None, reading_for: &|_| reading.clone(), generic: &[] })
            .unwrap();
    let mut first = None;
    report
        .read(&mut |item| {
            if let Item::Entry { entry, .. } = item {
                first = entry.time_utc;
            }
            ControlFlow::Break(())
        })
        .unwrap();
    // 03/01/2026 is the third of January when 29/03/2026 stands in the same file.
    assert_eq!(first.unwrap().to_rfc3339(), "2026-01-03T17:00:00+00:00");
}

#[test]
fn our_own_file_is_read_to_charges_and_a_bad_row_in_it_is_an_error_with_its_place() {
    let folder = Folder::new();
    let head = "charge_id,idempotency_key,merchant_reference,provider_id,amount_minor,currency,status,created_at";
    let open = |text: String| LocalFile::open(&folder.file("local.csv", text), MinorUnits::Iso, &BTreeMap::new());
    let good = format!(
        "{head}\n1,k1,r1,ch_A,5000,USD,succeeded,2026-05-01T23:59:58Z\n2,k2,,,100,JPY,refunded,2026-05-01 00:00:00+00\n"
    );
    let mut charges = Vec::new();
    let file = open(good).unwrap();
    for _ in 0..2 {
        charges.clear();
        file.read(&mut |charge| {
            charges.push(charge.into_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    assert_eq!(charges.len(), 2);
    assert_eq!(
        (charges[0].amount_minor, charges[0].status, charges[0].refunded_minor),
        (5000, Status::Succeeded, None)
    );
    assert_eq!((charges[1].provider_id.clone(), charges[1].refunded_minor), (None, Some(100)));

    let table = [
        (format!("{head}\n1,k,r,p,50.00,USD,paid,2026-05-01T00:00:00Z\n"), "line 2, column amount_minor: \"50.00\""),
        (
            format!("{head}\n1,k,r,p,50,USD,odd,2026-05-01T00:00:00Z\n"),
            "line 2, column status: \"odd\": unknown status",
        ),
        (format!("{head}\n1,k,r,p,50,USD,paid,yesterday\n"), "line 2, column created_at: \"yesterday\""),
        (format!("{head}\n1,k,r\n2,k,r,p,50,USD,paid,2026-05-01T00:00:00Z\n"), "the record has 3 cells"),
        ("charge_id,amount_minor\n".to_owned(), "lacks the column(s) currency, status, created_at"),
    ];
    for (text, sentence) in table {
        let error = open(text).and_then(|f| f.read(&mut |_| ControlFlow::Continue(()))).unwrap_err();
        assert!(error.to_string().contains(sentence) && error.is_usage(), "{error}");
    }
}

#[test]
fn a_stripe_dispute_counts_as_loss_only_while_the_money_is_away() {
    let rows = [("lost", Some(Status::Succeeded)), ("under_review", Some(Status::Pending)), ("won", None)];
    for (word, expected) in rows {
        let text = PAYMENTS.replace(",fraudulent,lost,", &format!(",fraudulent,{word},"));
        let folder = Folder::new();
        let path = folder.file("payments.csv", text);
        let reading = Reading::default();
        let report =
            Report::open(&[path], &OpenOptions { provider: None, reading_for: &|_| reading.clone(), generic: &[] })
                .unwrap();
        let mut found = None;
        report
            .read(&mut |item| {
                if let Item::Entry { entry, .. } = item
                    && entry.kind == EntryKind::Chargeback
                {
                    found = Some(entry.status);
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(found, expected, "{word}");
    }
}

/// A format as jobs.toml declares it: minor units, own words, own pattern of times.
fn declared() -> GenericFormat {
    GenericFormat {
        provider: "acme".into(),
        columns: GenericColumns {
            provider_id: "Txn".into(),
            reference: Some("Order No".into()),
            amount: "Cents".into(),
            currency: None,
            status: Some("State".into()),
            time: Some("When".into()),
            fee: None,
            kind: Some("What".into()),
            parent: None,
        },
        minor_units: Some(MinorUnits::Iso),
        kinds: BTreeMap::from([("gutschrift".to_owned(), EntryKind::Refund)]),
        statuses: BTreeMap::from([("ok".to_owned(), GenericStatus::Is(Status::Succeeded))]),
        dated_by: DatedBy::Settled,
        time_format: Some("%d.%m.%Y %H:%M".into()),
        reading: Reading {
            currency: Currency::parse("EUR"),
            timezone: Some(chrono_tz::Tz::Europe__Berlin),
            ..Reading::default()
        },
    }
}

#[test]
fn a_declared_format_reads_by_its_own_titles_words_and_pattern() {
    let folder = Folder::new();
    let path = folder.file(
        "acme.csv",
        "Txn;Order No;Cents;State;When;What\nA1;r1;5000;OK;01.05.2026 14:00;\nA2;r1;-5000;ok;25.10.2026 02:30;Gutschrift\n\
         A3;r3;5,00;ok;;\n",
    );
    let (reading, generic) = (Reading::default(), [declared()]);
    let report = Report::open(
        &[path],
        &OpenOptions { provider: Some("acme"), reading_for: &|_| reading.clone(), generic: &generic },
    );
    let report = report.unwrap();
    assert_eq!((report.provider(), report.dated_by()), ("acme", DatedBy::Settled));
    let mut entries = Vec::new();
    let mut refused = Vec::new();
    report
        .read(&mut |item| {
            match item {
                Item::Entry { entry, .. } => entries.push(entry.into_owned()),
                Item::Refused(row) => refused.push(row),
                Item::Ignored(..) => {}
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((entries[0].kind, entries[0].amount_minor), (EntryKind::Charge, Some(5000)));
    assert_eq!(entries[0].time_utc.unwrap().to_rfc3339(), "2026-05-01T12:00:00+00:00");
    assert_eq!((entries[1].kind, entries[1].amount_minor), (EntryKind::Refund, Some(-5000)));
    assert!(entries[1].time_utc.is_none() && entries[1].review, "the hour exists twice");
    assert_eq!(refused[0].column.as_deref(), Some("Cents"));
}

#[test]
fn titles_that_two_formats_have_are_refused_until_the_provider_is_stated() {
    let mut like_stripe = declared();
    like_stripe.columns = GenericColumns {
        provider_id: "id".into(),
        reference: None,
        amount: "Amount".into(),
        currency: Some("Currency".into()),
        status: None,
        time: None,
        kind: None,
        ..like_stripe.columns
    };
    let folder = Folder::new();
    let path = folder.file("payments.csv", PAYMENTS);
    let (reading, generic) = (Reading::default(), [like_stripe]);
    let open = |provider| {
        Report::open(
            std::slice::from_ref(&path),
            &OpenOptions { provider, reading_for: &|_| reading.clone(), generic: &generic },
        )
    };
    let error = open(None).expect_err("two formats have these titles");
    assert!(error.to_string().contains("--provider") && error.to_string().contains("generic (acme)"), "{error}");
    assert!(!error.is_usage());
    assert_eq!(open(Some("stripe")).unwrap().format(), Format::StripePayments);
    assert_eq!(open(Some("acme")).unwrap().format(), Format::Generic);
}

#[test]
fn the_table_for_people_names_refused_rows_and_says_how_many_it_leaves_out() {
    let rows = "ch_1,r1,1.00,EUR,paid,\n".repeat(250);
    let path = Folder::new();
    let path = path.file("many.csv", format!("{GENERIC}\n{rows}x,r,oops,EUR,paid,\n"));
    let reading = Reading::default();
    let options = OpenOptions { provider: None, reading_for: &|_| reading.clone(), generic: &[] };
    let mut out = Vec::new();
    let refused = inspect(&[path], &options, Output::Table, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(refused);
    for sentence in [
        "generic report of generic",
        "... 50 more; --output csv prints all",
        "line 252, column amount: \"oops\": not a decimal number (currency EUR)",
        "250 entries (250 payments, 250 of them succeeded; 0 to look at), 0 records ignored, 1 refused",
    ] {
        assert!(text.contains(sentence), "{sentence:?} is not in\n{text}");
    }
}

#[test]
fn a_table_prepared_for_a_spreadsheet_runs_no_formula() {
    let path = Folder::new();
    let path = path.file("formula.csv", format!("{GENERIC}\nch_1,\"=HYPERLINK(\"\"http://x\"\")\",-1.00,EUR,paid,\n"));
    let reading = Reading::default();
    let options = OpenOptions { provider: None, reading_for: &|_| reading.clone(), generic: &[] };
    let mut out = Vec::new();
    inspect(&[path], &options, Output::Csv, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("\"'=HYPERLINK(\"\"http://x\"\")\"") && text.contains(",-100,"), "{text}");
}
