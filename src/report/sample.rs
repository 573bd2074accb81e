//! Findings made up for the tests of this room: a clean day, a bad day, a hostile day.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::entry::RefusedRow;
use crate::domain::mismatch::{Difference, Evidence, Kind, Mismatch, SideView, Standing, State, fingerprint, short_id};
use crate::domain::money::Currency;
use crate::domain::run::{Control, KindCount, MoneyLine, NonChargeSum, Reconciliation, ReportFile, RunHead, SCHEMA};

/// The morning on which the samples are read.
pub(super) fn now() -> DateTime<Utc> {
    "2026-05-05T06:30:00Z".parse().unwrap()
}

/// 20,000 charges that all agree.
pub(super) fn clean_day() -> Reconciliation {
    let eur = Currency::parse("EUR").unwrap();
    let usd = Currency::parse("USD").unwrap();
    let money = |currency, minor| MoneyLine {
        currency,
        local_minor: minor,
        provider_minor: minor,
        difference_minor: 0,
        explained_minor: 0,
        unexplained_minor: 0,
    };
    Reconciliation {
        schema: SCHEMA.to_owned(),
        run: RunHead {
            id: "0196a1b2-0000-7000-8000-000000000001".to_owned(),
            provider: "stripe".to_owned(),
            account: "acct_1".to_owned(),
            format: "stripe payments".to_owned(),
            files: vec![ReportFile {
                name: "payments-2026-05-01.csv".to_owned(),
                bytes: 3_410_882,
                sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
            }],
            identity: "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae".to_owned(),
            window_from: Some("2026-05-01T00:00:00Z".parse().unwrap()),
            window_to: Some("2026-05-02T00:00:00Z".parse().unwrap()),
            started_at: "2026-05-05T05:00:00Z".parse().unwrap(),
            duration_ms: 412,
            grace_hours: 72,
            version: "0.1.0".to_owned(),
            not_compared: Vec::new(),
        },
        control: Control {
            provider_rows: 20_000,
            provider_matched: 20_000,
            provider_ignored: 1,
            local_rows: 20_000,
            local_matched: 20_000,
            ..Control::default()
        },
        money: vec![money(eur, 91_230_455), money(usd, 123_456_789)],
        non_charge: Vec::new(),
        counts: BTreeMap::new(),
        mismatches: Vec::new(),
        refused: Vec::new(),
        notes: vec!["delimiter: comma".to_owned()],
    }
}

/// The clean day with `breaks` findings planted, of every kind that is listed one by one, all adding up.
pub(super) fn bad_day(breaks: usize) -> Reconciliation {
    let mut day = clean_day();
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|k| !matches!(k, Kind::FileRejected | Kind::DuplicateReportRow | Kind::NonChargeRow))
        .collect();
    for number in 0..breaks {
        let kind = kinds[(number * 7 + number / 13) % kinds.len()];
        let mismatch = planted(kind, number);
        let count = day.counts.entry(kind).or_default();
        count.total += 1;
        count.new += u64::from(mismatch.seen == Standing::New);
        count_rows(&mut day.control, &mismatch);
        let sides = [mismatch.local.as_ref(), mismatch.provider.as_ref()];
        let [local, provider] = sides.map(|s| s.filter(|s| s.status.as_deref() == Some("succeeded")));
        for (side, is_local) in [(local, true), (provider, false)] {
            let Some((minor, currency)) = side.and_then(|s| s.amount_minor.zip(s.currency)) else { continue };
            let zero = MoneyLine {
                currency,
                local_minor: 0,
                provider_minor: 0,
                difference_minor: 0,
                explained_minor: 0,
                unexplained_minor: 0,
            };
            let at = day.money.iter().position(|m| m.currency == currency).unwrap_or_else(|| {
                day.money.push(zero);
                day.money.len() - 1
            });
            let line = &mut day.money[at];
            if is_local {
                line.local_minor += i128::from(minor);
            } else {
                line.provider_minor += i128::from(minor);
            }
            line.difference_minor = line.provider_minor - line.local_minor;
            line.explained_minor = line.difference_minor;
        }
        if kind == Kind::UnparseableRow {
            day.refused.push(RefusedRow {
                file: 0,
                line: 100 + number as u64,
                column: Some("Amount".to_owned()),
                raw: "1.000,50".to_owned(),
                reason: "ambiguous number: state the decimal mark with --decimal-separator".to_owned(),
            });
        }
        day.mismatches.push(mismatch);
    }
    day.mismatches.sort_by_key(|m| (m.severity, std::cmp::Reverse(m.at_risk_minor), m.id.clone()));
    day.non_charge = vec![NonChargeSum {
        kind: "refund".to_owned(),
        currency: Currency::parse("EUR").unwrap(),
        rows: 41,
        sum_minor: -182_340,
    }];
    day.control.provider_non_charge += 41;
    day.control.provider_duplicate_rows += 3;
    day.control.provider_rows += 44;
    day.counts.insert(Kind::NonChargeRow, KindCount { total: 41, new: 0 });
    day.counts.insert(Kind::DuplicateReportRow, KindCount { total: 3, new: 0 });
    day.money.sort_by_key(|m| m.currency);
    day
}

