//! Samples of real report formats against values that were written down by hand, and laws that hold for all of them.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use idem_jobs::config::Reading;
use idem_jobs::domain::entry::Entry;
use idem_jobs::domain::money::Currency;
use idem_jobs::formats::{Format, Item, OpenOptions, Report, ReportError};
use idem_jobs::operator::inspect::{Output, inspect};
use proptest::prelude::*;
use serde_json::Value;

/// A sample and the format that it is in.
const SAMPLES: &[(&str, Format)] = &[
    ("generic", Format::Generic),
    ("stripe-payments", Format::StripePayments),
    ("stripe-balance-change", Format::StripeBalance),
    ("stripe-payout-reconciliation", Format::StripeBalance),
    ("stripe-balance-history", Format::StripeHistory),
    ("adyen-settlement-detail", Format::AdyenSettlement),
    ("adyen-settlement-detail-wide", Format::AdyenSettlement),
    ("paypal-stl", Format::PaypalSettlement),
    ("paypal-stl-empty-day", Format::PaypalSettlement),
    ("paypal-activity", Format::PaypalActivity),
    ("paypal-activity-de", Format::PaypalActivity),
    ("paypal-trr", Format::PaypalTransactions),
    ("adyen-payment-accounting", Format::AdyenAccounting),
    ("adyen-received-payments", Format::AdyenReceived),
    ("braintree-transactions", Format::Braintree),
    ("square-transactions", Format::Square),
    ("checkout-financial-actions", Format::CheckoutActions),
    ("checkout-settlement-breakdown", Format::CheckoutBreakdown),
    ("worldpay-financial-detail", Format::Worldpay),
    ("razorpay-payments", Format::RazorpayPayments),
    ("razorpay-settlement-recon", Format::RazorpayRecon),
    ("razorpay-refunds", Format::RazorpayRefunds),
    ("mollie-settlement", Format::Mollie),
    ("gocardless-payments", Format::GocardlessPayments),
    ("gocardless-payout-transactions", Format::GocardlessPayouts),
    ("klarna-settlement", Format::Klarna),
    ("mercadopago-account-money", Format::MercadoPago),
    ("amazonpay-settlement", Format::AmazonPay),
    ("shopify-payment-transactions", Format::Shopify),
];

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("reports/provider/{name}.csv"))
}

