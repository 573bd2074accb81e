//! `report.html`: one file that needs nothing else, not even a network.
//!
//! Style and script stand in the page and are allowed by their hashes alone; the rows are JSON that the
//! script writes as text, never as markup.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::figures::count;
use super::view::View;
use crate::domain::run::Reconciliation;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The templates of this room, checked when first used (each test does).
pub(super) static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_auto_escape_callback(|name| match name {
        "subject.txt" | "body.txt" => AutoEscape::None,
        _ => AutoEscape::Html,
    });
    for (name, source) in [
        ("report.html", include_str!("report.html.j2")),
        ("subject.txt", include_str!("../../reports/mismatch/subject.txt")),
        ("body.txt", include_str!("../../reports/mismatch/body.txt")),
        ("body.html", include_str!("../../reports/mismatch/body.html")),
    ] {
        env.add_template(name, source).expect("the embedded templates are well-formed");
    }
    env
});

/// Fills the template `name`.
pub(super) fn render(name: &str, values: Value) -> String {
    let template = TEMPLATES.get_template(name).expect("only embedded templates are asked for");
    template.render(values).unwrap_or_else(|error| panic!("the template {name} fits its values: {error:#}"))
}

/// The page.
pub(super) fn page(found: &Reconciliation, now: DateTime<Utc>) -> String {
    let view = View::new(found, now);
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    let values = context! {
        policy,
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        rows => Value::from_safe_string(inline_json(&view.rows)),
        shown => count(view.rows.len() as u64),
        all => count(view.findings),
        capped => (view.rows.len() as u64) < view.findings,
        ..Value::from_serialize(&view)
    };
    render("report.html", values)
}

/// A source expression of the content security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// JSON that can stand in a script element: no `<`, so neither `</script>` nor `<!--` can occur.
fn inline_json<T: Serialize + ?Sized>(value: &T) -> String {
    let json = serde_json::to_string(value).expect("rows are strings and numbers");
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Fails unless every element is closed in order and every attribute is quoted.
#[cfg(test)]
pub(super) fn assert_well_formed(html: &str) {
    const VOID: [&str; 4] = ["meta", "br", "input", "rect"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if rest.starts_with("!doctype") {
            continue;
        }
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[..end];
        assert!(!tag.contains('<'), "a tag inside of a tag: {tag}");
        assert!(tag.matches('"').count().is_multiple_of(2), "an open quote: {tag}");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "a bare < before {tag}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed in another order than opened");
        } else if !VOID.contains(&name) {
            open.push(name);
        }
        rest = &rest[end + 1..];
        if matches!(name, "script" | "style") && !tag.starts_with('/') {
            rest = &rest[rest.find(&format!("</{name}>")).expect("raw text ends")..];
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[cfg(test)]
mod tests {
    use super::super::sample::{HOSTILE, bad_day, clean_day, hostile_day, now};
    use super::*;

    #[test]
    fn the_page_of_a_clean_day() {
        let page = page(&clean_day(), now());
        assert_well_formed(&page);
        // The policy has hashes of style and script, which are tested below.
        let page = page.replace(STYLE, "").replace(SCRIPT, "");
        let lines: Vec<_> = page.lines().filter(|line| !line.contains("Content-Security-Policy")).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn the_page_is_well_formed_and_asks_for_nothing_from_elsewhere() {
        let page = page(&bad_day(60), now());
        assert_well_formed(&page);
        for outside in
            ["http:", "https:", "src=", "href=", "url(", "@import", "import(", "fetch(", " style=\"", " onclick"]
        {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn style_and_script_stand_in_the_page_as_their_hashes_say() {
        // Attribute values are escaped more than they need to be.
        let page = page(&clean_day(), now()).replace("&#x27;", "'").replace("&#x2f;", "/");
        for (element, source) in [("style", STYLE), ("script", SCRIPT)] {
            assert!(page.contains(&format!("<{element}>{source}</{element}>")), "{element}");
            assert!(page.contains(&format!("{element}-src '{}'", hash(source))), "{element}");
        }
        assert!(page.contains("content=\"default-src 'none';"));
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("eval"));
    }

    #[test]
    fn the_rows_in_the_page_are_the_findings() {
        let day = bad_day(60);
        let page = page(&day, now());
        let start = page.find("id=\"rows-json\">").unwrap() + "id=\"rows-json\">".len();
        let json = &page[start..start + page[start..].find("</script>").unwrap()];
        let rows: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
        let ids: Vec<_> = rows.iter().map(|r| r["id"].as_str().unwrap()).collect();
        assert_eq!(ids, day.mismatches.iter().map(|m| m.id.as_str()).collect::<Vec<_>>());
    }

    #[test]
    fn hostile_values_stay_text() {
        let page = page(&hostile_day(), now());
        assert_well_formed(&page);
        assert_eq!(page.matches("<script").count(), 2, "the rows and our own script, no other");
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<img"));
        assert!(!page.contains("4111111111111111"));
        assert!(page.chars().all(|c| c == '\n' || !super::super::clean::is_hidden(c)));
        assert!(page.contains("{{ 7 * 7 }}"), "a template in a value is not a template");
        assert!(page.len() < 200_000, "{}", page.len());
        for attribute in [HOSTILE[1], HOSTILE[2]] {
            assert!(!page.contains(&format!("=\"{attribute}")));
        }
    }

    #[test]
    fn a_page_with_more_findings_than_a_browser_likes_says_so() {
        let mut day = bad_day(1);
        day.mismatches = vec![day.mismatches[0].clone(); 20_001];
        let page = page(&day, now());
        assert!(page.contains("20,000 of 20,001 findings are listed here"));
    }
}
