//! PayPal's localised type and status words of the activity download, as meanings. An open list: what is not in it is
//! kept as unknown and flagged.

use crate::domain::entry::{EntryKind, Status};

/// What a type word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A payment: received when it is a credit, sent when it is a debit.
    Payment,
    /// Always of this kind.
    Is(EntryKind),
    /// A line of the cart of another row's payment: it repeats that row's transaction id.
    CartItem,
}

use Meaning::{CartItem, Is, Payment};

/// Type words, lower case.
pub(super) const TYPES: &[(&str, Meaning)] = &[
    // English
    ("express checkout payment", Payment),
    ("website payment", Payment),
    ("web accept payment received", Payment),
    ("mobile payment", Payment),
    ("general payment", Payment),
    ("payment received", Payment),
    ("direct credit card payment", Payment),
    ("virtual terminal payment", Payment),
    ("ebay auction payment", Payment),
    ("donation payment", Payment),
    ("subscription payment", Payment),
    ("recurring payment", Payment),
    ("preapproved payment bill user payment", Payment),
    ("pre-approved payment bill user payment", Payment),
    ("paypal here payment", Payment),
    ("mass pay payment", Payment),
    ("mass payment", Payment),
    ("shopping cart item", CartItem),
    ("payment refund", Is(EntryKind::Refund)),
    ("refund", Is(EntryKind::Refund)),
    ("payment reversal", Is(EntryKind::ChargeReversal)),
    ("chargeback", Is(EntryKind::Chargeback)),
    ("chargeback reversal", Is(EntryKind::ChargebackReversal)),
    ("cancellation of chargeback", Is(EntryKind::ChargebackReversal)),
    ("chargeback fee", Is(EntryKind::Fee)),
    ("fee reversal", Is(EntryKind::Fee)),
    ("partner fee", Is(EntryKind::Fee)),
    ("other fee", Is(EntryKind::Fee)),
    ("general withdrawal", Is(EntryKind::Payout)),
    ("user initiated withdrawal", Is(EntryKind::Payout)),
    ("auto-sweep", Is(EntryKind::Payout)),
    ("transfer to bank", Is(EntryKind::Payout)),
    ("general withdrawal - bank account", Is(EntryKind::Payout)),
    ("general currency conversion", Is(EntryKind::Conversion)),
    ("user initiated currency conversion", Is(EntryKind::Conversion)),
    ("general authorization", Is(EntryKind::Authorization)),
    ("authorization", Is(EntryKind::Authorization)),
    ("reauthorization", Is(EntryKind::Authorization)),
    ("void of authorization", Is(EntryKind::Void)),
    ("hold on balance for dispute investigation", Is(EntryKind::Hold)),
    ("account hold for open authorization", Is(EntryKind::Hold)),
    ("general hold", Is(EntryKind::Hold)),
    ("payment review hold", Is(EntryKind::Hold)),
    ("cancellation of hold for dispute resolution", Is(EntryKind::HoldRelease)),
    ("reversal of general account hold", Is(EntryKind::HoldRelease)),
    ("general hold release", Is(EntryKind::HoldRelease)),
    ("payment review release", Is(EntryKind::HoldRelease)),
    ("reserve hold", Is(EntryKind::Reserve)),
    ("reserve release", Is(EntryKind::Reserve)),
    ("bank deposit to pp account", Is(EntryKind::Transfer)),
    ("general credit card deposit", Is(EntryKind::Transfer)),
    ("general account correction", Is(EntryKind::Adjustment)),
    ("general adjustment", Is(EntryKind::Adjustment)),
    // German
    ("paypal express-zahlung", Payment),
    ("website-zahlung", Payment),
    ("mobile zahlung", Payment),
    ("handyzahlung", Payment),
    ("allgemeine zahlung", Payment),
    ("erhaltene zahlung", Payment),
    ("ebay-auktionszahlung", Payment),
    ("spendenzahlung", Payment),
    ("abonnementzahlung", Payment),
    ("wiederkehrende zahlung", Payment),
    ("zahlung im einzugsverfahren mit zahlungsrechnung", Payment),
    ("sammelzahlung", Payment),
    ("warenkorbartikel", CartItem),
    ("rückzahlung", Is(EntryKind::Refund)),
    ("rückerstattung", Is(EntryKind::Refund)),
    ("zahlungsstornierung", Is(EntryKind::ChargeReversal)),
    ("rückbuchung", Is(EntryKind::Chargeback)),
    ("rückbuchungsgebühr", Is(EntryKind::Fee)),
    ("gebühr für rückbuchung", Is(EntryKind::Fee)),
    ("allgemeine abbuchung", Is(EntryKind::Payout)),
    ("von nutzer eingeleitete abbuchung", Is(EntryKind::Payout)),
    ("allgemeine abbuchung - bankkonto", Is(EntryKind::Payout)),
    ("allgemeine währungsumrechnung", Is(EntryKind::Conversion)),
    ("allgemeine autorisierung", Is(EntryKind::Authorization)),
    ("einbehaltung für offene autorisierung", Is(EntryKind::Hold)),
    ("allgemeine einbehaltung", Is(EntryKind::Hold)),
    ("rückbuchung allgemeiner einbehaltung", Is(EntryKind::HoldRelease)),
    ("bankgutschrift auf paypal-konto", Is(EntryKind::Transfer)),
    // Spanish
    ("pago con pago exprés", Payment),
    ("reembolso de pago", Is(EntryKind::Refund)),
    ("conversión de divisas general", Is(EntryKind::Conversion)),
    ("retirada", Is(EntryKind::Payout)),
    // French
    ("paiement express checkout", Payment),
    ("remboursement de paiement", Is(EntryKind::Refund)),
];

