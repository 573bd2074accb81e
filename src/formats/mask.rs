//! The text at fault, as a message may quote it: short, and without card numbers.

use crate::domain::mask::mask_card_numbers;

/// Longest text at fault that is kept.
const CHARS_MAX: usize = 200;
/// Looked at beyond it, so that a card number at the cut is still seen as one: 19 digits in groups.
const CARD_CHARS_MAX: usize = 24;

/// The first 200 characters, card numbers masked.
pub(super) fn masked(text: &str) -> String {
    let looked_at: String = text.chars().take(CHARS_MAX + CARD_CHARS_MAX).collect();
    mask_card_numbers(&looked_at).chars().take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_a_card_number_at_the_cut_stays_masked() {
        let text = format!("{} 4111111111111111 and more", "x".repeat(190));
        let quoted = masked(&text);
        assert_eq!(quoted.chars().count(), CHARS_MAX);
        assert!(quoted.ends_with(" 411111***"), "{quoted}");
    }
}
