//! Other shapes in which the same reports have been seen: older orders of columns, other languages, a spreadsheet between.

use std::ops::ControlFlow;

use idem_jobs::config::Reading;
use idem_jobs::formats::{Format, Item, OpenOptions, Report, ReportError};

const STL: &str = include_str!("../../reports/provider/paypal-stl.csv");

/// The format, and one line an entry: line, reference, provider id, kind, amount, currency, status, time.
fn read(bytes: impl AsRef<[u8]>) -> (Format, Vec<String>) {
    read_as(bytes, &Reading::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The same with what the operator states.
pub(crate) fn read_as(bytes: impl AsRef<[u8]>, reading: &Reading) -> Result<(Format, Vec<String>), ReportError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("report");
    std::fs::write(&path, bytes).expect("a temporary file");
    let report =
        Report::open(&[path], &OpenOptions { provider: None, reading_for: &|_| reading.clone(), generic: &[] })?;
    let mut lines = Vec::new();
    let read = report.read(&mut |item| {
        match item {
            Item::Entry { entry, .. } => lines.push(format!(
                "{} {} {} {:?} {:?} {} {:?} {}{}",
                entry.line,
                entry.reference.as_deref().unwrap_or("-"),
                entry.provider_id.as_deref().unwrap_or("-"),
                entry.kind,
                entry.amount_minor,
                entry.currency,
                entry.status,
                entry.time_utc.map_or_else(|| format!("{:?}", entry.time_raw), |t| t.format("%F %T").to_string()),
                if entry.review { " review" } else { "" },
            )),
            Item::Refused(row) => lines.push(format!("{} refused {:?} {}", row.line, row.column, row.reason)),
            Item::Ignored(..) => {}
        }
        ControlFlow::Continue(())
    });
    read?;
    lines.extend(report.late_notes().iter().map(|note| format!("late: {note}")));
    Ok((report.format(), lines))
}

#[test]
fn stripe_payments_in_the_order_before_2023() {
    let text = "id,Description,Seller Message,Created (UTC),Amount,Amount Refunded,Currency,Converted Amount,\
                Converted Amount Refunded,Fee,Tax,Converted Currency,Mode,Status,Captured,Disputed Amount,Dispute Status,\
                Dispute Date (UTC),order_id (metadata)\n\
                ch_1,,Payment complete.,2020-02-29 23:59,10.5,2.5,EUR,11.8,2.8,0.5,0,usd,Live,Paid,true,,,,77\n\
                ch_2,,,2020-03-01 00:00,5.00,0.00,eur,,,0,0,usd,Live,canceled,false,,,,78\n\
                ch_3,,,2020-03-01 00:00,5.00,0.00,eur,,,0,0,usd,Live,novelty,true,,,,79\n";
    let (format, lines) = read(text);
    assert_eq!(format, Format::StripePayments);
    assert_eq!(
        lines,
        [
            "2 77 ch_1 Charge Some(1050) EUR Succeeded 2020-02-29 23:59:00",
            "2 77 - Refund Some(-250) EUR Succeeded None",
            "3 78 ch_2 Void Some(0) EUR Canceled 2020-03-01 00:00:00",
            "4 79 ch_3 Unknown Some(500) EUR Pending 2020-03-01 00:00:00 review",
        ]
    );
}

#[test]
fn stripe_balance_history_of_2017_and_a_row_that_does_not_add_up() {
    let text = "id,Type,Source,Amount,Fee,Net,Currency,Created (UTC),Available On (UTC),Description,Transfer\n\
                txn_1,charge,ch_1,\"10.00\",0.59,9.41,usd,2017-06-01 10:00,2017-06-03 00:00,,\n\
                txn_2,transfer,po_1,-9.41,0.00,-9.41,usd,2017-06-02 10:00,2017-06-03 00:00,,\n\
                txn_3,charge,ch_2,10.00,0.59,94.10,usd,2017-06-01 10:00,2017-06-03 00:00,,\n";
    let (format, lines) = read(text);
    assert_eq!(format, Format::StripeHistory);
    assert_eq!(
        lines,
        [
            "2 - ch_1 Charge Some(1000) USD Succeeded 2017-06-01 10:00:00",
            "3 - po_1 Payout Some(-941) USD Succeeded 2017-06-02 10:00:00",
            "4 - ch_2 Charge Some(1000) USD Succeeded 2017-06-01 10:00:00 review",
        ]
    );
}

#[test]
fn adyen_rows_in_other_letters_and_of_unknown_type() {
    let text = "Merchant Account,Merchant Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,\
                Gross Debit (GC),Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC),Psp Reference\n\
                Shop,ord-1,2026-07-01 10:00:00,CEST,SETTLED,8816499900000001,EUR,,10,EUR,,9.9,8816400000000001\n\
                Shop,ord-2,2026-07-01 10:00:00,CET,Novelty,8816499900000002,EUR,.11,,EUR,.11,,8816400000000002\n\
                Shop,,2026-07-02 10:00:00,PDT,BalanceTransfer,x,,,,EUR,9.79,,\n";
    let (format, lines) = read(text);
    assert_eq!(format, Format::AdyenSettlement);
    assert_eq!(
        lines,
        [
            "2 ord-1 8816400000000001 Charge Some(1000) EUR Succeeded 2026-07-01 08:00:00",
            "3 ord-2 8816499900000002 Unknown Some(-11) EUR Succeeded Some(\"2026-07-01 10:00:00\") review",
            "4 - - Transfer Some(-979) EUR Succeeded 2026-07-02 17:00:00",
        ]
    );
}

#[test]
fn paypal_settlement_as_utf_16_with_tabs_and_titles_without_blanks() {
    let text: String = STL
        .lines()
        .map(|line| {
            let line = if line.starts_with("\"CH\"") { line.replace(' ', "") } else { line.to_owned() };
            format!("{}\r\n", line.replace(',', "\t"))
        })
        .fold(String::from("\u{feff}"), |text, line| text + &line);
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(bytes), read(STL));
}

