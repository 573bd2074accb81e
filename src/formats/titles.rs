//! What a format declares about its columns, and where those columns are in one file.

use crate::domain::entry::DatedBy;
use crate::domain::money::NumberStyle;

use super::Format;
use super::error::ReportError;
use super::report::Part;
use super::row::{Emit, Fault, Row};
use super::scan;
use super::survey::Survey;

/// The declaration of a format: reads like a table, holds no state.
pub(super) struct Layout {
    /// Which format it declares.
    pub(super) format: Format,
    /// The name that people see and that runs record.
    pub(super) name: &'static str,
    /// The provider whose report it is, as in `--provider`.
    pub(super) provider: &'static str,
    /// What its rows are dated by.
    pub(super) dated_by: DatedBy,
    /// Its columns; a row asks for them by their place in this table.
    pub(super) columns: &'static [Column],
    /// How its numbers are written when the operator has not said otherwise.
    pub(super) number: NumberStyle,
    /// Which columns may hold the merchant's reference when the operator has not named one, best first.
    pub(super) reference: ReferenceOrder,
    /// Advice for a file that lacks a needed column.
    pub(super) missing_hint: &'static str,
    /// Turns one record into entries.
    pub(super) read_row: ReadRow,
    /// What only a few formats need.
    pub(super) extra: Extra,
}

/// What only a few formats need.
pub(super) struct Extra {
    /// Columns whose presence says that the report is one of a payout, so that its rows are dated by settlement.
    pub(super) settled_if: &'static [usize],
    /// A style of numbers that follows from the normalised titles (a localised file).
    pub(super) number_of: Option<fn(&[String]) -> NumberStyle>,
    /// A column of dates whose order of day and month the whole file must settle.
    pub(super) order_column: Option<usize>,
    /// Records begin with their type, and titles are one type of them.
    pub(super) envelope: bool,
    /// The report has no currency column: the operator has to state the currency.
    pub(super) no_currency: bool,
    /// Columns of JSON text that the provider writes without doubling its quotes; no other column may be repaired.
    pub(super) json_columns: &'static [usize],
    /// A first look at each row, where rows cannot be read one by one.
    pub(super) survey: Option<SurveyRow>,
    /// How one file is passed over.
    pub(super) scan: ScanFile,
}

/// A plain table.
pub(super) const PLAIN: Extra = Extra {
    settled_if: &[],
    number_of: None,
    order_column: None,
    envelope: false,
    no_currency: false,
    json_columns: &[],
    survey: None,
    scan: scan::scan,
};

/// Looks at one row before any row is read.
pub(super) type SurveyRow = for<'a> fn(&Row<'a>, &mut Survey) -> Result<(), Fault>;

/// Passes over one file and hands over what its records say.
pub(super) type ScanFile = for<'p, 'e, 'o> fn(&'p Layout, &'p Part, &'e mut Emit<'o>) -> Result<(), ReportError>;

/// Turns one record into entries, or says why it cannot be read.
pub(super) type ReadRow = for<'a> fn(&Row<'a>, &mut Emit<'_>) -> Result<(), Fault>;

/// Default columns of the merchant's reference.
pub(super) enum ReferenceOrder {
    /// Columns of the layout, the first that is not blank.
    Columns(&'static [usize]),
    /// A metadata column with a well-known key, then these columns of the layout.
    Metadata {
        /// Text before the key, normalised.
        before: &'static str,
        /// Text behind the key, normalised.
        after: &'static str,
        /// Columns to try next.
        then: &'static [usize],
    },
    /// These columns of the layout, then a well-known key of the JSON objects in others.
    Notes {
        /// Columns to try first.
        columns: &'static [usize],
        /// Columns that hold JSON objects.
        json: &'static [usize],
    },
}

/// Where the merchant's reference may stand in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReferencePlace {
    /// The cell.
    pub(super) at: usize,
    /// Keys of the JSON object in that cell, best first; none where the cell is the reference.
    pub(super) keys: Vec<String>,
}

impl ReferencePlace {
    /// A cell that is the reference.
    pub(super) fn cell(at: usize) -> Self {
        Self { at, keys: Vec::new() }
    }
}

