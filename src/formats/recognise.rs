//! Which format a file is in, and where its columns are: told by titles, never by the file's name or by counting.

use std::io::Read;

use crate::config::Reading;
use crate::config::settings::GenericFormat;
use crate::domain::entry::DatedBy;

use super::error::ReportError;
use super::paypal_envelope::{FIRST_RECORDS, squeezed};
use super::records::Records;
use super::titles::{Layout, Need, Places, REFERENCE_KEYS, ReferenceOrder, ReferencePlace, Wanted, normalise};
use super::{Format, OpenOptions, generic, not_payments};

/// Records looked at for the title line; preambles are shorter.
const PREAMBLE_RECORDS_MAX: usize = 20;
/// Delimiters that are tried, the likelier first.
const DELIMITERS: &[u8] = b",;\t|";
/// A message lists this many titles.
const SHOWN_TITLES_MAX: usize = 60;

/// A format that a file may be in.
pub(super) struct Candidate<'a> {
    pub(super) layout: &'static Layout,
    pub(super) provider: String,
    pub(super) generic: Option<&'a GenericFormat>,
    /// What the operator states about its files, a declared format's own options included.
    pub(super) reading: Reading,
    pub(super) wanted: Vec<Wanted>,
}

/// How to read one file.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) delimiter: u8,
    /// Records up to and with the title line; 0 where titles are a record type.
    pub(super) head_records: usize,
    /// Titles as printed, trimmed.
    pub(super) titles: Vec<String>,
    /// Titles without blank ones at the end.
    pub(super) named_width: usize,
    pub(super) places: Places,
    /// Cells that may hold the merchant's reference, best first.
    pub(super) reference: Vec<ReferencePlace>,
    pub(super) dated_by: DatedBy,
    pub(super) notes: Vec<String>,
}

/// The formats that `options` leave open.
pub(super) fn candidates<'a>(options: &OpenOptions<'a>) -> Vec<Candidate<'a>> {
    let asked = |provider: &str| options.provider.is_none_or(|p| p.eq_ignore_ascii_case(provider));
    let declared = options.generic.iter().filter(|g| asked(&g.provider)).map(|g| {
        let reading = (options.reading_for)(&g.provider).or(&g.reading);
        Candidate {
            layout: Format::Generic.layout(),
            provider: g.provider.clone(),
            generic: Some(g),
            wanted: generic::wanted(g, &reading),
            reading,
        }
    });
    let own = Format::ALL.iter().filter(|f| **f != Format::Generic && asked(f.provider())).map(|f| Candidate {
        layout: f.layout(),
        provider: f.provider().to_owned(),
        generic: None,
        reading: (options.reading_for)(f.provider()),
        wanted: Wanted::of(f.layout().columns),
    });
    let mut candidates: Vec<Candidate<'a>> = declared.chain(own).collect();
    if candidates.is_empty() || options.provider.is_none() {
        let provider = options.provider.unwrap_or(Format::Generic.provider()).to_owned();
        let reading = (options.reading_for)(&provider);
        candidates.push(Candidate {
            layout: Format::Generic.layout(),
            provider,
            generic: None,
            wanted: generic::wanted(generic::built_in(), &reading),
            reading,
        });
    }
    candidates
}

/// Finds the title line and the one format that has it. `open` gives the text from its beginning.
pub(super) fn recognise<'c, 'o, R: Read>(
    name: &str,
    open: impl Fn() -> R,
    candidates: &'c [Candidate<'o>],
) -> Result<(&'c Candidate<'o>, Plan), ReportError> {
    let delimiters = delimiters(candidates);
    let mut matches: Vec<(&Candidate, Found)> = Vec::new();
    let mut first_seen: Vec<Vec<String>> = Vec::new();
    for &delimiter in &delimiters {
        let mut records = Records::new(name, open(), delimiter);
        let mut seen = Vec::new();
        for head_records in 1..=PREAMBLE_RECORDS_MAX {
            // A file that is broken at its very start is said to be so; further down the scan will say it.
            let record = match records.next() {
                Ok(Some(record)) => record,
                Err(error) if head_records == 1 && delimiter == delimiters[0] => return Err(error),
                Ok(None) | Err(_) => break,
            };
            let titles = record.texts();
            if head_records == 1 && candidates.iter().any(|c| begins_envelope(c, &titles)) {
                let titles = envelope_titles(titles, &mut records);
                if let Some(candidate) = of_envelope(candidates, &titles) {
                    matches.push((candidate, Found { delimiter, head_records: 0, titles, has_rows: true }));
                }
                break;
            }
            let may_use = |c: &&Candidate| c.reading.delimiter.is_none_or(|stated| stated == delimiter);
            let found: Vec<&Candidate> = candidates.iter().filter(may_use).filter(|c| has_keys(c, &titles)).collect();
            if found.is_empty() {
                seen.push(titles);
                continue;
            }
            let has_rows = matches!(records.next(), Ok(Some(_)) | Err(_));
            matches.extend(
                found.into_iter().map(|c| (c, Found { delimiter, head_records, titles: titles.clone(), has_rows })),
            );
            break;
        }
        first_seen.extend(seen);
    }
    // What the operator has declared goes before the built-in titles that it resembles.
    if matches.iter().any(|(c, _)| c.generic.is_some()) {
        matches.retain(|(c, _)| c.generic.is_some() || c.layout.format != Format::Generic);
    }
    match matches.len() {
        1 => {
            let (candidate, found) = matches.remove(0);
            Ok((candidate, plan(name, candidate, found)?))
        }
        0 => Err(unknown(name, candidates, first_seen)),
        _ => {
            let formats: Vec<String> =
                matches.iter().map(|(c, _)| format!("{} ({})", c.layout.format.name(), c.provider)).collect();
            Err(ReportError::SeveralFormats { name: name.to_owned(), formats: formats.join(" or ") })
        }
    }
}

