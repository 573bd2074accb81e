//! The style guide as a test: arrows between rooms, names, file lengths, samples, immutable migrations.
//!
//! `docs/ARCHITECTURE.md` states these invariants in words.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms and their level: an import may only go to a lower level, or stay inside its room.
const LEVELS: &[(&str, u8)] = &[
    ("clock", 0),
    ("domain", 1),
    ("config", 2),
    ("policy", 3),
    ("matching", 3),
    ("formats", 3),
    ("gateway", 3),
    ("store", 3),
    ("report", 3),
    ("delivery", 3),
    ("job", 4),
    ("cli", 5),
    ("telemetry", 5),
    ("local_postgres", 5),
    ("operator", 6),
    ("demo", 6),
    ("exit", 7),
    ("app", 8),
    ("main", 9),
    ("lib", 9),
];

/// A file is one thing; past this it is two.
const LINES_MAX: usize = 500;

/// What a room must never name, with the reason shown when it does.
const FORBIDDEN: &[(&[&str], &[&str], &str)] = &[
    (
        &["domain", "policy", "matching"],
        &["sqlx", "tokio::", "std::fs", "std::net", "rand::", "clock::"],
        "domain, policy and matching are pure: no SQL, runtime, files, sockets, randomness or clock",
    ),
    (&["report"], &["sqlx", "tokio::", "std::fs", "std::net", "clock::"], "report renders in memory only"),
    (
        &["job", "operator", "app", "demo", "formats", "report", "delivery", "gateway", "config"],
        &["sqlx::query", "sqlx::raw_sql", "sqlx::QueryBuilder"],
        "only store contains SQL",
    ),
    (
        &["job", "operator", "store", "report", "matching", "policy", "domain", "formats", "config", "delivery"],
        &["tokio_cron_scheduler", "TcpListener"],
        "only schedule.rs schedules and only serve.rs listens",
    ),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {ending} files below {}", folder.display());
    found
}

fn room_of(path: &Path) -> String {
    let inside = path.strip_prefix(root().join("src")).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_string()
}

/// The file's text up to its unit tests, without comments: what production code imports. A folder `tests` has none.
fn production_code(path: &Path) -> String {
    if path.components().any(|part| part.as_os_str() == "tests") {
        return String::new();
    }
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn imports_only_go_down() {
    let levels: BTreeMap<&str, u8> = LEVELS.iter().copied().collect();
    let mut wrong = Vec::new();
    for path in files_below(&root().join("src"), ".rs") {
        let room = room_of(&path);
        let level = levels.get(room.as_str()).unwrap_or_else(|| panic!("room {room} has no level in tidy.rs"));
        let code = production_code(&path);
        for piece in code.split("crate::").skip(1).chain(code.split("idem_jobs::").skip(1)) {
            let target: String = piece.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if let Some(target_level) = levels.get(target.as_str())
                && target != room
                && target_level >= level
            {
                wrong.push(format!("{} imports {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that go up or sideways:\n{}", wrong.join("\n"));
}

#[test]
fn rooms_stay_within_their_means() {
    let mut wrong = Vec::new();
    for path in files_below(&root().join("src"), ".rs") {
        let (room, code) = (room_of(&path), production_code(&path));
        for (rooms, words, reason) in FORBIDDEN {
            if rooms.contains(&room.as_str()) {
                for word in words.iter().filter(|word| code.contains(**word)) {
                    wrong.push(format!("{} names `{word}`: {reason}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn jobs_do_not_import_each_other() {
    let jobs: Vec<String> = fs::read_dir(root().join("src/job"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "mod")
        .collect();
    for path in files_below(&root().join("src/job"), ".rs") {
        let inside = path.strip_prefix(root().join("src/job")).unwrap();
        let own = inside.components().next().unwrap().as_os_str().to_string_lossy();
        let own = own.trim_end_matches(".rs");
        if own == "mod" {
            continue;
        }
        let code = production_code(&path);
        for other in jobs.iter().filter(|other| *other != own) {
            assert!(!code.contains(&format!("job::{other}")), "{} imports the job {other}", path.display());
        }
    }
}

#[test]
fn files_are_one_room_each() {
    for path in files_below(&root().join("src"), ".rs") {
        let lines = production_code(&path).lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines of code: is it one room?", path.display());
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(
            !["util", "utils", "common", "helpers", "types", "misc"].contains(&name.as_str()),
            "{}: a name that says nothing",
            path.display()
        );
        assert!(
            fs::read_to_string(&path).unwrap().starts_with("//! "),
            "{} does not begin with what it is for",
            path.display()
        );
    }
}

#[test]
fn migrations_are_gap_free_and_say_why() {
    for (at, path) in files_below(&root().join("migrations"), ".sql").iter().enumerate() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let number: usize = name.split('_').next().unwrap().parse().unwrap();
        assert_eq!(number, at + 1, "{name}: migrations are numbered without gaps");
        assert!(fs::read_to_string(path).unwrap().starts_with("-- "), "{name} does not begin with why");
    }
}

#[test]
fn the_project_speaks_of_itself_alone() {
    let words = ["TODO", "FIXME", "XXX"];
    for folder in ["src", "migrations", "docs", "scripts", "reports/mismatch"] {
        for path in files_below(&root().join(folder), "") {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            for word in words {
                assert!(!text.contains(word), "{} holds {word}: finish it or say it in docs", path.display());
            }
        }
    }
}
