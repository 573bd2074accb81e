//! One report of one or several files: opened, recognised, read again as often as needed.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use encoding_rs::Encoding;

use crate::config::settings::DateOrder;
use crate::domain::entry::{DatedBy, Peek};
use crate::domain::money::NumberStyle;
use crate::domain::run::ReportFile;

use super::error::ReportError;
use super::recognise::{Candidate, Plan, candidates, recognise};
use super::row::{Emit, Rules};
use super::source::Source;
use super::survey::Survey;
use super::text::{Text, encoding};
use super::titles::{Layout, normalise};
use super::{Format, Item, OpenOptions, generic, scan, when};

/// An opened report.
pub struct Report {
    pub(super) layout: &'static Layout,
    provider: String,
    pub(super) parts: Vec<Part>,
    files: Vec<ReportFile>,
    notes: Vec<String>,
    late_notes: OnceLock<Vec<String>>,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Report");
        shown.field("format", &self.layout.format).field("provider", &self.provider).field("files", &self.files);
        shown.finish_non_exhaustive()
    }
}

/// One file of a report.
pub(super) struct Part {
    pub(super) source: Source,
    pub(super) encoding: &'static Encoding,
    pub(super) plan: Plan,
    pub(super) rules: Rules,
}

impl Part {
    pub(super) fn text(&self) -> Text<'_> {
        Text::new(&self.source, self.encoding)
    }
}

impl Report {
    /// Opens the parts of one report: bytes hashed, format recognised, columns found. Nothing is handed over yet.
    pub fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Self, ReportError> {
        let candidates = candidates(options);
        let mut parts: Vec<(Part, &Candidate)> = Vec::new();
        // What is stated for every provider, or for the only one that is asked for.
        let stated_encoding = match candidates.as_slice() {
            [one] => one.reading.encoding.clone(),
            _ => (options.reading_for)("").encoding,
        };
        for path in paths {
            let source = Source::open(path)?;
            if source.bytes == 0 {
                return Err(ReportError::Empty(source.name));
            }
            let (encoded, candidate, plan) = recognise_encoded(&source, &candidates, stated_encoding.as_deref())?;
            if let Some((_, first)) = parts.first()
                && (first.layout.format, &first.provider) != (candidate.layout.format, &candidate.provider)
            {
                return Err(ReportError::MixedParts {
                    name: source.name,
                    found: candidate.layout.format.name().to_owned(),
                    first: first.layout.format.name().to_owned(),
                });
            }
            let rules = rules(candidate, &plan);
            parts.push((Part { source, encoding: encoded, plan, rules }, candidate));
        }
        let Some((_, candidate)) = parts.first() else {
            return Err(ReportError::NoFile);
        };
        let (layout, provider) = (candidate.layout, candidate.provider.clone());
        let mut parts: Vec<Part> = parts.into_iter().map(|(part, _)| part).collect();
        settle_date_order(layout, &mut parts)?;
        survey(layout, &mut parts)?;

        let files = parts.iter().map(|p| ReportFile {
            name: p.source.name.clone(),
            bytes: p.source.bytes,
            sha256: p.source.sha256.clone(),
        });
        let files: Vec<ReportFile> = files.collect();
        let several = parts.len() > 1;
        let notes = parts.iter().flat_map(|p| {
            p.plan.notes.iter().map(move |n| if several { format!("{}: {n}", p.source.name) } else { n.clone() })
        });
        let notes = notes.collect();
        Ok(Self { layout, provider, parts, files, notes, late_notes: OnceLock::new() })
    }

    /// The format that was recognised.
    pub fn format(&self) -> Format {
        self.layout.format
    }

    /// The provider whose report it is.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// What the rows are dated by.
    pub fn dated_by(&self) -> DatedBy {
        self.parts[0].plan.dated_by
    }

    /// Whether the format proves by its own counts that a report without rows is complete.
    pub fn proves_empty(&self) -> bool {
        self.layout.extra.envelope
    }

    /// The files in the order given, with size and hash of their unpacked bytes.
    pub fn files(&self) -> &[ReportFile] {
        &self.files
    }

    /// Remarks for people: which reference column and delimiter were used, how many columns were not needed.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Remarks that only a whole scan can give (a batch that does not add up); empty before the first one.
    pub fn late_notes(&self) -> &[String] {
        self.late_notes.get().map_or(&[], Vec::as_slice)
    }

    /// Titles of the columns that the merchant's reference is read from, best first.
    pub fn reference_columns(&self) -> Vec<&str> {
        let plan = &self.parts[0].plan;
        plan.reference.iter().map(|place| plan.titles[place.at].as_str()).collect()
    }

