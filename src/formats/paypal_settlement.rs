//! PayPal, settlement report (STL) by SFTP: what moved the balance, in PayPal's envelope.
//!
//! developer.paypal.com/docs/reports/sftp-reports/settlement-report.

use crate::domain::entry::DatedBy;
use crate::domain::money::NumberStyle;

use super::Format;
use super::paypal_envelope::{self, CUSTOM, INVOICE, SHARED};
use super::row::{Emit, Fault, Row};
use super::titles::{Extra, Layout, PLAIN, ReferenceOrder};

pub(super) static LAYOUT: Layout = Layout {
    format: Format::PaypalSettlement,
    name: "paypal-settlement",
    provider: "paypal",
    dated_by: DatedBy::Settled,
    columns: &SHARED,
    number: NumberStyle::POINT,
    reference: ReferenceOrder::Columns(&[INVOICE, CUSTOM]),
    missing_hint: "the CH record lacks them",
    read_row,
    extra: Extra { envelope: true, scan: paypal_envelope::scan, ..PLAIN },
};

fn read_row(row: &Row<'_>, emit: &mut Emit<'_>) -> Result<(), Fault> {
    let entry = paypal_envelope::entry(row)?;
    emit.entry(row, entry);
    Ok(())
}
