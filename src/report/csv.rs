//! `mismatches.csv`: one finding a row, for spreadsheets, harmless when opened in one.
//!
//! RFC 4180: commas, CR LF, quotes where needed, UTF-8 without a byte order mark, one title line.
//! Columns, in this order: [`TITLES`]. Amounts are plain decimals in major units with a point and no
//! grouping; lists are joined by `"; "`. A text cell that a spreadsheet could take for a formula, or that
//! begins with an apostrophe itself, gets one apostrophe in front: taking one leading apostrophe away
//! always gives the text back.

use chrono::{DateTime, Utc};

use super::clean::{clean_mismatch, visible};
use super::figures::{age_days, instant};
use crate::domain::mismatch::{Mismatch, SideView};
use crate::domain::money::format_minor;
use crate::domain::run::Reconciliation;

/// The columns.
pub(super) const TITLES: [&str; 24] = [
    "id",
    "severity",
    "kind",
    "seen",
    "state",
    "reference",
    "idempotency_key",
    "local_ids",
    "provider_ids",
    "currency",
    "at_risk",
    "local_amount",
    "local_currency",
    "local_status",
    "provider_amount",
    "provider_currency",
    "provider_status",
    "occurred_at",
    "age_days",
    "differences",
    "rule",
    "suggestion",
    "evidence",
    "fingerprint",
];

/// Longest text of a cell that joins a list, in characters; spreadsheets end at 32,767.
const CELL_CHARS_MAX: usize = 4_000;

/// Every finding.
pub(super) fn all(found: &Reconciliation, now: DateTime<Utc>) -> Vec<u8> {
    first(found, now, usize::MAX)
}

/// The first `rows_max` findings, the worst ones as the findings are sorted.
///
/// # Panics
/// Never: memory takes every write.
pub(super) fn first(found: &Reconciliation, now: DateTime<Utc>, rows_max: usize) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(TITLES).expect("a Vec takes every write");
    for mismatch in found.mismatches.iter().take(rows_max) {
        writer
            .write_record(cells(&clean_mismatch(mismatch), now))
            .expect("a Vec takes every write of equally long records");
    }
    writer.into_inner().expect("a Vec takes every write")
}

fn cells(m: &Mismatch, now: DateTime<Utc>) -> [String; TITLES.len()] {
    let optional = |text: &Option<String>| guarded(text.as_deref().unwrap_or_default());
    let joined = |parts: Vec<String>| guarded(&parts.join("; "));
    let (local, provider) = (side(m.local.as_ref()), side(m.provider.as_ref()));
    let shown = |value: &Option<String>| value.as_deref().unwrap_or("nothing").to_owned();
    let differences =
        m.diff.iter().map(|d| format!("{}: {} -> {}", d.field, shown(&d.local), shown(&d.provider))).collect();
    let evidence = m.evidence.iter().map(|e| {
        let line = e.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{} {}{line} {}", e.side, e.source, e.text)
    });
    [
        guarded(&m.id),
        m.severity.as_str().to_owned(),
        m.kind.as_str().to_owned(),
        m.seen.as_str().to_owned(),
        m.state.as_str().to_owned(),
        optional(&m.reference),
        optional(&m.idempotency_key),
        joined(m.local.iter().flat_map(|s| s.ids.iter().cloned()).collect()),
        joined(m.provider_ids.clone()),
        m.currency.map(|c| c.to_string()).unwrap_or_default(),
        m.currency.map(|c| format_minor(i128::from(m.at_risk_minor), c.exponent())).unwrap_or_default(),
        local.0,
        local.1,
        local.2,
        provider.0,
        provider.1,
        provider.2,
        m.occurred_at.map(instant).unwrap_or_default(),
        m.occurred_at.map(|at| age_days(now, at).to_string()).unwrap_or_default(),
        joined(differences),
        guarded(&m.rule),
        guarded(&m.suggestion),
        joined(evidence.collect()),
        m.fingerprint.clone(),
    ]
}

/// Amount, currency, status.
fn side(side: Option<&SideView>) -> (String, String, String) {
    let Some(side) = side else { return Default::default() };
    let amount = side.amount_minor.zip(side.currency).map(|(minor, c)| format_minor(i128::from(minor), c.exponent()));
    (
        amount.unwrap_or_default(),
        side.currency.map(|c| c.to_string()).unwrap_or_default(),
        guarded(side.status.as_deref().unwrap_or_default()),
    )
}

