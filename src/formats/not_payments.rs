//! Reports that are often taken for a report of payments: told by their titles, so that the refusal says what to download.

use super::titles::normalise;

/// Titles that tell such a report, and what to say of it.
const OTHERS: &[(&[&str], &str)] = &[
    (
        &["arrival date (utc)", "source type", "destination"],
        "a Stripe payouts export, which holds no payments: export the payments, or run the itemised payout reconciliation",
    ),
    (
        &["payout date", "charges", "refunds", "total"],
        "a summary of Shopify payouts, which holds no payments: export the payment transactions",
    ),
    (
        &["id", "amount", "fees", "tax", "utr"],
        "a list of Razorpay settlements, which holds no payments: download the settlement reconciliation",
    ),
    (
        &["date", "time", "name", "type", "status", "currency", "amount", "receipt id", "balance"],
        "the short PayPal activity of a personal account, which has no transaction ids: download the activity report with \
         all transaction details",
    ),
];

/// What the file is instead of a report of payments.
pub(super) fn known(title_lines: &[Vec<String>]) -> Option<&'static str> {
    title_lines.iter().find_map(|titles| {
        let titles: Vec<String> = titles.iter().map(|title| normalise(title)).collect();
        let found = OTHERS.iter().find(|(keys, _)| keys.iter().all(|key| titles.iter().any(|title| title == key)));
        found.map(|(_, sentence)| *sentence)
    })
}