    /// Reads all rows, file after file, until `on` breaks. Can be called again; a file that has changed is an error.
    ///
    /// Whether the report is complete is known at its end: after an `Err` everything that was handed over must be
    /// thrown away.
    pub fn read(&self, on: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>) -> Result<(), ReportError> {
        let mut emit = Emit::new(on);
        self.scan(&mut emit)?;
        if !emit.stopped {
            let late = emit.finish();
            self.late_notes.get_or_init(|| late);
        }
        Ok(())
    }

    /// Reads again after [`Report::read`] and hands over at least the rows that are `asked` for: formats may save
    /// the work of reading others in full.
    pub fn read_some(
        &self,
        asked: &dyn Fn(&Peek<'_>) -> bool,
        on: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReportError> {
        self.scan(&mut Emit::only(on, asked))
    }

    fn scan(&self, emit: &mut Emit<'_>) -> Result<(), ReportError> {
        for (file, part) in self.parts.iter().enumerate() {
            emit.file = file;
            (self.layout.extra.scan)(self.layout, part, emit)?;
            if emit.stopped {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Recognises a file in the encoding that is stated for all of them, else in one that a provider's own entry states:
/// the titles themselves may need it.
fn recognise_encoded<'c, 'o>(
    source: &Source,
    candidates: &'c [Candidate<'o>],
    stated: Option<&str>,
) -> Result<(&'static Encoding, &'c Candidate<'o>, Plan), ReportError> {
    let attempt = |label: Option<&str>| {
        let encoded = encoding(source, label)?;
        let (candidate, plan) = recognise(&source.name, || Text::new(source, encoded), candidates)?;
        Ok((encoded, candidate, plan))
    };
    let first = attempt(stated);
    if let Ok((_, candidate, _)) = &first
        && candidate.reading.encoding.as_deref() == stated
    {
        return first;
    }
    let own = |label: &str| {
        let tried = attempt(Some(label)).ok()?;
        (tried.1.reading.encoding.as_deref() == Some(label)).then_some(tried)
    };
    match candidates.iter().filter_map(|candidate| candidate.reading.encoding.as_deref()).find_map(own) {
        Some(tried) => Ok(tried),
        None => first,
    }
}

fn rules(candidate: &Candidate, plan: &Plan) -> Rules {
    let format = candidate.layout.format;
    let generic = (format == Format::Generic).then(|| candidate.generic.unwrap_or_else(|| generic::built_in()).clone());
    let reading = &candidate.reading;
    let number = match (reading.decimal_mark, candidate.layout.extra.number_of) {
        // Once the decimal mark is stated, the other mark can only be grouping.
        (Some(mark), _) => NumberStyle { mark: Some(mark), grouping: true },
        (None, Some(number_of)) => number_of(&plan.titles.iter().map(|t| normalise(t)).collect::<Vec<_>>()),
        (None, None) => candidate.layout.number,
    };
    let title_says_utc = generic.as_ref().is_some_and(generic::says_utc);
    Rules {
        title_says_utc,
        format,
        number,
        timezone: reading.timezone,
        currency: reading.currency,
        date_order: reading.date_order,
        generic,
        survey: Arc::default(),
    }
}

/// The first look at all rows, where the format asks for one.
fn survey(layout: &'static Layout, parts: &mut [Part]) -> Result<(), ReportError> {
    let Some(look) = layout.extra.survey else {
        return Ok(());
    };
    let mut survey = Survey::default();
    for part in parts.iter() {
        scan::survey(layout, part, &mut |row| look(row, &mut survey))?;
    }
    let survey = Arc::new(survey);
    for part in parts.iter_mut() {
        part.rules.survey = Arc::clone(&survey);
    }
    Ok(())
}

/// Day before month or month before day is a setting of the account: one date above the twelfth settles it for all
/// files. Where none does and it matters, the operator has to say.
fn settle_date_order(layout: &'static Layout, parts: &mut [Part]) -> Result<(), ReportError> {
    let Some(column) = layout.extra.order_column.filter(|_| parts[0].rules.date_order.is_none()) else {
        return Ok(());
    };
    let mut shown: Option<DateOrder> = None;
    let mut undecided: Option<(String, String)> = None;
    for part in parts.iter() {
        scan::cells(part, column, &mut |text| {
            shown = when::order_shown(text);
            if shown.is_none() && undecided.is_none() && when::reads_in_both_orders(text) {
                undecided = Some((part.source.name.clone(), text.to_owned()));
            }
            if shown.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if shown.is_some() {
            break;
        }
    }
    match (shown, undecided) {
        (None, Some((name, example))) => return Err(ReportError::DateOrder { name, example }),
        (order, _) => parts.iter_mut().for_each(|p| p.rules.date_order = order),
    }
    Ok(())
}