/// What a status word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Is(Status),
    /// Taken back by another row, if it had been booked at all.
    Reversed,
}

/// Status words, lower case.
pub(super) const STATES: &[(&str, State)] = &[
    ("completed", State::Is(Status::Succeeded)),
    ("abgeschlossen", State::Is(Status::Succeeded)),
    ("terminé", State::Is(Status::Succeeded)),
    ("completado", State::Is(Status::Succeeded)),
    ("完了", State::Is(Status::Succeeded)),
    ("refunded", State::Is(Status::Succeeded)),
    ("partially refunded", State::Is(Status::Succeeded)),
    ("zurückgezahlt", State::Is(Status::Succeeded)),
    ("teilweise zurückgezahlt", State::Is(Status::Succeeded)),
    ("cleared", State::Is(Status::Succeeded)),
    ("pending", State::Is(Status::Pending)),
    ("ausstehend", State::Is(Status::Pending)),
    ("en attente", State::Is(Status::Pending)),
    ("pendiente", State::Is(Status::Pending)),
    ("保留中", State::Is(Status::Pending)),
    ("denied", State::Is(Status::Failed)),
    ("failed", State::Is(Status::Failed)),
    ("expired", State::Is(Status::Failed)),
    ("abgelehnt", State::Is(Status::Failed)),
    ("fehlgeschlagen", State::Is(Status::Failed)),
    ("canceled", State::Is(Status::Canceled)),
    ("cancelled", State::Is(Status::Canceled)),
    ("voided", State::Is(Status::Canceled)),
    ("removed", State::Is(Status::Canceled)),
    ("storniert", State::Is(Status::Canceled)),
    ("reversed", State::Reversed),
    ("rückgängig gemacht", State::Reversed),
];

/// Whether a row has changed the balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impact {
    Booked,
    Memo,
}

/// Words of the balance impact, lower case.
pub(super) const IMPACTS: &[(&str, Impact)] = &[
    ("credit", Impact::Booked),
    ("debit", Impact::Booked),
    ("haben", Impact::Booked),
    ("soll", Impact::Booked),
    ("crédit", Impact::Booked),
    ("débit", Impact::Booked),
    ("入金", Impact::Booked),
    ("引落し", Impact::Booked),
    ("memo", Impact::Memo),
    ("mémo", Impact::Memo),
    ("備考", Impact::Memo),
];

/// Looks a word up without regard to case; these tables are lower case and not all ASCII.
pub(super) fn find<T: Copy>(table: &[(&str, T)], text: &str) -> Option<T> {
    let same = |known: &str| known.eq_ignore_ascii_case(text) || (!text.is_ascii() && known == text.to_lowercase());
    table.iter().find(|(known, _)| same(known)).map(|(_, meaning)| *meaning)
}