fn count_rows(control: &mut Control, mismatch: &Mismatch) {
    if mismatch.kind == Kind::UnparseableRow {
        control.provider_refused += 1;
        control.provider_rows += 1;
        return;
    }
    let pending = mismatch.kind == Kind::TimingPending;
    if mismatch.provider.is_some() {
        control.provider_rows += 1;
        *(if pending { &mut control.provider_pending } else { &mut control.provider_in_breaks }) += 1;
    }
    if mismatch.local.is_some() {
        control.local_rows += 1;
        *(if pending { &mut control.local_pending } else { &mut control.local_in_breaks }) += 1;
    }
}

/// One finding of `kind`, different for each `number`.
pub(super) fn planted(kind: Kind, number: usize) -> Mismatch {
    let currency = Currency::parse(["USD", "EUR", "USD", "JPY", "KWD"][number % 5]).unwrap();
    let minor = 1_000 + i64::try_from(number * 7_919 % 90_000).unwrap();
    let at = now() - TimeDelta::hours([5, 30, 90, 150, 400, 900][number % 6]);
    let side = |id: &str, minor: i64, status: &str| {
        Some(SideView {
            ids: vec![id.to_owned()],
            amount_minor: Some(minor),
            currency: Some(currency),
            status: Some(status.to_owned()),
            occurred_at: Some(at),
        })
    };
    let (charge, payment) = (format!("{}", 810_000 + number), format!("ch_3P{number:06}aQ"));
    let ours = |status| side(&charge, minor, status);
    let theirs = |status| side(&payment, minor, status);
    let show = |minor: i64| crate::domain::money::format_minor(i128::from(minor), currency.exponent());
    let (local, provider, field, local_value, provider_value) = match kind {
        Kind::MissingLocally => (None, theirs("succeeded"), "amount", None, Some(show(minor))),
        Kind::MissingAtProvider | Kind::TimingPending => (ours("succeeded"), None, "amount", Some(show(minor)), None),
        Kind::StatusProviderSucceeded => {
            (ours("failed"), theirs("succeeded"), "status", Some("failed".into()), Some("succeeded".into()))
        }
        Kind::StatusProviderFailed => {
            (ours("succeeded"), theirs("failed"), "status", Some("succeeded".into()), Some("failed".into()))
        }
        Kind::AmountOver => (
            ours("succeeded"),
            side(&payment, minor * 100, "succeeded"),
            "amount",
            Some(show(minor)),
            Some(show(minor * 100)),
        ),
        Kind::AmountUnder => (
            ours("succeeded"),
            side(&payment, minor - 500, "succeeded"),
            "amount",
            Some(show(minor)),
            Some(show(minor - 500)),
        ),
        Kind::UnparseableRow | Kind::UnknownRowType => (None, None, "amount", None, Some("1.000,50".into())),
        _ => {
            (ours("succeeded"), theirs("succeeded"), "provider_id", Some(payment.clone()), Some(format!("{payment}2")))
        }
    };
    let risk =
        if matches!(kind, Kind::UnparseableRow | Kind::UnknownRowType | Kind::TimingPending) { 0 } else { minor };
    let reference = format!("order-2026-{number:05}");
    let print = fingerprint("stripe", "acct_1", kind, &reference);
    Mismatch {
        id: short_id(&print),
        fingerprint: print,
        kind,
        severity: kind.base_severity(),
        state: if kind == Kind::TimingPending { State::Pending } else { State::Open },
        seen: [
            Standing::New,
            Standing::StillOpen,
            Standing::StillOpen,
            Standing::New,
            Standing::Changed,
            Standing::StillOpen,
            Standing::Reopened,
        ][number % 7],
        reference: Some(reference),
        idempotency_key: local.as_ref().map(|_| format!("b7c1{number:04x}-5f0e-4a7e-9a51-0c5d{number:08x}")),
        provider_ids: provider.as_ref().map(|_| payment.clone()).into_iter().collect(),
        diff: vec![Difference { field: field.to_owned(), local: local_value, provider: provider_value }],
        at_risk_minor: risk,
        currency: local.as_ref().or(provider.as_ref()).map(|_| currency),
        rule: "the two sides of one payment were compared by merchant reference and do not say the same".to_owned(),
        suggestion: super::words::action(kind).to_owned(),
        occurred_at: local.as_ref().or(provider.as_ref()).map(|_| at),
        evidence: vec![
            Evidence {
                side: "report".to_owned(),
                source: "payments-2026-05-01.csv".to_owned(),
                line: Some(2 + number as u64),
                text: format!("charge {payment}, {}", show(minor)),
            },
            Evidence {
                side: "local".to_owned(),
                source: charge,
                line: None,
                text: "charge in idem.charges".to_owned(),
            },
        ],
        local,
        provider,
    }
}