/// Metadata keys under which shops keep their own reference, best first.
pub(super) const REFERENCE_KEYS: &[&str] = &[
    "merchant_reference",
    "merchant_ref",
    "reference",
    "reference_id",
    "external_reference",
    "external_identifier",
    "external_id",
    "order_id",
    "orderid",
    "order_number",
    "order_reference",
    "order_ref",
    "order",
    "invoice_id",
    "idempotency_key",
];

/// One column of a format.
#[derive(Clone, Copy)]
pub(super) struct Column {
    /// Its place in the table, to be compared with the constant that rows use.
    pub(super) at: usize,
    /// Whether a file must have it.
    pub(super) need: Need,
    /// Its titles, normalised; providers rename columns, and some translate them.
    pub(super) titles: &'static [&'static str],
}

/// Whether a file must have a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Part of what tells this format from all others.
    Key,
    /// Must be there, or the file is refused.
    Needed,
    /// May be missing, at a price: something is then not compared, and the operator is told.
    Useful,
    /// May be there.
    Optional,
}

pub(super) const fn key(at: usize, titles: &'static [&'static str]) -> Column {
    Column { at, need: Need::Key, titles }
}
pub(super) const fn needed(at: usize, titles: &'static [&'static str]) -> Column {
    Column { at, need: Need::Needed, titles }
}
pub(super) const fn useful(at: usize, titles: &'static [&'static str]) -> Column {
    Column { at, need: Need::Useful, titles }
}
pub(super) const fn optional(at: usize, titles: &'static [&'static str]) -> Column {
    Column { at, need: Need::Optional, titles }
}

/// A column that is looked for in one file: a [`Column`], or one that the operator has declared.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) need: Need,
    /// Titles, normalised.
    pub(super) titles: Vec<String>,
}

impl Wanted {
    /// The columns of a built-in format.
    pub(super) fn of(columns: &[Column]) -> Vec<Self> {
        let wanted = columns.iter().enumerate().map(|(at, column)| {
            assert_eq!(column.at, at, "a layout's columns stand in the order of its constants");
            Self { need: column.need, titles: column.titles.iter().map(|t| (*t).to_owned()).collect() }
        });
        wanted.collect()
    }
}

/// A title in the form in which titles are compared: no byte order mark, trimmed, inner white space one blank, lower case.
pub(super) fn normalise(title: &str) -> String {
    let words: Vec<&str> = title.trim_start_matches('\u{feff}').split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Where the columns of one file are.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// For each column of the layout its cell.
    pub(super) slots: Vec<Option<usize>>,
    /// Pairs of cells that have the same needed title.
    pub(super) twins: Vec<(usize, usize)>,
}

impl Places {
    /// Looks for the wanted columns among normalised titles.
    pub(super) fn find(wanted: &[Wanted], titles: &[String]) -> Self {
        let mut places = Self::default();
        for column in wanted {
            // The first alias that is there wins: aliases are ordered by preference.
            let found = column.titles.iter().find_map(|t| titles.iter().position(|seen| seen == t));
            if let Some(first) = found {
                let same = (first + 1..titles.len()).filter(|&at| titles[at] == titles[first]);
                places.twins.extend(same.map(|second| (first, second)));
            }
            places.slots.push(found);
        }
        places.twins.sort_unstable();
        places.twins.dedup();
        places
    }

    /// Titles of the columns of this need that are not there.
    pub(super) fn missing<'w>(
        &self,
        wanted: &'w [Wanted],
        needs: &'w [Need],
    ) -> impl Iterator<Item = String> + use<'w, '_> {
        let pairs = wanted.iter().zip(&self.slots);
        pairs.filter(|(w, slot)| slot.is_none() && needs.contains(&w.need)).map(|(w, _)| w.titles.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_compared_without_case_marks_and_runs_of_blanks() {
        for title in ["\u{feff}Transaction  Debit or Credit", " transaction debit\tor credit "] {
            assert_eq!(normalise(title), "transaction debit or credit");
        }
    }

    #[test]
    fn a_needed_title_that_stands_twice_is_remembered_and_an_unneeded_one_is_not() {
        let wanted = [Wanted { need: Need::Needed, titles: vec!["fee".into(), "entgelt".into()] }];
        let titles = ["entgelt", "x", "x", "entgelt"].map(String::from);
        let places = Places::find(&wanted, &titles);
        assert_eq!((places.slots, places.twins), (vec![Some(0)], vec![(0, 3)]));
    }
}
