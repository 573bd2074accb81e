//! Provider reports: recognised by their titles, read row by row into entries of our own words.
//!
//! This room alone knows foreign column titles and type words. It never compares, stores or prints; a fault of one
//! row is a refused row, a fault of the file is a [`ReportError`]. To add a format: one file with a `Layout`, one
//! variant of [`Format`], one sample under `reports/provider/`.

mod adyen_accounting;
mod adyen_received;
mod adyen_settlement;
mod amazonpay;
mod braintree;
mod checkout_actions;
mod checkout_breakdown;
mod error;
mod generic;
mod gocardless_payments;
mod gocardless_payouts;
mod klarna;
mod local;
mod mask;
mod mercadopago;
mod mollie;
mod not_payments;
mod paypal_activity;
mod paypal_codes;
mod paypal_envelope;
mod paypal_settlement;
mod paypal_transactions;
mod paypal_words;
mod rate;
mod razorpay_payments;
mod razorpay_recon;
mod razorpay_refunds;
mod recognise;
mod records;
mod repair;
mod report;
mod row;
mod scan;
mod shopify;
mod source;
mod square;
mod stripe_balance;
mod stripe_history;
mod stripe_payments;
mod survey;
mod text;
mod titles;
mod when;
mod worldpay;
mod zones;

use crate::config;
use crate::domain::entry::{DatedBy, Entry, IgnoredLine, RefusedRow};

pub use error::ReportError;
pub use local::LocalFile;
pub use report::Report;

use titles::Layout;

/// The report formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is documented in docs/FORMATS.md under its name")]
pub enum Format {
    Generic,
    StripePayments,
    StripeBalance,
    StripeHistory,
    AdyenSettlement,
    PaypalSettlement,
    PaypalActivity,
    PaypalTransactions,
    AdyenAccounting,
    AdyenReceived,
    Braintree,
    Square,
    CheckoutActions,
    CheckoutBreakdown,
    Worldpay,
    RazorpayPayments,
    RazorpayRecon,
    RazorpayRefunds,
    Mollie,
    GocardlessPayments,
    GocardlessPayouts,
    Klarna,
    MercadoPago,
    AmazonPay,
    Shopify,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Self] = &[
        Self::Generic,
        Self::StripePayments,
        Self::StripeBalance,
        Self::StripeHistory,
        Self::AdyenSettlement,
        Self::PaypalSettlement,
        Self::PaypalActivity,
        Self::PaypalTransactions,
        Self::AdyenAccounting,
        Self::AdyenReceived,
        Self::Braintree,
        Self::Square,
        Self::CheckoutActions,
        Self::CheckoutBreakdown,
        Self::Worldpay,
        Self::RazorpayPayments,
        Self::RazorpayRecon,
        Self::RazorpayRefunds,
        Self::Mollie,
        Self::GocardlessPayments,
        Self::GocardlessPayouts,
        Self::Klarna,
        Self::MercadoPago,
        Self::AmazonPay,
        Self::Shopify,
    ];

    /// The name that people see and that runs record.
    pub fn name(self) -> &'static str {
        self.layout().name
    }

    /// The provider whose report it is, as in `--provider`.
    pub fn provider(self) -> &'static str {
        self.layout().provider
    }

    /// What its rows are dated by, unless the file says more ([`Report::dated_by`]).
    pub fn dated_by(self) -> DatedBy {
        self.layout().dated_by
    }

    fn layout(self) -> &'static Layout {
        match self {
            Self::Generic => &generic::LAYOUT,
            Self::StripePayments => &stripe_payments::LAYOUT,
            Self::StripeBalance => &stripe_balance::LAYOUT,
            Self::StripeHistory => &stripe_history::LAYOUT,
            Self::AdyenSettlement => &adyen_settlement::LAYOUT,
            Self::PaypalSettlement => &paypal_settlement::LAYOUT,
            Self::PaypalActivity => &paypal_activity::LAYOUT,
            Self::PaypalTransactions => &paypal_transactions::LAYOUT,
            Self::AdyenAccounting => &adyen_accounting::LAYOUT,
            Self::AdyenReceived => &adyen_received::LAYOUT,
            Self::Braintree => &braintree::LAYOUT,
            Self::Square => &square::LAYOUT,
            Self::CheckoutActions => &checkout_actions::LAYOUT,
            Self::CheckoutBreakdown => &checkout_breakdown::LAYOUT,
            Self::Worldpay => &worldpay::LAYOUT,
            Self::RazorpayPayments => &razorpay_payments::LAYOUT,
            Self::RazorpayRecon => &razorpay_recon::LAYOUT,
            Self::RazorpayRefunds => &razorpay_refunds::LAYOUT,
            Self::Mollie => &mollie::LAYOUT,
            Self::GocardlessPayments => &gocardless_payments::LAYOUT,
            Self::GocardlessPayouts => &gocardless_payouts::LAYOUT,
            Self::Klarna => &klarna::LAYOUT,
            Self::MercadoPago => &mercadopago::LAYOUT,
            Self::AmazonPay => &amazonpay::LAYOUT,
            Self::Shopify => &shopify::LAYOUT,
        }
    }
}

/// How reports are opened.
#[derive(Clone, Copy)]
pub struct OpenOptions<'a> {
    /// Restricts recognition to this provider's formats. A name that is not ours reads the `generic` titles.
    pub provider: Option<&'a str>,
    /// What the operator states about the reports of a provider: the flags, over jobs.toml. Asked again for each
    /// provider whose format the file may be in; with an empty name for what is stated whatever the provider.
    pub reading_for: &'a dyn Fn(&str) -> config::Reading,
    /// Formats that the operator has declared by their titles.
    pub generic: &'a [config::settings::GenericFormat],
}

/// One record of a report, after reading.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "handed over once a row; a box would allocate once a row")]
pub enum Item<'a> {
    /// A row. One record may give several.
    Entry {
        /// Which of the report's files, from 0.
        file: usize,
        /// The row.
        entry: Entry<'a>,
    },
    /// A record that is rightly not an entry, and which of the files it is in.
    Ignored(usize, IgnoredLine),
    /// A record that cannot be read.
    Refused(RefusedRow),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_every_layout_stand_where_its_rows_look_for_them() {
        for &format in Format::ALL {
            let layout = format.layout();
            assert_eq!(layout.format, format);
            for (at, column) in layout.columns.iter().enumerate() {
                assert_eq!(column.at, at, "{}: {:?}", format.name(), column.titles);
                for title in column.titles {
                    assert_eq!(titles::normalise(title), *title, "{}: titles are declared normalised", format.name());
                }
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = Format::ALL.iter().map(|f| f.name()).collect();
        assert_eq!(names.len(), Format::ALL.len());
    }
}