/// Texts that attack whoever renders them, each with what must never come out of any document.
pub(super) const HOSTILE: [&str; 9] = [
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "=HYPERLINK(\"http://evil.example\",\"x\")",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "a\r\nBcc: e@evil.example",
    "\u{202e}gpj.exe\u{2066}",
    "card 4111111111111111",
    "{{ 7 * 7 }}{% raw %}",
];

/// A day on which every foreign text is hostile, and one is a megabyte long.
pub(super) fn hostile_day() -> Reconciliation {
    let mut day = bad_day(HOSTILE.len());
    let giant = "A".repeat(1_000_000);
    day.run.provider = format!("stripe{}", HOSTILE[5]);
    day.run.account = HOSTILE[0].to_owned();
    day.run.format = HOSTILE[1].to_owned();
    day.run.files[0].name = HOSTILE[0].to_owned();
    day.notes = HOSTILE.iter().map(ToString::to_string).chain([giant.clone()]).collect();
    day.run.not_compared = vec![HOSTILE[2].to_owned()];
    for (mismatch, text) in day.mismatches.iter_mut().zip(HOSTILE) {
        let own = || Some(text.to_owned());
        mismatch.reference = own();
        mismatch.idempotency_key = own();
        mismatch.provider_ids = vec![text.to_owned(), giant.clone()];
        for side in [&mut mismatch.local, &mut mismatch.provider].into_iter().flatten() {
            side.ids = vec![text.to_owned()];
            side.status = own();
        }
        mismatch.diff = vec![Difference { field: text.to_owned(), local: own(), provider: own() }];
        text.clone_into(&mut mismatch.rule);
        text.clone_into(&mut mismatch.suggestion);
        for evidence in &mut mismatch.evidence {
            text.clone_into(&mut evidence.source);
            text.clone_into(&mut evidence.text);
        }
    }
    day.refused = vec![RefusedRow {
        file: 0,
        line: 7,
        column: Some(HOSTILE[1].to_owned()),
        raw: HOSTILE[7].to_owned(),
        reason: HOSTILE[0].to_owned(),
    }];
    day
}
