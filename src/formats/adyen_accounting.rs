//! Adyen, payment accounting report: each payment's walk through the registers received, authorised, captured, payable.
//!
//! docs.adyen.com/essentials/interactive-payment-accounting-report. Several rows a payment, in no order. Settled,
//! refunded and disputed rows are money; the steps before them are entries only where they are the last of their payment
//! in the report, which takes a first look at all rows. `Main Amount` changes its meaning from row to row, and
//! `Original Amount` has been seen a hundred times too large: neither is a gross amount.

use std::borrow::Cow;
use std::hash::Hash;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::domain::entry::{DatedBy, Entry, EntryKind, Status};
use crate::domain::money::{Currency, NumberStyle};

use super::Format;
use super::adyen_settlement::{own_reference, time};
use super::row::{Emit, Fault, Row, flag, word};
use super::survey::Survey;
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder, key, needed, optional};

const PSP: usize = 0;
const REFERENCE: usize = 1;
const BOOKED: usize = 2;
const ZONE: usize = 3;
const RECORD: usize = 4;
const MODIFICATION: usize = 5;
const MAIN_CURRENCY: usize = 6;
const MAIN: usize = 7;
const CURRENCY: usize = 8;
const RECEIVED: usize = 9;
const AUTHORISED: usize = 10;
const CAPTURED: usize = 11;
const SETTLED_CURRENCY: usize = 12;
const PAYABLE: usize = 13;
const COMMISSION: usize = 14;
const MARKUP: usize = 15;
const SCHEME: usize = 16;
const INTERCHANGE: usize = 17;
const MODIFICATION_REFERENCE: usize = 18;

pub(super) static LAYOUT: Layout = Layout {
    format: Format::AdyenAccounting,
    name: "adyen-accounting",
    provider: "adyen",
    dated_by: DatedBy::Settled,
    columns: &[
        needed(PSP, &["psp reference"]),
        needed(REFERENCE, &["merchant reference"]),
        needed(BOOKED, &["booking date"]),
        needed(ZONE, &["timezone", "time zone"]),
        key(RECORD, &["record type"]),
        needed(MODIFICATION, &["modification psp reference"]),
        needed(MAIN_CURRENCY, &["main currency"]),
        needed(MAIN, &["main amount"]),
        needed(CURRENCY, &["payment currency"]),
        key(RECEIVED, &["received (pc)"]),
        needed(AUTHORISED, &["authorised (pc)"]),
        key(CAPTURED, &["captured (pc)"]),
        needed(SETTLED_CURRENCY, &["settlement currency"]),
        key(PAYABLE, &["payable (sc)"]),
        optional(COMMISSION, &["commission (sc)"]),
        optional(MARKUP, &["markup (sc)"]),
        optional(SCHEME, &["scheme fees (sc)"]),
        optional(INTERCHANGE, &["interchange (sc)"]),
        optional(MODIFICATION_REFERENCE, &["modification merchant reference"]),
    ],
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[REFERENCE]),
    missing_hint: "add them to the report in the Customer Area",
    read_row,
    extra: Extra { survey: Some(survey), ..PLAIN },
};

/// What a record type says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Money moved, in this direction.
    Booked(EntryKind, Way),
    /// An entry only where nothing further has happened.
    Before(Stage),
    /// The payment ended without money.
    Refused,
    Cancelled,
    CaptureFailed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Received,
    Authorised,
    SentForSettle,
    SentForRefund,
}

const SALE: Step = Step::Booked(EntryKind::Charge, Way::In);
const REFUND: Step = Step::Booked(EntryKind::Refund, Way::Out);
const DISPUTE: Step = Step::Booked(EntryKind::Chargeback, Way::Out);
const DISPUTE_REVERSED: Step = Step::Booked(EntryKind::ChargebackReversal, Way::In);