/// A text cell that no spreadsheet takes for a formula (OWASP, "CSV injection": `=`, `+`, `-`, `@`, tab,
/// carriage return, also their full-width forms and after blanks).
fn guarded(text: &str) -> String {
    let start = text.trim_start_matches(' ').chars().next();
    let formula = matches!(
        start,
        Some('=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '\u{ff1d}' | '\u{ff0b}' | '\u{ff0d}' | '\u{ff20}')
    );
    let mut shown = visible(text).into_owned();
    if let Some((cut, _)) = shown.char_indices().nth(CELL_CHARS_MAX) {
        shown.truncate(cut);
        shown.push_str("... [cut]");
    }
    if formula || text.starts_with('\'') { format!("'{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{HOSTILE, bad_day, clean_day, hostile_day, now};
    use super::*;

    fn read(bytes: &[u8]) -> Vec<csv::StringRecord> {
        let mut reader = csv::Reader::from_reader(bytes);
        assert_eq!(reader.headers().unwrap(), &csv::StringRecord::from(TITLES.to_vec()));
        reader.records().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn each_finding_reads_back_with_its_values() {
        let day = bad_day(60);
        let records = read(&all(&day, now()));
        assert_eq!(records.len(), 60);
        for (record, mismatch) in records.iter().zip(&day.mismatches) {
            assert_eq!(record[0], mismatch.id);
            assert_eq!(record[2], *mismatch.kind.as_str());
            assert_eq!(Some(&record[5]), mismatch.reference.as_deref());
            assert_eq!(record[23], mismatch.fingerprint);
            let Some(currency) = mismatch.currency else {
                assert_eq!((&record[9], &record[10]), ("", ""));
                continue;
            };
            assert_eq!(record[9], *currency.as_str());
            assert_eq!(record[10], format_minor(i128::from(mismatch.at_risk_minor), currency.exponent()));
        }
    }

    #[test]
    fn a_clean_day_is_the_title_line_alone_and_a_cap_keeps_the_worst() {
        assert_eq!(read(&all(&clean_day(), now())).len(), 0);
        let day = bad_day(60);
        let capped = read(&first(&day, now(), 7));
        assert_eq!(
            capped.iter().map(|r| r[0].to_owned()).collect::<Vec<_>>(),
            day.mismatches[..7].iter().map(|m| m.id.clone()).collect::<Vec<_>>()
        );
    }

    #[test]
    fn no_cell_is_a_formula_and_no_line_breaks_inside_one() {
        let bytes = all(&hostile_day(), now());
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(text.matches('\n').count(), HOSTILE.len() + 1);
        assert_eq!(text.matches("\r\n").count(), HOSTILE.len() + 1);
        assert!(!text.contains("4111111111111111") && !text.contains('\u{202e}'));
        assert!(text.len() < 200_000, "a megabyte in one field stays outside: {}", text.len());
        for record in read(&bytes) {
            for cell in &record {
                assert!(!cell.starts_with(['=', '+', '@', '\t', '\r']), "{cell}");
            }
        }
    }

    #[test]
    fn money_is_a_plain_number_and_never_guarded() {
        let mut day = bad_day(1);
        let side = day.mismatches[0].provider.as_mut().unwrap();
        side.amount_minor = Some(-123_456);
        let records = read(&all(&day, now()));
        assert_eq!((&records[0][14], &records[0][15]), ("-1234.56", "USD"));
    }

    #[test]
    fn what_is_guarded() {
        for (text, expected) in [
            ("=1+1", "'=1+1"),
            (" =1", "' =1"),
            ("-5", "'-5"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("\t=1", "'[U+0009]=1"),
            ("'quoted", "''quoted"),
            ("plain=1", "plain=1"),
            ("", ""),
        ] {
            assert_eq!(guarded(text), expected);
        }
    }

    proptest! {
        #[test]
        fn taking_one_apostrophe_away_gives_the_text_back(text in "['=+@ a-c\\-]{0,12}") {
            let cell = guarded(&text);
            prop_assert_eq!(cell.strip_prefix('\'').unwrap_or(&cell), text);
        }
    }
}