/// The delimiters to try: those that are stated, and the usual ones unless each candidate has its own.
fn delimiters(candidates: &[Candidate]) -> Vec<u8> {
    let stated = candidates.iter().filter_map(|c| c.reading.delimiter);
    let usual = candidates.iter().any(|c| c.reading.delimiter.is_none()).then_some(DELIMITERS).into_iter().flatten();
    let mut delimiters: Vec<u8> = Vec::new();
    for delimiter in usual.copied().chain(stated) {
        if !delimiters.contains(&delimiter) {
            delimiters.push(delimiter);
        }
    }
    delimiters
}

struct Found {
    delimiter: u8,
    head_records: usize,
    titles: Vec<String>,
    has_rows: bool,
}

fn begins_envelope(candidate: &Candidate, cells: &[String]) -> bool {
    let first = cells.first().map_or("", String::as_str);
    candidate.layout.extra.envelope && FIRST_RECORDS.iter().any(|kind| kind.eq_ignore_ascii_case(first))
}

/// Reports of the envelope differ in their titles only: the one with the most key columns of its own. A day without
/// business has no titles and is read as the first one.
fn of_envelope<'c, 'o>(candidates: &'c [Candidate<'o>], titles: &[String]) -> Option<&'c Candidate<'o>> {
    let titles: Vec<String> = titles.iter().map(|t| squeezed(t)).collect();
    let mut best: Option<(usize, &Candidate)> = None;
    for candidate in candidates.iter().filter(|c| c.layout.extra.envelope) {
        let keys = candidate.wanted.iter().filter(|w| w.need == Need::Key);
        let (found, missing): (Vec<_>, Vec<_>) = keys.partition(|w| w.titles.iter().any(|t| titles.contains(t)));
        let fits = missing.is_empty() || best.is_none();
        if fits && best.is_none_or(|(most, _)| found.len() > most) {
            best = Some((found.len(), candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The titles of the first CH record; a day without business has none.
fn envelope_titles<R: Read>(first: Vec<String>, records: &mut Records<'_, R>) -> Vec<String> {
    let mut cells = first;
    for _ in 0..PREAMBLE_RECORDS_MAX {
        if cells.first().is_some_and(|kind| kind.eq_ignore_ascii_case("CH")) {
            return cells;
        }
        match records.next() {
            Ok(Some(record)) => cells = record.texts(),
            Ok(None) | Err(_) => break,
        }
    }
    Vec::new()
}

fn has_keys(candidate: &Candidate, titles: &[String]) -> bool {
    if candidate.layout.extra.envelope {
        return false;
    }
    let places = Places::find(&candidate.wanted, &normalised(titles));
    let mut keys = candidate.wanted.iter().zip(&places.slots).filter(|(w, _)| w.need == Need::Key);
    keys.all(|(_, slot)| slot.is_some())
}

fn normalised(titles: &[String]) -> Vec<String> {
    titles.iter().map(|t| normalise(t)).collect()
}

fn plan(name: &str, candidate: &Candidate, found: Found) -> Result<Plan, ReportError> {
    let layout = candidate.layout;
    let envelope = layout.extra.envelope;
    let titles: Vec<String> = found.titles.iter().map(|t| if envelope { squeezed(t) } else { normalise(t) }).collect();
    let mut places = Places::find(&candidate.wanted, &titles);
    let missing: Vec<String> = places.missing(&candidate.wanted, &[Need::Key, Need::Needed]).collect();
    // A day without business has no titles, and needs none.
    let no_titles = envelope && titles.is_empty();
    if !missing.is_empty() && !no_titles {
        return Err(missing_columns(name, candidate, &missing, &found.titles));
    }
    if layout.extra.no_currency && candidate.reading.currency.is_none() {
        return Err(ReportError::NoCurrency { name: name.to_owned(), format: layout.name.to_owned() });
    }
    let mut notes = Vec::new();
    let reference = if no_titles {
        notes.push("the report has no transactions".to_owned());
        Vec::new()
    } else {
        let (cells, note) = reference(name, candidate, &found.titles, &titles, &places)?;
        notes.push(note);
        cells
    };
    for &ReferencePlace { at, .. } in &reference {
        places.twins.extend((at + 1..titles.len()).filter(|&second| titles[second] == titles[at]).map(|b| (at, b)));
    }
    places.twins.sort_unstable();
    places.twins.dedup();
    if let (Format::Generic, Some(&(first, _))) = (layout.format, places.twins.first()) {
        return Err(ReportError::DuplicateTitle { name: name.to_owned(), title: found.titles[first].clone() });
    }
    let lacking: Vec<String> = places.missing(&candidate.wanted, &[Need::Useful]).collect();
    if !lacking.is_empty() && !no_titles {
        notes.push(format!("the file lacks the column(s) {}; {}", lacking.join(", "), layout.missing_hint));
    }
    let used = |at: usize| places.slots.contains(&Some(at)) || reference.iter().any(|place| place.at == at);
    let unused = (0..titles.len()).filter(|&at| !used(at)).count();
    if unused > 0 {
        notes.push(format!("{unused} of {} columns are not needed and were not looked at", titles.len()));
    }
    if found.delimiter != b',' {
        notes.push(format!("the delimiter is {:?}", char::from(found.delimiter)));
    }
    if !found.has_rows {
        notes.push("the file has titles and no rows".to_owned());
    }
    let settled = layout.extra.settled_if.iter().any(|&column| places.slots[column].is_some());
    let dated_by = match candidate.generic {
        Some(generic) => generic.dated_by,
        None if settled => DatedBy::Settled,
        None => layout.dated_by,
    };
    let named_width = titles.iter().rposition(|t| !t.is_empty()).map_or(0, |last| last + 1);
    Ok(Plan {
        delimiter: found.delimiter,
        head_records: found.head_records,
        titles: found.titles,
        named_width,
        places,
        reference,
        dated_by,
        notes,
    })
}

/// Where the merchant's reference is: the column that the operator has named and no other, else the format's order.
pub(super) fn reference(
    name: &str,
    candidate: &Candidate,
    printed: &[String],
    titles: &[String],
    places: &Places,
) -> Result<(Vec<ReferencePlace>, String), ReportError> {
    if let Some(stated) = &candidate.reading.reference_column {
        let place = stated_place(candidate, titles, places, stated).ok_or_else(|| ReportError::NoSuchTitle {
            name: name.to_owned(),
            title: stated.clone(),
            seen: shown(printed),
        })?;
        let note = format!("the merchant's reference is read from {}, as stated", said(&place, printed));
        return Ok((vec![place], note));
    }
    let columns = |columns: &[usize]| -> Vec<ReferencePlace> {
        columns.iter().filter_map(|&c| places.slots[c].map(ReferencePlace::cell)).collect()
    };
    let found: Vec<ReferencePlace> = match &candidate.layout.reference {
        ReferenceOrder::Columns(then) => columns(then),
        ReferenceOrder::Metadata { before, after, then } => {
            let metadata = REFERENCE_KEYS.iter().find_map(|key| {
                let title = format!("{before}{key}{after}");
                titles.iter().position(|t| *t == title).map(ReferencePlace::cell)
            });
            metadata.into_iter().chain(columns(then)).collect()
        }
        ReferenceOrder::Notes { columns: first, json } => {
            let keys: Vec<String> = REFERENCE_KEYS.iter().map(|&key| key.to_owned()).collect();
            let noted = columns(json).into_iter().map(|place| ReferencePlace { keys: keys.clone(), ..place });
            columns(first).into_iter().chain(noted).collect()
        }
    };
    let note = if found.is_empty() {
        "no column is known to hold the merchant's reference: rows are matched by the provider's id only, \
         or state --reference-column"
            .to_owned()
    } else {
        let names: Vec<String> = found.iter().map(|place| said(place, printed)).collect();
        format!("the merchant's reference is read from {}", names.join(", else "))
    };
    Ok((found, note))
}

/// A title, or `COLUMN.KEY` for a key of the JSON object in a column; `(inside JSON)` may stand behind it.
fn stated_place(candidate: &Candidate, titles: &[String], places: &Places, stated: &str) -> Option<ReferencePlace> {
    let wanted = if candidate.layout.extra.envelope { squeezed(stated) } else { normalise(stated) };
    if let Some(at) = titles.iter().position(|t| *t == wanted) {
        return Some(ReferencePlace::cell(at));
    }
    let ReferenceOrder::Notes { json, .. } = &candidate.layout.reference else {
        return None;
    };
    let stated = stated.trim();
    let (title, key) = stated.strip_suffix("(inside JSON)").unwrap_or(stated).split_once('.')?;
    let title = normalise(title);
    let at = json.iter().filter_map(|&column| places.slots[column]).find(|&at| titles[at] == title)?;
    Some(ReferencePlace { at, keys: vec![key.trim().to_owned()] })
}

/// A place of the reference as a note shows it.
fn said(place: &ReferencePlace, printed: &[String]) -> String {
    match place.keys.as_slice() {
        [] => format!("{:?}", printed[place.at]),
        [key] => format!("{:?} in the JSON of {:?}", key, printed[place.at]),
        _ => format!("a key such as {:?} in the JSON of {:?}", place.keys[0], printed[place.at]),
    }
}

pub(super) fn missing_columns(name: &str, candidate: &Candidate, missing: &[String], seen: &[String]) -> ReportError {
    let hint = candidate.layout.missing_hint;
    ReportError::MissingColumns {
        name: name.to_owned(),
        format: candidate.layout.format.name().to_owned(),
        missing: missing.join(", "),
        seen: shown(seen),
        hint: if hint.is_empty() { String::new() } else { format!("; {hint}") },
    }
}

/// A format that a line of titles resembles.
struct Near<'c, 'o> {
    found: usize,
    wanted: usize,
    candidate: &'c Candidate<'o>,
    missing: Vec<String>,
    titles: Vec<String>,
}

/// No format has all its key titles: the nearest one if it is near, so that the message can name what is missing.
fn unknown(name: &str, candidates: &[Candidate], seen: Vec<Vec<String>>) -> ReportError {
    let Some(first) = seen.first().cloned() else {
        return ReportError::Empty(name.to_owned());
    };
    if let Some(other) = not_payments::known(&seen) {
        return ReportError::NotPayments { name: name.to_owned(), other: other.to_owned() };
    }
    let needs = &[Need::Key, Need::Needed];
    let mut nearest: Option<Near> = None;
    for titles in seen {
        let normal = normalised(&titles);
        for candidate in candidates {
            let places = Places::find(&candidate.wanted, &normal);
            let missing: Vec<String> = places.missing(&candidate.wanted, needs).collect();
            let wanted = candidate.wanted.iter().filter(|w| needs.contains(&w.need)).count();
            let found = wanted - missing.len();
            // Compared as fractions, without floats: found/wanted against the best so far.
            let better = nearest.as_ref().is_none_or(|n| found * n.wanted > n.found * wanted);
            if found > 0 && better {
                nearest = Some(Near { found, wanted, candidate, missing, titles: titles.clone() });
            }
        }
    }
    let alone = candidates.len() == 1;
    match nearest {
        Some(near) if near.found * 2 >= near.wanted || alone => {
            missing_columns(name, near.candidate, &near.missing, &near.titles)
        }
        _ if alone => {
            let missing: Vec<String> = candidates[0]
                .wanted
                .iter()
                .filter(|w| needs.contains(&w.need))
                .map(|w| w.titles.join(" or "))
                .collect();
            missing_columns(name, &candidates[0], &missing, &first)
        }
        _ => {
            let mut known: Vec<&str> = candidates.iter().map(|c| c.layout.format.name()).collect();
            known.dedup();
            ReportError::UnknownFormat { name: name.to_owned(), seen: shown(&first), known: known.join(", ") }
        }
    }
}

/// Titles for a message: bounded, since the "titles" of a strange file can be anything.
pub(super) fn shown(titles: &[String]) -> String {
    let mut text: Vec<String> =
        titles.iter().take(SHOWN_TITLES_MAX).map(|t| super::mask::masked(t).replace(['\n', '\r'], " ")).collect();
    if titles.len() > SHOWN_TITLES_MAX {
        text.push(format!("and {} more", titles.len() - SHOWN_TITLES_MAX));
    }
    let mut text = text.join(", ");
    if text.len() > 2000 {
        let end = (0..=2000).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" ...");
    }
    text
}