fn expected(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/expected/{name}.expected.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What the operator has to state about a sample because the file does not say it.
fn given(name: &str) -> Reading {
    let currency = expected(name)["given"]["currency"].as_str().map(|code| Currency::parse(code).unwrap());
    Reading { currency, ..Reading::default() }
}

fn open(path: PathBuf, provider: Option<&str>, reading: &Reading) -> Result<Report, ReportError> {
    Report::open(&[path], &OpenOptions { provider, reading_for: &|_| reading.clone(), generic: &[] })
}

fn inspected(path: &Path, reading: &Reading, output: Output) -> String {
    let mut out = Vec::new();
    let options = OpenOptions { provider: None, reading_for: &|_| reading.clone(), generic: &[] };
    inspect(&[path.to_owned()], &options, output, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A row without remarks, and without the fields that say nothing.
fn facts(row: &Value) -> Value {
    let mut row = row.as_object().unwrap().clone();
    row.remove("notes");
    row.retain(|_, value| !value.is_null() && *value != Value::Bool(false));
    Value::Object(row)
}

fn lines(ignored: &Value) -> Vec<u64> {
    ignored.as_array().unwrap().iter().map(|line| line["line"].as_u64().unwrap()).collect()
}

#[test]
fn every_sample_reads_to_the_values_that_were_written_down_by_hand() {
    for (name, format) in SAMPLES {
        let expected = expected(name);
        let reading =
            Reading { reference_column: expected["reference_column"].as_str().map(str::to_owned), ..given(name) };
        let found: Value = serde_json::from_str(&inspected(&sample(name), &reading, Output::Json)).unwrap();
        assert_eq!(found["report"], format.name(), "{name}");
        for field in ["provider", "payment_rows", "payment_rows_succeeded", "counts"] {
            assert_eq!(found[field], expected[field], "{name}: {field}");
        }
        let (rows, wanted) = (found["rows"].as_array().unwrap(), expected["rows"].as_array().unwrap());
        for (row, wanted) in rows.iter().zip(wanted) {
            assert_eq!(facts(row), facts(wanted), "{name}");
        }
        assert_eq!(rows.len(), wanted.len(), "{name}");
        assert_eq!(lines(&found["ignored_lines"]), lines(&expected["ignored_lines"]), "{name}");
        assert_eq!(found["refused"], serde_json::json!([]), "{name}");
    }
}

#[test]
fn every_format_has_a_sample_that_is_recognised_as_itself_and_as_nothing_else() {
    for &format in Format::ALL {
        assert!(SAMPLES.iter().any(|(_, f)| *f == format), "{} has no sample", format.name());
    }
    for (name, format) in SAMPLES {
        // With every provider allowed there must be one answer.
        let reading = given(name);
        let report = open(sample(name), None, &reading).unwrap();
        assert_eq!(report.format(), *format, "{name}");
        for &other in Format::ALL {
            if other.provider() != format.provider() {
                let refused = open(sample(name), Some(other.provider()), &reading);
                let error = refused.err().unwrap_or_else(|| panic!("{name} was read as {}", other.provider()));
                assert!(!error.is_usage(), "{name}: {error}");
            }
        }
    }
}

/// Everything that a report says, kept.
#[derive(Debug, Default, PartialEq)]
struct Kept {
    entries: Vec<Entry<'static>>,
    ignored: Vec<u64>,
    refused: Vec<String>,
}

fn kept(path: &Path, reading: &Reading) -> Result<Kept, ReportError> {
    let report = open(path.to_owned(), None, reading)?;
    let mut kept = Kept::default();
    report.read(&mut |item| {
        match item {
            Item::Entry { entry, .. } => kept.entries.push(entry.into_owned()),
            Item::Ignored(_, line) => kept.ignored.push(line.line),
            Item::Refused(row) => kept.refused.push(format!("line {} {:?}: {}", row.line, row.column, row.reason)),
        }
        ControlFlow::Continue(())
    })?;
    Ok(kept)
}

fn kept_bytes(bytes: &[u8], reading: &Reading) -> Result<Kept, ReportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.csv");
    std::fs::write(&path, bytes).unwrap();
    kept(&path, reading)
}

/// Samples that are plain tables: in the others the place of a cell means something.
const TABLES: &[&str] = &[
    "generic",
    "stripe-payments",
    "stripe-balance-change",
    "stripe-payout-reconciliation",
    "stripe-balance-history",
    "adyen-settlement-detail",
    "adyen-settlement-detail-wide",
    "paypal-activity",
    "paypal-activity-de",
    "adyen-payment-accounting",
    "adyen-received-payments",
    "braintree-transactions",
    "square-transactions",
    "checkout-financial-actions",
    "checkout-settlement-breakdown",
    "worldpay-financial-detail",
    "razorpay-payments",
    "razorpay-settlement-recon",
    "razorpay-refunds",
    "mollie-settlement",
    "gocardless-payments",
    "gocardless-payout-transactions",
    "mercadopago-account-money",
    "shopify-payment-transactions",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn order_of_columns_unknown_columns_line_ends_marks_and_quoting_change_nothing(
        name in sample_of(TABLES),
        order in any::<u64>(),
        unknown_columns in 0_usize..3,
        crlf: bool,
        bom: bool,
        quote_all: bool,
        semicolon: bool,
        capitals: bool,
    ) {
        let text = std::fs::read_to_string(sample(name)).unwrap();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut table: Vec<Vec<String>> = csv::ReaderBuilder::new().has_headers(false).delimiter(delimiter_of(text)).from_reader(text.as_bytes())
            .records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect();
        for number in 0..unknown_columns {
            for (at, record) in table.iter_mut().enumerate() {
                record.push(if at == 0 { format!("Novelty {number}") } else { "=1,\"2\";".to_owned() });
            }
        }
        if capitals {
            table[0].iter_mut().for_each(|title| *title = format!(" {}", title.to_uppercase()));
        }
        let columns = shuffled(table[0].len(), order);
        let style = if quote_all { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
        let ends = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let delimiter = if semicolon { b';' } else { b',' };
        let mut writer = csv::WriterBuilder::new().quote_style(style).terminator(ends).delimiter(delimiter)
            .from_writer(if bom { "\u{feff}".as_bytes().to_vec() } else { Vec::new() });
        for record in &table {
            writer.write_record(columns.iter().map(|&at| &record[at])).unwrap();
        }
        let reading = given(name);
        let changed = kept_bytes(&writer.into_inner().unwrap(), &reading).unwrap();
        prop_assert_eq!(changed, kept(&sample(name), &reading).unwrap());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = kept_bytes(&bytes, &Reading::default());
    }

    #[test]
    fn a_damaged_sample_never_panics_and_never_gives_more_than_it_had(
        at in any::<proptest::sample::Index>(),
        (name, _) in proptest::sample::select(SAMPLES.to_vec()),
        byte: u8,
        harm in 0..4,
    ) {
        let mut bytes = std::fs::read(sample(name)).unwrap();
        let at = at.index(bytes.len());
        match harm {
            0 => bytes[at] = byte,
            1 => { bytes.remove(at); }
            2 => bytes.insert(at, byte),
            _ => bytes.truncate(at),
        }
        let reading = given(name);
        if let Ok(kept) = kept_bytes(&bytes, &reading) {
            let whole = self::kept(&sample(name), &reading).unwrap();
            // One byte can split a record in two, and not more.
            prop_assert!(kept.entries.len() + kept.refused.len() <= whole.entries.len() + 2);
        }
    }
}

/// The delimiter that the title line is written with.
fn delimiter_of(text: &str) -> u8 {
    let titles = text.lines().next().unwrap_or_default();
    if titles.matches(';').count() > titles.matches(',').count() { b';' } else { b',' }
}

fn sample_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(names)
}

/// An order of `count` columns that `seed` decides.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed;
    for last in (1..count).rev() {
        // Knuth's generator: any spread of orders will do.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    order
}
