//! Foreign text made harmless before any renderer sees it: card numbers masked, length bounded, and
//! characters that hide or reorder text shown by their code.
//!
//! Escaping for HTML, CSV or mail headers is each renderer's own business and never done here.

use std::borrow::Cow;
use std::fmt::Write;

use crate::domain::entry::RefusedRow;
use crate::domain::mask::mask_card_numbers;
use crate::domain::mismatch::{Difference, Evidence, Mismatch, SideView};
use crate::domain::run::{Reconciliation, ReportFile, RunHead};

/// Longest text of one field in any document, in characters: longer than any real reference or reason.
const TEXT_CHARS_MAX: usize = 500;

/// The same findings with every foreign text masked and bounded. Hashes, ids of ours and numbers stay.
pub(super) fn clean(found: &Reconciliation) -> Reconciliation {
    Reconciliation { mismatches: found.mismatches.iter().map(clean_mismatch).collect(), ..clean_frame(found) }
}

/// The same without the mismatches, for those who want few of them: there can be very many.
pub(super) fn clean_frame(found: &Reconciliation) -> Reconciliation {
    let all = |texts: &[String]| texts.iter().map(|t| bounded(t)).collect();
    Reconciliation {
        schema: found.schema.clone(),
        run: RunHead {
            provider: bounded(&found.run.provider),
            account: bounded(&found.run.account),
            files: found.run.files.iter().map(|f| ReportFile { name: bounded(&f.name), ..f.clone() }).collect(),
            not_compared: all(&found.run.not_compared),
            ..found.run.clone()
        },
        control: found.control,
        money: found.money.clone(),
        non_charge: found.non_charge.clone(),
        counts: found.counts.clone(),
        mismatches: Vec::new(),
        refused: found.refused.iter().map(clean_refused).collect(),
        notes: all(&found.notes),
    }
}

/// One mismatch, masked and bounded.
pub(super) fn clean_mismatch(mismatch: &Mismatch) -> Mismatch {
    let optional = |text: &Option<String>| text.as_deref().map(bounded);
    let side = |side: &SideView| SideView {
        ids: side.ids.iter().map(|id| bounded(id)).collect(),
        status: optional(&side.status),
        ..side.clone()
    };
    Mismatch {
        id: mismatch.id.clone(),
        fingerprint: mismatch.fingerprint.clone(),
        kind: mismatch.kind,
        severity: mismatch.severity,
        state: mismatch.state,
        seen: mismatch.seen,
        reference: optional(&mismatch.reference),
        idempotency_key: optional(&mismatch.idempotency_key),
        provider_ids: mismatch.provider_ids.iter().map(|id| bounded(id)).collect(),
        local: mismatch.local.as_ref().map(side),
        provider: mismatch.provider.as_ref().map(side),
        diff: mismatch
            .diff
            .iter()
            .map(|d| Difference {
                field: bounded(&d.field),
                local: optional(&d.local),
                provider: optional(&d.provider),
            })
            .collect(),
        at_risk_minor: mismatch.at_risk_minor,
        currency: mismatch.currency,
        rule: bounded(&mismatch.rule),
        suggestion: bounded(&mismatch.suggestion),
        occurred_at: mismatch.occurred_at,
        evidence: mismatch
            .evidence
            .iter()
            .map(|e| Evidence {
                side: bounded(&e.side),
                source: bounded(&e.source),
                line: e.line,
                text: bounded(&e.text),
            })
            .collect(),
    }
}

fn clean_refused(row: &RefusedRow) -> RefusedRow {
    RefusedRow {
        file: row.file,
        line: row.line,
        column: row.column.as_deref().map(bounded),
        raw: bounded(&row.raw),
        reason: bounded(&row.reason),
    }
}

/// One foreign text that stands outside of the findings: masked, bounded and visible.
pub(super) fn foreign(text: &str) -> String {
    visible(&bounded(text)).into_owned()
}

/// Masked first and cut afterwards, so that no half of a card number survives the cut.
fn bounded(text: &str) -> String {
    let masked = mask_card_numbers(text);
    match masked.char_indices().nth(TEXT_CHARS_MAX) {
        None => masked.into_owned(),
        Some((cut, _)) => format!("{}... [cut, {} bytes]", &masked[..cut], text.len()),
    }
}

/// Shows control characters, line breaks and what reorders or hides text (bidirectional overrides,
/// zero-width characters) by code, as in `[U+202E]`.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            write!(shown, "[U+{:04X}]", u32::from(c)).expect("writing to a String cannot fail");
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Whether a character shows nothing itself but changes what is seen around it.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown_by_code() {
        assert_eq!(visible("plain é"), "plain é");
        assert_eq!(visible("a\r\nBcc: x"), "a[U+000D][U+000A]Bcc: x");
        assert_eq!(visible("\u{202e}fdp"), "[U+202E]fdp");
        assert_eq!(visible("\u{feff}id\u{200b}"), "[U+FEFF]id[U+200B]");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so_and_no_card_number_survives_the_cut() {
        let text = format!("{}4111111111111111{}", "x".repeat(TEXT_CHARS_MAX - 12), "y".repeat(1_000_000));
        let bounded = bounded(&text);
        assert!(bounded.len() < TEXT_CHARS_MAX + 40, "{}", bounded.len());
        assert!(bounded.ends_with("411111******... [cut, 1000504 bytes]"), "{}", &bounded[480..]);
        assert_eq!(super::bounded("ünïcödé"), "ünïcödé");
    }
}