const RECORDS: &[(&str, Step)] = &[
    ("Received", Step::Before(Stage::Received)),
    ("Authorised", Step::Before(Stage::Authorised)),
    ("SentForSettle", Step::Before(Stage::SentForSettle)),
    ("SentForRefund", Step::Before(Stage::SentForRefund)),
    ("Settled", SALE),
    ("SettledBulk", SALE),
    ("SettledInInstallments", SALE),
    ("SettledExternally", SALE),
    ("SettledExternallyWithInfo", SALE),
    ("SettledReversed", Step::Booked(EntryKind::ChargeReversal, Way::Out)),
    ("SettledReversedExternally", Step::Booked(EntryKind::ChargeReversal, Way::Out)),
    ("Refunded", REFUND),
    ("RefundedBulk", REFUND),
    ("RefundedInInstallments", REFUND),
    ("RefundedExternally", REFUND),
    ("RefundedExternallyWithInfo", REFUND),
    ("RefundedReversed", Step::Booked(EntryKind::RefundReversal, Way::In)),
    ("RefundedReversedExternally", Step::Booked(EntryKind::RefundReversal, Way::In)),
    ("Chargeback", DISPUTE),
    ("ChargebackExternally", DISPUTE),
    ("ChargebackExternallyWithInfo", DISPUTE),
    ("SecondChargeback", DISPUTE),
    ("SecondChargebackExternally", DISPUTE),
    ("ChargebackReversed", DISPUTE_REVERSED),
    ("ChargebackReversedExternally", DISPUTE_REVERSED),
    ("ChargebackReversedExternallyWithInfo", DISPUTE_REVERSED),
    ("Refused", Step::Refused),
    ("Error", Step::Refused),
    ("Cancelled", Step::Cancelled),
    ("Expired", Step::Cancelled),
    ("CaptureFailed", Step::CaptureFailed),
];

/// Marks of a payment, or of one modification of it.
const WAS_AUTHORISED: u8 = 1;
const WENT_FURTHER: u8 = 2;
const WAS_SETTLED: u8 = 4;
const WAS_REFUNDED: u8 = 8;

/// A payment and one of its modifications in 16 bytes: the first look keeps them for a whole file.
fn name_of(psp: &str, modification: &str) -> u128 {
    let mut hasher = SipHasher13::new();
    (psp, modification).hash(&mut hasher);
    hasher.finish128().as_u128()
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of every first look")]
fn survey(row: &Row<'_>, survey: &mut Survey) -> Result<(), Fault> {
    let (psp, modification) = (row.text(PSP), row.text(MODIFICATION));
    let step = word(RECORDS, row.text(RECORD));
    let of_payment = match step {
        Some(Step::Before(Stage::Received)) => 0,
        Some(Step::Before(Stage::Authorised)) => WAS_AUTHORISED,
        _ => WENT_FURTHER,
    };
    let of_modification = match step {
        Some(Step::Booked(EntryKind::Charge | EntryKind::ChargeReversal, _) | Step::CaptureFailed) => WAS_SETTLED,
        Some(Step::Booked(EntryKind::Refund | EntryKind::RefundReversal, _)) => WAS_REFUNDED,
        _ => 0,
    };
    let marks = &mut survey.steps;
    // A modification without a reference of its own can only be told by its payment.
    *marks.entry(name_of(psp, "")).or_default() |= of_payment | of_modification;
    if of_modification != 0 && !modification.is_empty() {
        *marks.entry(name_of(psp, modification)).or_default() |= of_modification;
    }
    Ok(())
}

/// Whether this step is the last of its payment, or of its modification, in the report.
fn is_last(row: &Row<'_>, stage: Stage) -> bool {
    let (psp, modification) = (row.text(PSP), row.text(MODIFICATION));
    let marks = |modification| row.rules.survey.steps.get(&name_of(psp, modification)).copied().unwrap_or(0);
    match stage {
        Stage::Received => marks("") & (WAS_AUTHORISED | WENT_FURTHER) == 0,
        Stage::Authorised => marks("") & WENT_FURTHER == 0,
        Stage::SentForSettle => marks(modification) & WAS_SETTLED == 0,
        Stage::SentForRefund => marks(modification) & WAS_REFUNDED == 0,
    }
}

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let record = row.text(RECORD);
    let step = word(RECORDS, record);
    if let Some(Step::Before(stage)) = step
        && !is_last(row, stage)
    {
        emit.ignored(row.record.line, "lifecycle row: no money has moved at this step");
        return Ok(());
    }
    let mut entry = match step {
        Some(Step::Booked(kind, way)) => booked(row, kind, way)?,
        Some(Step::Before(Stage::Received)) => {
            sized(row, (EntryKind::Authorization, Status::Pending), Way::In, &[RECEIVED])?
        }
        Some(Step::Before(Stage::Authorised)) => {
            sized(row, (EntryKind::Authorization, Status::Authorized), Way::In, &[AUTHORISED, RECEIVED])?
        }
        Some(Step::Before(Stage::SentForSettle)) => {
            sized(row, (EntryKind::Charge, Status::Pending), Way::In, &[CAPTURED, AUTHORISED])?
        }
        Some(Step::Before(Stage::SentForRefund)) => {
            sized(row, (EntryKind::Refund, Status::Pending), Way::Out, &[CAPTURED])?
        }
        Some(Step::CaptureFailed) => sized(row, (EntryKind::Charge, Status::Failed), Way::In, &[CAPTURED, AUTHORISED])?,
        Some(Step::Refused) => {
            sized(row, (EntryKind::Authorization, Status::Failed), Way::In, &[RECEIVED, AUTHORISED])?
        }
        Some(Step::Cancelled) => {
            let mut void = sized(row, (EntryKind::Void, Status::Canceled), Way::In, &[AUTHORISED, RECEIVED])?;
            (void.authorized_minor, void.amount_minor) = (void.amount_minor, Some(0));
            void
        }
        None => {
            let currency = row.currency(MAIN_CURRENCY)?;
            let mut entry = row.entry(EntryKind::Unknown, Status::Succeeded, currency, None);
            flag(&mut entry, format!("unknown record type {record:?}"));
            entry
        }
    };
    entry.type_raw = Some(Cow::Borrowed(record));
    entry.reference = row.merchant_reference()?;
    let psp = row.id(PSP)?;
    if of_modification(entry.kind) {
        entry.provider_id = row.id(MODIFICATION)?;
        entry.parent_id = psp;
        entry.modification_reference = own_reference(row, MODIFICATION_REFERENCE)?;
    } else {
        entry.provider_id = psp;
    }
    time(row, BOOKED, ZONE).put(&mut entry);
    emit.entry(row, entry);
    Ok(())
}

