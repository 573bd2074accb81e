//! A reconciliation rendered for people and programs: HTML, CSV, JSON, text, mail.
//!
//! Everything happens in memory and is pure: now and names of folders are arguments. Writing, sending
//! and reading never live here. Foreign text is masked, bounded and made visible ([`clean`]) before any
//! renderer sees it; each renderer then escapes for its own language.

mod clean;
mod csv;
mod figures;
mod html;
mod json;
mod mail;
mod row;
#[cfg(test)]
mod sample;
mod text;
mod verdict;
mod view;
mod words;

use chrono::{DateTime, Utc};

use crate::domain::document::Document;
use crate::domain::run::Reconciliation;

pub use json::json;
pub use mail::{Mail, mail, refused_mail};
pub use text::{TextStyle, text};

/// The files that a finished run leaves on disk: `report.html`, `mismatches.csv`, `report.json`, `report.txt`.
///
/// Ages count from the charge to `now`; pass the run's own instant to get the same bytes again.
/// An XLSX workbook would be one more entry of this list, from the same rows as the CSV.
pub fn documents(found: &Reconciliation, now: DateTime<Utc>) -> Vec<Document> {
    let plain = TextStyle { now, color: false, folder: None };
    vec![
        Document { name: "report.html", media_type: "text/html; charset=utf-8", bytes: html::page(found, now).into() },
        Document { name: "mismatches.csv", media_type: "text/csv; charset=utf-8", bytes: csv::all(found, now) },
        Document { name: "report.json", media_type: "application/json", bytes: json(found).into() },
        Document { name: "report.txt", media_type: "text/plain; charset=utf-8", bytes: text(found, plain).into() },
    ]
}
