//! Other shapes of the reports that one sample cannot show: words, signs, orders of columns, missing columns, damage.

use idem_jobs::config::Reading;
use idem_jobs::domain::money::{Currency, DecimalMark};
use idem_jobs::formats::{Format, ReportError};

use super::sibling_reports::read_as;

/// A file, what it is, and one line an entry.
fn check(text: &str, format: Format, expected: &[&str]) {
    check_as(text, &Reading::default(), format, expected);
}

fn check_as(text: &str, reading: &Reading, format: Format, expected: &[&str]) {
    let (found, lines) = read_as(text, reading).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(found, format);
    assert_eq!(lines, expected, "{text}");
}

fn refusal(text: &str) -> String {
    read_as(text, &Reading::default()).expect_err("it is refused").to_string()
}

fn sample(name: &str) -> String {
    std::fs::read_to_string(format!("{}/reports/provider/{name}.csv", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn adyen_accounting_steps_of_captures_and_refunds_in_parts() {
    let titles = "Psp Reference,Merchant Reference,Booking Date,TimeZone,Record Type,Modification Psp Reference,\
                  Main Currency,Main Amount,Payment Currency,Received (PC),Authorised (PC),Captured (PC),\
                  Settlement Currency,Payable (SC),Settlement Currency\n";
    let rows = "P1,o1,2026-01-05 10:00:00,CET,SentForSettle,M2,EUR,4,EUR,,-4,4,EUR,,EUR\n\
                P1,o1,2026-01-05 11:00:00,CET,Settled,M1,EUR,5.9,EUR,,-6,6,EUR,5.9,EUR\n\
                P1,o1,2026-01-05 10:00:00,CET,SentForSettle,M1,EUR,6,EUR,,-6,6,EUR,,EUR\n\
                P1,o1,2026-01-05 09:00:00,CET,Authorised,,EUR,10,EUR,-10,10,,EUR,,EUR\n\
                P2,o2,2026-01-05 09:00:00,CET,Received,,EUR,10,EUR,10,,,,,\n\
                P3,o3,2026-01-05 09:00:00,CET,SentForRefund,M3,EUR,3,EUR,,,-3,,,\n\
                P4,o4,2026-01-05 09:00:00,CET,Expired,,EUR,7,EUR,,-7,,,,\n\
                P5,o5,2026-01-05 09:00:00,CET,SettledReversed,M5,EUR,7,EUR,,,-7,EUR,-7,EUR\n\
                P6,o6,2026-01-05 09:00:00,CET,Novelty,M6,EUR,7,EUR,,,-7,EUR,-7,EUR\n\
                P7,o7,2026-01-05 09:00:00,CET,Settled,M7,EUR,7,EUR,,-7,7,EUR,7,USD\n";
    check(
        &format!("{titles}{rows}"),
        Format::AdyenAccounting,
        &[
            "2 o1 P1 Charge Some(400) EUR Pending 2026-01-05 09:00:00",
            "3 o1 P1 Charge Some(600) EUR Succeeded 2026-01-05 10:00:00",
            "6 o2 P2 Authorization Some(1000) EUR Pending 2026-01-05 08:00:00",
            "7 o3 M3 Refund Some(-300) EUR Pending 2026-01-05 08:00:00",
            "8 o4 P4 Void Some(0) EUR Canceled 2026-01-05 08:00:00",
            "9 o5 M5 ChargeReversal Some(-700) EUR Succeeded 2026-01-05 08:00:00",
            "10 o6 M6 Unknown None EUR Succeeded 2026-01-05 08:00:00 review",
            "11 refused Some(\"Settlement Currency\") the title stands twice and its cells differ",
        ],
    );
}

#[test]
fn paypal_transactions_with_other_states() {
    let text = sample("paypal-trr").replace(",\"D\",", ",\"F\",").replace(
        "\"T1300\",2026/03/09 09:08:00 -0700,2026/03/09 09:08:00 -0700,\"CR\",9000,\"USD\",\"\",,\"\",\"P\"",
        "\"T1300\",2026/03/09 09:08:00 -0700,2026/03/09 09:08:00 -0700,\"CR\",9000,\"USD\",\"\",,\"\",\"V\"",
    );
    let (format, lines) = read_as(&text, &Reading::default()).unwrap();
    assert_eq!(format, Format::PaypalTransactions);
    assert_eq!(lines[3], "8 ord-81004 5TR00004XC000004W Charge Some(2500) USD Succeeded 2026-03-09 16:07:00");
    assert_eq!(lines[4], "9 ord-81005 5TR00005XC000005W Void Some(0) USD Canceled 2026-03-09 16:08:00");
    assert!(refusal(&text.replace("\"FF\",9", "\"FF\",8")).contains("does not add up"));
    assert!(refusal(&text.replace("\"FF\",9\n", "")).contains("FF footer is missing"));
    // Which rows the long sums count is not documented: a difference is a remark.
    let (_, lines) = read_as(text.replace("\"SF\",9", "\"SF\",\"USD\",1,2,3,4"), &Reading::default()).unwrap();
    assert!(lines[9].starts_with("late: ") && lines[9].contains("sums do not agree"), "{lines:?}");
}

#[test]
fn paypal_activity_in_french_and_spanish() {
    check(
        "\u{feff}\"Date\",\"Heure\",\"Fuseau horaire\",\"Nom\",\"Type\",\"État\",\"Devise\",\"Avant commission\",\"Commission\",\
         \"Net\",\"Numéro de transaction\",\"Numéro de facture\",\"Impact sur le solde\"\n\
         \"31/01/2026\",\"10:00:00\",\"CET\",\"Ada\",\"Paiement Express Checkout\",\"Terminé\",\"EUR\",\"1\u{a0}234,50\",\"-1,50\",\
         \"1\u{202f}233,00\",\"1AB\",\"o1\",\"Crédit\"\n\
         \"01/02/2026\",\"10:00:00\",\"CET\",\"Ada\",\"Nouveauté\",\"En attente\",\"EUR\",\"2,00\",\"0,00\",\"2,00\",\"1AC\",\"o2\",\"Mémo\"\n",
        Format::PaypalActivity,
        &[
            "2 o1 1AB Charge Some(123450) EUR Succeeded 2026-01-31 09:00:00",
            "3 o2 1AC Unknown Some(200) EUR Pending 2026-02-01 09:00:00 review",
        ],
    );
    check(
        "Fecha\tHora\tZona horaria\tDescripción\tDivisa\tBruto \tComisión \tNeto\tSaldo\tId. de transacción\tId. de factura\n\
         31/8/2026\t11:44:49\tEurope/Berlin\tPago con Pago exprés\tEUR\t28,00\t-1,00\t27,00\t0,00\t8AB\to1\n\
         31/8/2026\t11:44:50\tEurope/Berlin\tReembolso de pago\tEUR\t-28,00\t1,00\t-27,00\t0,00\t8AC\to1\n",
        Format::PaypalActivity,
        &[
            "2 o1 8AB Charge Some(2800) EUR Succeeded 2026-08-31 09:44:49",
            "3 o1 8AC Refund Some(-2800) EUR Succeeded 2026-08-31 09:44:50",
        ],
    );
}

#[test]
fn braintree_words_as_the_screen_prints_them_and_zones_in_words() {
    check(
        "Transaction ID,Transaction Type,Transaction Status,Escrow Status,Created Datetime,Created Timezone,\
         Currency ISO Code,Amount Authorized,Amount Submitted For Settlement,Order ID\n\
         a1,Sale,Submitted For Settlement,,07/04/2026 10:00:00,Central Time (US & Canada),USD,5.00,5.00,o1\n\
         a2,sale,authorization_expired,,07/04/2026 10:00:00,America/Chicago,USD,5.00,,o2\n\
         a3,credit,settlement_declined,,07/04/2026 10:00:00,UTC,USD,5.00,5.00,o3\n\
         a4,sale,novelty,,07/04/2026 10:00:00,Nowhere,USD,5.00,5.00,o4\n\
         1.23E+22,sale,settled,,07/04/2026 10:00:00,UTC,USD,5.00,5.00,o5\n",
        Format::Braintree,
        &[
            "2 o1 a1 Charge Some(500) USD Pending 2026-07-04 15:00:00",
            "3 o2 a2 Void Some(0) USD Canceled 2026-07-04 15:00:00",
            "4 o3 a3 Refund Some(-500) USD Failed 2026-07-04 10:00:00",
            "5 o4 a4 Unknown Some(500) USD Pending Some(\"07/04/2026 10:00:00\") review",
            "6 refused Some(\"Transaction ID\") spreadsheet number: the id was rounded, download the report again",
        ],
    );
}

#[test]
fn square_needs_its_currency_and_its_symbols_must_not_contradict_it() {
    let text = "Date,Time,Time Zone,Total Collected,Fees,Net Total,Payment ID,PAN Suffix,Event Type,Transaction Status,\
                Customer Reference ID\n\
                07/04/18,2:30:00 PM,Pacific Time (US & Canada),$10.00,-$0.30,$9.70,p0,1,Payment,Complete,c0\n\
                07/04/2018,2:30:00 PM,Pacific Time (US & Canada),\"$1,234.00\",-$0.30,\"$1,233.70\",p1,1,Payment,Complete,c1\n\
                2018-07-04,14:30,Pacific Time (US & Canada),£10.00,£0.00,£10.00,p2,1,Payment,Complete,c2\n\
                2018-07-04,14:30:00,Pacific Time (US & Canada),$10.00,$0.00,$9.00,p3,1,Refund,Pending,c3\n";
    let error = read_as(text, &Reading::default()).unwrap_err();
    assert!(matches!(error, ReportError::NoCurrency { .. }) && error.is_usage(), "{error}");
    let reading = Reading { currency: Currency::parse("USD"), ..Reading::default() };
    check_as(
        text,
        &reading,
        Format::Square,
        &[
            "2 c0 p0 Charge Some(1000) USD Succeeded Some(\"07/04/18 2:30:00 PM\") review",
            "3 c1 p1 Charge Some(123400) USD Succeeded 2018-07-04 21:30:00",
            "4 refused Some(\"Total Collected\") the symbol is not that of the stated currency USD",
            "5 c3 p3 Refund Some(-1000) USD Pending 2018-07-04 21:30:00 review",
        ],
    );
}

#[test]
fn checkout_disputes_card_payouts_and_stated_zones() {
    let titles = "Action Type,Action ID,Payment ID,Processed On,Processing Currency,Reference,Breakdown Type,\
                  Processing Currency Amount\n";
    let rows = "Chargeback,a1,p1,2026-03-07 11:00:00,USD,o1,Chargeback (RPDW),5\n\
                Chargeback,a2,p1,2026-03-07 11:00:00,USD,o1,Chargeback (ARWS),-5\n\
                Chargeback,a3,p1,2026-03-07 11:00:00,USD,o1,Chargeback (ARBL),-5.5\n\
                Card Payout,a4,p2,2026-03-07 11:00:00,USD,o2,Card Payout,7\n\
                Capture,a5,p3,2026-03-07 11:00:00,USD,o3,Capture,7.005\n\
                Capture,a6,p3,2026-03-07 11:00:00,USD,o3,Scheme Variable Fee,-0.00000001\n\
                Capture,a7,p3,2026-03-07 11:00:00,USD,o3,Novelty,1\n\
                Capture,a8,p3,2026-03-07 11:00:00,USD,o3,Scheme Fee,-0.001x\n";
    let reading = Reading { timezone: Some(chrono_tz::Tz::Europe__London), ..Reading::default() };
    check_as(
        &format!("{titles}{rows}"),
        &reading,
        Format::CheckoutActions,
        &[
            "2 o1 a1 ChargebackReversal Some(500) USD Succeeded 2026-03-07 11:00:00",
            "3 o1 a2 Chargeback Some(-500) USD Succeeded 2026-03-07 11:00:00",
            "4 o1 a3 Fee Some(-550) USD Succeeded 2026-03-07 11:00:00",
            "5 o2 a4 Transfer Some(-700) USD Succeeded 2026-03-07 11:00:00 review",
            "6 o3 p3 Charge None USD Succeeded 2026-03-07 11:00:00 review",
            "7 o3 a6 Fee None USD Succeeded 2026-03-07 11:00:00",
            "8 o3 a7 Unknown Some(100) USD Succeeded 2026-03-07 11:00:00 review",
            "9 refused Some(\"Processing Currency Amount\") more decimals than the currency has (currency USD)",
        ],
    );
}

#[test]
fn worldpay_without_signed_refunds_marks_none() {
    let text = sample("worldpay-financial-detail").replace(",-20.00,", ",20.00,");
    let (_, lines) = read_as(text, &Reading::default()).unwrap();
    assert!(lines.iter().all(|line| !line.contains("review")), "{lines:?}");
    assert_eq!(lines[2], "4 - 83310000000000003 Refund Some(-2000) USD Succeeded None");
}

#[test]
fn razorpay_rows_that_do_not_add_up_and_days_that_come_first() {
    check(
        "transaction_entity,entity_id,amount,currency,fee (exclusive tax),tax,debit,credit,entity_created_at,payment_notes\n\
         payment,pay_1,100.0,INR,2.0,0.36,0.0,97.64,31/12/2026 18:30:00,\"{\"\"order_id\"\":77}\"\n\
         payment,pay_2,100.0,INR,2.0,0.36,0.0,97.46,2026-12-31T18:30:00,\"{\"\"order_id\"\":1.5}\"\n\
         dispute,disp_1,100.0,INR,0.0,0.0,0.0,100.0,2026-12-31T18:30:00,not json\n\
         novelty,x_1,100.0,INR,0.0,0.0,100.0,0.0,2026-12-31T18:30:00,[]\n",
        Format::RazorpayRecon,
        &[
            "2 77 pay_1 Charge Some(10000) INR Succeeded Some(\"31/12/2026 18:30:00\")",
            "3 - pay_2 Charge Some(10000) INR Succeeded Some(\"2026-12-31T18:30:00\") review",
            "4 - disp_1 ChargebackReversal Some(10000) INR Succeeded Some(\"2026-12-31T18:30:00\")",
            "5 - x_1 Unknown Some(-10000) INR Succeeded Some(\"2026-12-31T18:30:00\") review",
        ],
    );
    let reading = Reading { reference_column: Some("notes.cart".to_owned()), ..Reading::default() };
    let text = sample("razorpay-payments").replace("merchant_reference", "cart");
    let (_, lines) = read_as(&text, &reading).unwrap();
    assert!(lines[0].starts_with("2 nr-1 pay_DemoBBBB000001 "), "{lines:?}");
    let unknown = Reading { reference_column: Some("metadata.cart".to_owned()), ..Reading::default() };
    assert!(read_as(&text, &unknown).unwrap_err().is_usage());
}

#[test]
fn mollie_in_dutch_with_chargebacks_and_thousands_in_doubt() {
    check(
        "Datum,Betaalmethode,Valuta,Bedrag,Status,ID,Omschrijving,Naam consument,Rekening consument,BIC consument,\
         Uitbetalingsvaluta,Uitbetalingsbedrag,Uitbetalingsreferentie,Teruggestort bedrag\n\
         2026-03-01 10:00:00,ideal,EUR,\"48,2\",paidout,tr_1,o1,,,,EUR,\"48,2\",1.1,\"0\"\n\
         2026-03-01 10:00:00,ideal,EUR,1.000,paidout,tr_2,o2,,,,EUR,1.000,1.1,0\n\
         2026-03-01 10:00:00,ideal,EUR,\"-5\",charged_back,chb_3,o3,,,,EUR,\"-5\",1.1,\n\
         2026-03-01 10:00:00,ideal,EUR,\"5\",charged_back,tr_4,o4,,,,EUR,\"5\",1.1,\n\
         2026-03-01 10:00:00,,EUR,\"5\",,,Totaal,,,,EUR,\"5\",,\n",
        Format::Mollie,
        &[
            "2 o1 tr_1 Charge Some(4820) EUR Succeeded Some(\"2026-03-01 10:00:00\")",
            "3 refused Some(\"Bedrag\") not a decimal number (currency EUR)",
            "4 o3 chb_3 Chargeback Some(-500) EUR Succeeded Some(\"2026-03-01 10:00:00\")",
            "5 o4 tr_4 Charge Some(500) EUR Succeeded Some(\"2026-03-01 10:00:00\") review",
            "6 refused Some(\"ID\") blank id on a row with an amount: a total, or a damaged row",
        ],
    );
}

#[test]
fn klarna_signs_follow_the_total_and_a_missing_row_refuses_the_file() {
    let text = sample("klarna-settlement");
    let (_, right) = read_as(&text, &Reading::default()).unwrap();
    let unsigned: String = text
        .lines()
        .map(|line| {
            let is_row = ["FEE", "RETURN", "REVERSAL"].iter().any(|kind| line.starts_with(kind));
            if is_row { line.replace(",-", ",") } else { line.to_owned() }
        })
        .fold(String::new(), |text, line| text + &line + "\n");
    assert_ne!(unsigned, text);
    assert_eq!(read_as(&unsigned, &Reading::default()).unwrap().1, right);
    assert_eq!(read_as(text.replace(',', ";"), &Reading::default()).unwrap().1, right);
    // A fee that was given back under the type of fees: only the printed signs come to the total.
    let given_back = text.replace("kl-1,,-0.35", "kl-1,,0.35").replace("1191.29", "1191.99");
    let (_, lines) = read_as(&given_back, &Reading::default()).unwrap();
    assert!(lines[2].contains("Fee Some(35) EUR") && lines[2].ends_with("review"), "{lines:?}");
    let cut = text.lines().filter(|line| !line.starts_with("RETURN")).collect::<Vec<_>>().join("\n") + "\n";
    let message = refusal(&cut);
    assert!(message.contains("EUR 1191.29") && message.contains("EUR 1241.29"), "{message}");
    // Two payouts in one file.
    let (_, twice) = read_as(format!("{text}\n{text}"), &Reading::default()).unwrap();
    assert_eq!(twice.len(), 2 * right.len());
}

#[test]
fn mercado_pago_with_json_whose_quotes_are_not_doubled() {
    let titles = "TRANSACTION_DATE,EXTERNAL_REFERENCE,SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_AMOUNT,\
                  TRANSACTION_CURRENCY,METADATA,FEE_AMOUNT,TAXES_DISAGGREGATED,SETTLEMENT_NET_AMOUNT,TAXES_AMOUNT,\
                  MKP_FEE_AMOUNT,PACK_ID\n";
    let date = "2026-03-09T21:15:42.000-04:00";
    let rows = [
        format!(
            "{date},o1,51,SETTLEMENT,84.00,BRL,\"[{{\"cart\":\"a,b\",\"n\":1}}]\",-9.41,[{{\"x\":1,\"y\":2}}],73.59,-1.00,0.00,2E+15"
        ),
        format!("{date},o2,52,SETTLEMENT,84.00,BRL,[{{}}],-9.41,[],99.00,0.00,0.00,"),
        format!("{date},o3,53,SETTLEMENT,-84.00,BRL,[{{}}],0.00,[],-84.00,0.00,0.00,"),
        format!("{date},o4,54,REFUND_SHIPPING,-4.00,BRL,[{{}}],0.00,[],-4.00,0.00,0.00,"),
        format!("{date},o5,55,SETTLEMENT,10.00,BRL,[{{}}],-1.00,[],8.50,0.00,-0.50,"),
        format!("{date},o6,56,SETTLEMENT,1.234,BRL,[{{}}],0.00,[],1.234,0.00,0.00,"),
        format!("{date},,,PAYOUTS,-4.00,BRL,[{{}}],0.00,[],-4.00,0.00,0.00,"),
        format!("{date},o8,58,SETTLEMENT,10.00,BRL,[{{\"a\":1,\"b\",-1.00,[],8.50,0.00,-0.50,"),
    ];
    let text = format!("{titles}{}\n", rows.join("\n"));
    let (format, lines) = read_as(&text, &Reading::default()).unwrap();
    assert_eq!(format, Format::MercadoPago);
    assert_eq!(
        lines[..7],
        [
            "2 o1 51 Charge Some(8400) BRL Succeeded 2026-03-10 01:15:42",
            "3 o2 52 Charge Some(8400) BRL Succeeded 2026-03-10 01:15:42 review",
            "4 o3 53 Transfer Some(-8400) BRL Succeeded 2026-03-10 01:15:42",
            "5 o4 - Refund Some(-400) BRL Succeeded 2026-03-10 01:15:42",
            "6 o5 55 Charge Some(1000) BRL Succeeded 2026-03-10 01:15:42",
            "7 refused Some(\"TRANSACTION_AMOUNT\") ambiguous number: state the decimal mark with --decimal-separator \
             (currency BRL)",
            "8 - - Payout Some(-400) BRL Succeeded 2026-03-10 01:15:42",
        ]
    );
    assert!(lines[7].starts_with("9 refused None "), "{lines:?}");
    let reading = Reading { decimal_mark: Some(DecimalMark::Point), ..Reading::default() };
    let (_, lines) = read_as(&text, &reading).unwrap();
    assert!(lines[5].starts_with("7 refused Some(\"TRANSACTION_AMOUNT\") more decimals"), "{lines:?}");
}

#[test]
fn amazon_and_shopify_sums_are_remarks() {
    let text = sample("amazonpay-settlement").replace("\"-1170.05\",\"0.00\"", "\"-1170.00\",\"0.00\"");
    let (_, lines) = read_as(&text, &Reading::default()).unwrap();
    assert!(lines[7].ends_with("review"), "the row's own net disagrees: {}", lines[7]);
    let text = sample("amazonpay-settlement").lines().take(13).collect::<Vec<_>>().join("\n") + "\n";
    let (_, lines) = read_as(&text, &Reading::default()).unwrap();
    assert_eq!(
        lines[7],
        "late: batch 10000000001 does not add up to zero: USD 1170.05 is left; it is incomplete, or a part of one"
    );
    let text = sample("shopify-payment-transactions").replace(",chargeback,", ",chargeback_won,");
    let (_, lines) = read_as(&text, &Reading::default()).unwrap();
    assert!(lines[4].contains("ChargebackReversal"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("late")), "{lines:?}");
    let older = "Transaction Date,Type,Order,Card Brand,Payout Status,Amount,Fee,Net,Currency\n\
                 2020-03-07 14:23:45 -0500,charge,#1,visa,paid,10.00,0.50,9.50,USD\n\
                 2020-03-07 14:23:45 -0500,novelty,#1,visa,paid,10.00,0.50,9.00,USD\n";
    check(
        older,
        Format::Shopify,
        &[
            "2 #1 - Charge Some(1000) USD Succeeded 2020-03-07 19:23:45",
            "3 #1 - Unknown Some(1000) USD Succeeded 2020-03-07 19:23:45 review",
        ],
    );
}

#[test]
fn gocardless_states_and_payments_without_metadata() {
    check(
        "id,created_at,charge_date,amount,currency,status,links.mandate,amount_refunded\n\
         PM1,2026-03-01T09:00:00.000Z,2026-03-05,10.00,GBP,customer_approval_denied,MD1,0.00\n\
         PM2,2026-03-01T09:00:00.000Z,2026-03-05,10.00,GBP,Paid_Out,MD1,10.00\n\
         PM3,2026-03-01T09:00:00.000Z,2026-03-05,10.00,GBP,novelty,MD1,0.00\n",
        Format::GocardlessPayments,
        &[
            "2 - PM1 Charge Some(1000) GBP Canceled 2026-03-01 09:00:00",
            "3 - PM2 Charge Some(1000) GBP Succeeded 2026-03-01 09:00:00",
            "3 - - Refund Some(-1000) GBP Succeeded None",
            "4 - PM3 Unknown Some(1000) GBP Pending 2026-03-01 09:00:00 review",
        ],
    );
}

#[test]
fn files_that_lack_columns_or_payments_say_what_to_download() {
    let default_columns = "balance_transaction_id,created_utc,available_on_utc,currency,gross,fee,net,reporting_category,\
                           description\ntxn_1,2026-01-01 00:00:00,2026-01-03 00:00:00,usd,1.00,0.10,0.90,charge,\n";
    let message = refusal(default_columns);
    assert!(message.contains("needs the column(s) source_id") && message.contains("run it again with"), "{message}");
    for (titles, sentence) in [
        (
            "id,Amount,Created (UTC),Currency,Livemode,Arrival Date (UTC),Source Type,Destination,Status\n",
            "Stripe payouts",
        ),
        (
            "Payout Date,Status,Charges,Refunds,Adjustments,Reserved Funds,Fees,Retried Amount,Total,Currency\n",
            "Shopify",
        ),
        ("id,amount,status,fees,tax,utr,created_at\n", "Razorpay settlements"),
        ("Date,Time,TimeZone,Name,Type,Status,Currency,Amount,Receipt ID,Balance\n", "short PayPal activity"),
    ] {
        let message = refusal(titles);
        assert!(message.contains(sentence), "{message}");
    }
}