#[test]
fn paypal_settlement_that_went_through_a_spreadsheet() {
    let widest = STL.lines().map(|l| l.matches(',').count()).max().expect("it has lines");
    let text = STL.lines().skip(2).fold(String::new(), |text, line| {
        let commas = ",".repeat(widest - line.matches(',').count());
        text + &line.replace('"', "") + &commas + "\n"
    });
    let (format, lines) = read(text);
    assert_eq!((format, lines.len()), (Format::PaypalSettlement, 16));
    assert!(lines[15].contains("it went through a spreadsheet"), "{}", lines[15]);
    // Two records fewer stand before the rows.
    assert_eq!(lines[0], "3 ord-80001 9DM00001XA000001U Charge Some(4999) USD Succeeded 2026-01-06 08:00:01");
}

#[test]
fn paypal_settlement_with_an_amount_that_is_no_whole_yen() {
    let text = STL.replace("498000", "498050").replace("477500", "477550");
    let (_, lines) = read(text);
    assert_eq!(lines[2], "7 ord-80003 9DM00003XA000003U Charge None JPY Succeeded 2026-01-06 11:00:00 review");
}

#[test]
fn paypal_statements_and_downloads_in_their_other_shapes() {
    let statement = "\"Date\",\"Time\",\"Time Zone\",\"Description\",\"Currency\",\"Gross\",\"Fee\",\"Net\",\"Balance\",\
                     \"Transaction ID\",\"Invoice ID\",\"Reference Txn ID\"\n\
                     \"29/03/2026\",\"03:30:00\",\"Europe/Berlin\",\"Express Checkout Payment\",\"EUR\",\"1,234.50\",\"-1.00\",\
                     \"1,233.50\",\"1,233.50\",\"1AB\",\"ord-1\",\"B-12345\"\n\
                     \"04/03/2026\",\"12:00:00\",\"Europe/Berlin\",\"Payment Refund\",\"EUR\",\"-5.00\",\"0.00\",\"-4.00\",\
                     \"1,233.50\",\"1AC\",\"ord-1\",\"1AB\"\n";
    let spanish = "Fecha,Hora,Zona horaria,Descripción,Divisa,Bruto,Comisión,Neto,Saldo,Id. de transacción,Id. de factura,\
                   Id. de referencia de trans.,,,\n\
                   01/02/2026,10:00:00,CET,Pago rápido,EUR,\"1.000,00\",\"-1,00\",\"999,00\",\"0,00\",2AB,ord-2,,,,\n\
                   13/02/2026,10:00:00,CET,Pago rápido,EUR,\"1,00\",\"0,00\",\"1,00\",\"0,00\",2AC,ord-3,\n";
    let old = "Date, Time, Time Zone, Name, Type, Status, Currency, Gross, Fee, Net, Transaction ID, Invoice Number,\n\
               \"1/31/2014\",\"08:00:00\",\"PST\",\"Ada\",\"Web Accept Payment Received\",\"Completed\",\"USD\",\"9.00\",\"-1.00\",\
               \"8.00\",\"3AB\",\"ord-4\",\n";
    for (text, expected) in [
        (
            statement,
            &[
                "2 ord-1 1AB Charge Some(123450) EUR Succeeded 2026-03-29 01:30:00",
                "3 ord-1 1AC Refund Some(-500) EUR Succeeded 2026-03-04 11:00:00 review",
            ][..],
        ),
        (
            spanish,
            &[
                "2 ord-2 2AB Unknown Some(100000) EUR Succeeded 2026-02-01 09:00:00 review",
                "3 ord-3 2AC Unknown Some(100) EUR Succeeded 2026-02-13 09:00:00 review",
            ],
        ),
        (old, &["2 ord-4 3AB Charge Some(900) USD Succeeded 2014-01-31 16:00:00"]),
    ] {
        assert_eq!(read(text), (Format::PaypalActivity, expected.iter().map(|l| (*l).to_owned()).collect()));
    }
}
