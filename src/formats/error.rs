//! Why a report (or our own local file) cannot be read as a whole. One row's fault is no error: it is a refused row.

use std::io;

/// Why nothing can be said about a report. Two families: the call was wrong, or the report is refused.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No path at all.
    #[error("no report given: name at least one file, or - for standard input")]
    NoFile,
    /// The path does not exist.
    #[error("no such file: {0}")]
    NoSuchFile(String),
    /// The path is a folder.
    #[error("{0} is a directory, a report file was expected")]
    Directory(String),
    /// Permissions, or the disk failed.
    #[error("cannot read {name}: {source}")]
    Unreadable {
        /// File name.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// `--reference-column` names no title of the file.
    #[error("{name} has no column {title:?} for --reference-column; its titles are: {seen}")]
    NoSuchTitle {
        /// File name.
        name: String,
        /// Title that was asked for.
        title: String,
        /// Titles of the file.
        seen: String,
    },
    /// `--encoding` names no encoding.
    #[error("unknown encoding {0:?}: expected a label such as windows-1252, utf-16le or shift_jis")]
    NoSuchEncoding(String),
    /// All dates of the file read in both orders.
    #[error(
        "{name}: {example:?} can be day/month or month/day, and no date of the file decides it: \
         state the date order, or download a period that has a day after the 12th"
    )]
    DateOrder {
        /// File name.
        name: String,
        /// One of the dates.
        example: String,
    },
    /// The report has no currency column.
    #[error("{name}: a {format} report does not say its currency: state it with --currency")]
    NoCurrency {
        /// File name.
        name: String,
        /// What it is.
        format: String,
    },
    /// Several files that are not parts of one report.
    #[error("{name} is a {found} report, but the first file is a {first} report: give the parts of one report only")]
    MixedParts {
        /// File name.
        name: String,
        /// What it is.
        found: String,
        /// What the first one is.
        first: String,
    },
    /// A bad row in our own file.
    #[error("{name} line {line}, column {column}: {raw:?}: {reason}")]
    LocalRow {
        /// File name.
        name: String,
        /// Physical line.
        line: u64,
        /// Title of the column.
        column: String,
        /// The text at fault.
        raw: String,
        /// What was expected.
        reason: String,
    },
    /// A file of our own without a column that it must have.
    #[error("{name}: the local file lacks the column(s) {missing}; its titles are: {seen}")]
    LocalTitles {
        /// File name.
        name: String,
        /// Titles that are missing.
        missing: String,
        /// Titles of the file.
        seen: String,
    },

    /// Nothing in it.
    #[error("{0} is empty: a day without business still has titles or a trailer, so this is not a report")]
    Empty(String),
    /// Not text.
    #[error("{name} line {line}: holds NUL bytes, so it is not a CSV text{hint}")]
    Binary {
        /// File name.
        name: String,
        /// Physical line.
        line: u64,
        /// What it may be instead.
        hint: &'static str,
    },
    /// No format has these titles.
    #[error("{name}: unknown report format; titles seen: {seen}; known formats: {known}")]
    UnknownFormat {
        /// File name.
        name: String,
        /// Titles of the file.
        seen: String,
        /// What we know.
        known: String,
    },
    /// A report of something else.
    #[error("{name} is {other}")]
    NotPayments {
        /// File name.
        name: String,
        /// What it is, and what to download instead.
        other: String,
    },
    /// More than one format has these titles.
    #[error("{name} can be read as {formats}: say which with --provider")]
    SeveralFormats {
        /// File name.
        name: String,
        /// The formats.
        formats: String,
    },
    /// A needed column is not there.
    #[error("{name}: a {format} report needs the column(s) {missing}; titles seen: {seen}{hint}")]
    MissingColumns {
        /// File name.
        name: String,
        /// The nearest format.
        format: String,
        /// Titles that are missing.
        missing: String,
        /// Titles of the file.
        seen: String,
        /// What to do about it.
        hint: String,
    },
    /// The end is missing.
    #[error("{name} line {line}: the file is cut off: {reason}; download it again")]
    Cut {
        /// File name.
        name: String,
        /// Physical line.
        line: u64,
        /// How it shows.
        reason: String,
    },
    /// The report's own counts or sums do not agree with its rows.
    #[error("{name} line {line}: the report does not add up: {reason}; download it again")]
    Trailer {
        /// File name.
        name: String,
        /// Physical line.
        line: u64,
        /// What was stated and what was found.
        reason: String,
    },
    /// A needed title stands twice.
    #[error("{name}: the title {title:?} stands twice, so its column cannot be told")]
    DuplicateTitle {
        /// File name.
        name: String,
        /// The title.
        title: String,
    },
    /// A field or a record beyond the limit.
    #[error("{name} line {line}: {what} is larger than {limit_bytes} bytes; is a closing quote missing?")]
    TooBig {
        /// File name.
        name: String,
        /// Physical line on which the record starts.
        line: u64,
        /// Field or record.
        what: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// The text is not in the encoding that the file begins with or that was stated.
    #[error("{name} line {line}: {reason}")]
    Text {
        /// File name.
        name: String,
        /// Physical line.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A gzip or zip file that cannot be unpacked, or must not be.
    #[error("{name} cannot be unpacked: {reason}")]
    Packed {
        /// File name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The bytes are not those of the first look.
    #[error("{0} was changed while it was being read: run again when the download has finished")]
    Changed(String),
}

impl ReportError {
    /// Whether the call was wrong (exit 2). Otherwise the report is refused (exit 6).
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoFile
                | Self::NoSuchFile(_)
                | Self::Directory(_)
                | Self::Unreadable { .. }
                | Self::NoSuchTitle { .. }
                | Self::NoSuchEncoding(_)
                | Self::DateOrder { .. }
                | Self::NoCurrency { .. }
                | Self::MixedParts { .. }
                | Self::LocalRow { .. }
                | Self::LocalTitles { .. }
        )
    }
}