/// Whether the row is about something that was done to a payment, with an id of its own.
fn of_modification(kind: EntryKind) -> bool {
    !matches!(kind, EntryKind::Charge | EntryKind::Authorization | EntryKind::Void)
}

/// An entry of the size that the first filled register says; the registers' signs are those of the walk.
fn sized<'a>(
    row: &Row<'a>,
    (kind, status): (EntryKind, Status),
    way: Way,
    registers: &[usize],
) -> Result<Entry<'a>, Fault> {
    let currency = row.currency(CURRENCY)?;
    for &register in registers {
        if let Some(minor) = row.amount(register, currency)? {
            return Ok(row.entry(kind, status, currency, directed(minor, way)));
        }
    }
    let mut entry = row.entry(kind, status, currency, None);
    flag(&mut entry, "the registers that would say the amount are blank");
    Ok(entry)
}

fn directed(minor: i64, way: Way) -> Option<i64> {
    let size = minor.checked_abs()?;
    Some(if way == Way::In { size } else { -size })
}

fn booked<'a>(row: &Row<'a>, kind: EntryKind, way: Way) -> Result<Entry<'a>, Fault> {
    let of_dispute = matches!(kind, EntryKind::Chargeback | EntryKind::ChargebackReversal);
    if !of_dispute || !row.text(CAPTURED).is_empty() {
        return sized(row, (kind, Status::Succeeded), way, &[CAPTURED]);
    }
    // Disputes may be booked without the payment's registers: what is left is a net amount and its fees.
    let currency = row.currency(SETTLED_CURRENCY)?;
    let gross = gross_of_net(row, currency, way)?;
    let mut entry = row.entry(kind, Status::Succeeded, currency, gross.and_then(|g| directed(g, way)));
    flag(
        &mut entry,
        "Captured (PC) is blank: the gross is worked out from Main Amount and the fees, in the settlement currency",
    );
    Ok(entry)
}

/// Fees make a net debit larger than its gross, and a net credit smaller.
fn gross_of_net(row: &Row<'_>, currency: Currency, way: Way) -> Result<Option<i64>, Fault> {
    let net = row.needed_amount(MAIN, currency)?;
    let mut fees = 0_i64;
    for column in [COMMISSION, MARKUP, SCHEME, INTERCHANGE] {
        let fee = row.amount(column, currency)?.unwrap_or(0);
        fees = fees.checked_add(fee).ok_or_else(|| row.fault(column, "amount out of range"))?;
    }
    let net = net.checked_abs();
    Ok(net.and_then(|net| if way == Way::Out { net.checked_sub(fees) } else { net.checked_add(fees) }))
}
