//! Configuration as an operator meets it: files, variables, and what is said when they are wrong.

use std::time::Duration;

use idem_jobs::config::{
    ConfigError, Environment, GenericStatus, LocalFrom, REFERENCE, Reading, Secret, Settings, load, load_text,
};
use idem_jobs::domain::charge::MatchKey;
use idem_jobs::domain::entry::{EntryKind, Status};
use idem_jobs::domain::money::{Currency, DecimalMark, MinorUnits};

const HOUR: Duration = Duration::from_hours(1);

fn environment(pairs: &[(&str, &str)]) -> Environment {
    Environment::from_pairs(pairs.iter().copied())
}

fn settings(text: &str) -> Settings {
    load_text(text, "jobs.toml", &Environment::default()).expect("the text is sound")
}

/// What is said about a wrong configuration, one line a problem.
fn said(text: &str, pairs: &[(&str, &str)]) -> String {
    load_text(text, "jobs.toml", &environment(pairs)).expect_err("the text is wrong").to_string()
}

#[test]
fn the_reference_gives_exactly_the_defaults() {
    assert_eq!(settings(REFERENCE), Settings::default());
    assert_eq!(settings(""), Settings::default());
    assert_eq!(settings("\u{feff}[mail]\r\n"), Settings::default(), "also as Windows' editors write it");
}

#[test]
fn the_defaults_are_those_of_the_manual() {
    let defaults = Settings::default();
    let reconcile = &defaults.reconcile;
    assert_eq!(defaults.database_url, None);
    assert_eq!((reconcile.grace, reconcile.slack, reconcile.settlement_lag), (72 * HOUR, 24 * HOUR, 168 * HOUR));
    assert_eq!((reconcile.lock_wait, reconcile.statement_timeout), (HOUR / 6, HOUR / 2));
    assert_eq!((reconcile.missing_percent_max, reconcile.missing_floor, reconcile.empty_key_percent_max), (5, 100, 20));
    assert_eq!(reconcile.severity_at_risk, [1_000, 10_000, 100_000]);
    let local = reconcile.local_for("stripe", "acct_1").unwrap();
    let LocalFrom::Table(table) = &local.from else { panic!("the default is a table") };
    assert_eq!((table.schema.as_str(), table.table.as_str()), ("idem", "charges"));
    assert_eq!(local.match_key, MatchKey::MerchantReference);
    assert_eq!(local.statuses.get("refunded"), Some(&GenericStatus::Refunded));
}

#[test]
fn a_wrong_file_is_refused_with_place_key_value_and_what_was_expected() {
    let table = [
        (
            "unknown key",
            "[reconcile]\n\ngrce = \"1h\"",
            "jobs.toml:3: reconcile.grce: unknown key; did you mean `grace`?",
        ),
        ("unknown section", "[reconsile]", "jobs.toml:1: reconsile: unknown key; did you mean `reconcile`?"),
        (
            "nothing like it",
            "[database]\nport = 5432",
            "jobs.toml:2: database.port: unknown key; known here are url, url_file",
        ),
        (
            "unknown key in a list of tables",
            "[[reconcile.local]]\ntable = \"a.b\"\n[[reconcile.local]]\ntable = \"c.d\"\n[reconcile.local.columns]\ncharge = \"id\"",
            "jobs.toml:6: reconcile.local[1].columns.charge: unknown key; did you mean `charge_id`?",
        ),
        (
            "unknown key in match",
            "[[reconcile.local]]\ntable = \"a.b\"\nmatch = { lokal = \"x\" }",
            "jobs.toml:3: reconcile.local[0].match.lokal: unknown key; did you mean `local`?",
        ),
        (
            "wrong sort",
            "[reconcile]\nmissing_percent = \"five\"",
            "jobs.toml:2: reconcile.missing_percent: found string \"five\", expected a whole number",
        ),
        ("list for a text", "[mail]\nfrom = [\"a@b\"]", "jobs.toml:2: mail.from: found a list, expected a string"),
        ("value for a table", "reconcile = 5", "jobs.toml:1: reconcile: found integer `5`, expected a table"),
        (
            "table for a list",
            "[reconcile.provider]\nname = \"stripe\"",
            "jobs.toml:1: reconcile.provider: found a table, expected a list",
        ),
        (
            "span out of range",
            "[reconcile]\ngrace = \"91d\"",
            "jobs.toml:2: reconcile.grace: \"91d\": allowed is 0s to 90d",
        ),
        (
            "span without unit",
            "[reconcile]\nlock_wait = \"10\"",
            "jobs.toml:2: reconcile.lock_wait: \"10\": expected a span such as \"30s\", \"10m\", \"72h\" or \"1d 12h\"; \
             allowed is 0s to 1d",
        ),
        (
            "number out of range",
            "[reconcile]\nempty_key_percent = 101",
            "jobs.toml:2: reconcile.empty_key_percent: 101: allowed is 0 to 100",
        ),
        (
            "negative number",
            "[reconcile]\nmissing_floor = -1",
            "jobs.toml:2: reconcile.missing_floor: -1: allowed is 0 to 1000000000",
        ),
        (
            "steps that fall",
            "[reconcile]\nseverity_at_risk = [3, 2, 1]",
            "jobs.toml:2: reconcile.severity_at_risk: [3, 2, 1]: expected three whole numbers from 0, none below the one before it",
        ),
        (
            "header injection",
            "[mail]\nto = [\"a@b.c\", \"x@y.z\\nBcc: m@n.o\"]",
            "jobs.toml:2: mail.to[1]: \"x@y.z\\nBcc: m@n.o\": expected a plain address such as payments@example.com",
        ),
        (
            "neither table nor query",
            "[[reconcile.local]]\nprovider = \"stripe\"",
            "jobs.toml:1: reconcile.local[0]: expected either table or query",
        ),
        (
            "rows of other providers",
            "[[reconcile.local]]\nquery = \"SELECT 1\"",
            "jobs.toml:1: reconcile.local[0]: nothing selects the provider's rows: set provider, or \
             columns.provider_column, or use $provider in the query",
        ),
        (
            "two statements",
            "[[reconcile.local]]\nprovider = \"stripe\"\nquery = \"SELECT 1;\"",
            "jobs.toml:3: reconcile.local[0].query: \"SELECT 1;\": leave the last `;` out: the query becomes a part of a larger one",
        ),
        (
            "match key without column",
            "[[reconcile.local]]\ntable = \"a.b\"\ncolumns = { merchant_reference = \"\" }",
            "jobs.toml:3: reconcile.local[0].columns.merchant_reference: is the match key and cannot be left out",
        ),
        (
            "entry that is never reached",
            "[[reconcile.local]]\ntable = \"a.b\"\n[[reconcile.local]]\nprovider = \"stripe\"\ntable = \"c.d\"",
            "jobs.toml:3: reconcile.local[1]: is never reached: an entry above serves the same provider and account",
        ),
        (
            "format without needed titles",
            "[[reconcile.format]]\nprovider = \"mybank\"\ncolumns = { amount = \"Betrag\" }",
            "jobs.toml:3: reconcile.format[0].columns.provider_id: this key is needed",
        ),
        (
            "unknown kind",
            "[[reconcile.format]]\nprovider = \"mybank\"\nkinds = { Z = \"pay\" }\n\
             columns = { amount = \"B\", provider_id = \"V\", kind = \"A\" }",
            "jobs.toml:3: reconcile.format[0].kinds.Z: \"pay\": expected a kind such as charge, refund, chargeback, fee, \
             payout or adjustment",
        ),
        (
            "zone that nobody knows",
            "[[reconcile.provider]]\nname = \"stripe\"\ntimezone = \"CEST\"",
            "jobs.toml:3: reconcile.provider[0].timezone: \"CEST\": expected a zone of the IANA database such as UTC or Europe/Berlin",
        ),
        ("not TOML", "[reconcile]\ngrace = 72h", "jobs.toml:2:9: not TOML: "),
        ("key twice", "[mail]\nfrom = \"a@b\"\nfrom = \"c@d\"", "jobs.toml:3:1: not TOML: duplicate key"),
    ];
    for (flaw, text, expected) in table {
        let found = said(text, &[]);
        if expected.contains("not TOML") {
            assert!(found.starts_with(expected), "{flaw}: {found}");
        } else {
            assert_eq!(found, expected, "{flaw}");
        }
    }
}

#[test]
fn all_problems_are_said_at_once() {
    let unknown = said("[reconcile]\ngrce = 1\nlock_wait = 5\n[mail]\nfrm = \"x\"", &[]);
    insta::assert_snapshot!(unknown, @r"
    jobs.toml:5: mail.frm: unknown key; did you mean `from`?
    jobs.toml:2: reconcile.grce: unknown key; did you mean `grace`?
    jobs.toml:3: reconcile.lock_wait: found integer `5`, expected a string
    ");
    let values = said("[reconcile]\ngrace = \"1w\"\n[mail]\nfrom = \"x\"", &[]);
    insta::assert_snapshot!(values, @r#"
    jobs.toml:2: reconcile.grace: "1w": expected a span such as "30s", "10m", "72h" or "1d 12h"; allowed is 0s to 90d
    jobs.toml:4: mail.from: "x": expected a plain address such as payments@example.com
    "#);
}

#[test]
fn the_environment_stands_over_the_file() {
    let text = "[database]\nurl = \"postgres://file/x\"\n[reconcile]\ngrace = \"1h\"\nslack = \"2h\"";
    let url = |pairs: &[(&str, &str)]| {
        let settings = load_text(text, "jobs.toml", &environment(pairs)).unwrap();
        settings.database_url.unwrap().expose().to_owned()
    };
    assert_eq!(url(&[]), "postgres://file/x");
    assert_eq!(url(&[("DATABASE_URL", "")]), "postgres://file/x", "an empty variable is not set");
    assert_eq!(url(&[("DATABASE_URL", "postgres://env/x")]), "postgres://env/x");
    let both = [("DATABASE_URL", "postgres://env/x"), ("IDEM_DATABASE_URL", "postgresql://idem/x")];
    assert_eq!(url(&both), "postgresql://idem/x");

    let pairs = [
        ("IDEM_RECONCILE_GRACE", "3h"),
        ("IDEM_RECONCILE_MISSING_PERCENT", "7"),
        ("IDEM_RECONCILE_SEVERITY_AT_RISK", "1, 2,3"),
        ("IDEM_MAIL_TO", "a@b.c, d@e.f"),
        ("IDEM_POSTGRES_BIN", "/opt/pg/bin"),
        ("IDEM_DATABASE_SERVICE_HOST", "10.0.0.1"),
        ("IDEM_DATABASE_PORT", "tcp://10.0.0.1:5432"),
    ];
    let settings = load_text(text, "jobs.toml", &environment(&pairs)).unwrap();
    assert_eq!((settings.reconcile.grace, settings.reconcile.slack), (3 * HOUR, 2 * HOUR));
    assert_eq!(settings.reconcile.missing_percent_max, 7);
    assert_eq!(settings.reconcile.severity_at_risk, [1, 2, 3]);
    assert_eq!(settings.mail.to, ["a@b.c", "d@e.f"]);
    assert_eq!(environment(&pairs).postgres_bin().unwrap(), "/opt/pg/bin");
}

#[test]
fn a_wrong_variable_is_named() {
    let table = [
        (
            "IDEM_RECONCILE_GARCE",
            "1h",
            "environment variable IDEM_RECONCILE_GARCE: reconcile.garce: unknown key; did you mean `grace`?",
        ),
        (
            "IDEM_RECONCILE_GRACE",
            "1w",
            "environment variable IDEM_RECONCILE_GRACE: reconcile.grace: the value (from a variable) is wrong: expected a \
             span such as \"30s\", \"10m\", \"72h\" or \"1d 12h\"; allowed is 0s to 90d",
        ),
        (
            "IDEM_RECONCILE_MISSING_PERCENT",
            "many",
            "environment variable IDEM_RECONCILE_MISSING_PERCENT: reconcile.missing_percent: found a value that comes \
             from a variable, expected a whole number",
        ),
        (
            "DATABASE_URL",
            "mysql://root:hunter2@db/x",
            "environment variable DATABASE_URL: database.url: expected a URL that begins with postgres:// or postgresql://",
        ),
    ];
    for (name, value, expected) in table {
        assert_eq!(said("", &[(name, value)]), expected, "{name}");
    }
}

#[test]
fn variables_inside_the_file() {
    let text = "[database]\nurl = \"postgres://${PGUSER}:${PGPASSWORD}@db/x\"\n[reconcile]\nreports_dir = \"$${HOME}\"";
    let pairs = [("PGUSER", "jobs"), ("PGPASSWORD", "hunter2")];
    let settings = load_text(text, "jobs.toml", &environment(&pairs)).unwrap();
    assert_eq!(settings.database_url, Some(Secret::new("postgres://jobs:hunter2@db/x")));
    assert_eq!(settings.reconcile.reports_dir.to_str(), Some("${HOME}"));

    let missing = said(text, &[("PGUSER", "jobs")]);
    assert_eq!(missing, "jobs.toml:2: database.url: the environment variable PGPASSWORD is not set");
}

#[test]
fn secrets_come_from_files_and_are_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("url");
    std::fs::write(&path, "postgres://jobs:hunter2@db/x\n").unwrap();
    let file = path.to_str().unwrap();
    let expected = Some(Secret::new("postgres://jobs:hunter2@db/x"));

    let from_key = settings(&format!("[database]\nurl_file = {file:?}"));
    assert_eq!(from_key.database_url, expected);
    let from_variable = load_text(
        "[database]\nurl = \"postgres://other/x\"",
        "jobs.toml",
        &environment(&[("DATABASE_URL_FILE", file)]),
    );
    assert_eq!(from_variable.unwrap().database_url, expected);
    assert!(!format!("{from_key:?}").contains("hunter2"));

    let both = said(&format!("[database]\nurl = \"postgres://a/b\"\nurl_file = {file:?}"), &[]);
    assert_eq!(both, "jobs.toml:3: database.url_file: database.url is given too: keep one of them");
    let both = said("", &[("DATABASE_URL", "postgres://a/b"), ("DATABASE_URL_FILE", file)]);
    assert_eq!(both, "environment variable DATABASE_URL: database.url: DATABASE_URL_FILE is set too: keep one of them");
    let away = said("[database]\nurl_file = \"/nowhere/url\"", &[]);
    assert!(away.starts_with("jobs.toml:2: database.url_file: /nowhere/url: No such file"), "{away}");
    std::fs::write(&path, "\n").unwrap();
    assert!(said("", &[("DATABASE_URL_FILE", file)]).ends_with("is empty"));

    for text in ["[database]\nurl = [\"hunter2\"]", "[database]\nurl = \"hunter2\"", "[database]\nurl = hunter2"] {
        assert!(!said(text, &[]).contains("hunter2"), "{text}");
    }
    let moved = "[mail]\nfrom = \"${PGPASSWORD}\"\n[reconcile]\nmissing_percent = \"${PGPASSWORD}\"";
    assert!(!said(moved, &[("PGPASSWORD", "hunter2")]).contains("hunter2"));
}

#[test]
fn a_named_file_must_be_there_and_be_text() {
    let folder = tempfile::tempdir().unwrap();
    let none = Environment::default();
    let path = folder.path().join("jobs.toml");
    assert!(matches!(load(Some(&path), &none), Err(ConfigError::Unreadable { .. })));
    assert!(matches!(load(Some(folder.path()), &none), Err(ConfigError::Unreadable { .. })), "a folder");
    std::fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    assert!(matches!(load(Some(&path), &none), Err(ConfigError::NotText { .. })));
    std::fs::write(&path, " ".repeat(1024 * 1024 + 1)).unwrap();
    assert!(matches!(load(Some(&path), &none), Err(ConfigError::TooLarge { .. })));
    std::fs::write(&path, "[reconcile]\ngrace = \"1h\"").unwrap();
    assert_eq!(load(Some(&path), &none).unwrap().reconcile.grace, HOUR);
    // Tests run in the package's own folder, whose jobs.toml is the reference.
    assert_eq!(load(None, &none).unwrap(), Settings::default());
}

#[test]
fn local_sources_are_found_by_provider_and_account() {
    let settings = settings(
        r#"
        [[reconcile.local]]
        provider = "stripe"
        account = "acct_1"
        table = "payments"
        match = { local = "idempotency_key", report = "order_id (metadata)" }
        minor_units = "stripe"
        statuses = { DONE = "succeeded", pending = "failed" }
        columns = { charge_id = "id", refunded_minor = "", provider_column = "" }

        [[reconcile.local]]
        provider = "adyen"
        query = "WITH p AS (SELECT 1) SELECT * FROM p WHERE provider = $provider"
        match = "provider_id"
        "#,
    );
    let reconcile = &settings.reconcile;
    let stripe = reconcile.local_for("stripe", "acct_1").unwrap();
    let LocalFrom::Table(table) = &stripe.from else { panic!("it is a table") };
    assert_eq!((table.schema.as_str(), table.table.as_str(), table.charge_id.as_str()), ("public", "payments", "id"));
    assert_eq!((&table.refunded_minor, &table.provider_column), (&None, &None));
    assert_eq!(table.merchant_reference.as_deref(), Some("merchant_reference"), "not named, so as in idem.charges");
    assert_eq!((stripe.match_key, stripe.minor_units), (MatchKey::IdempotencyKey, MinorUnits::Stripe));
    assert_eq!(stripe.statuses.get("done"), Some(&GenericStatus::Is(Status::Succeeded)), "compared in lower case");
    assert_eq!(stripe.statuses.get("pending"), Some(&GenericStatus::Is(Status::Failed)), "a built-in word is changed");
    assert_eq!(stripe.statuses.get("paid"), Some(&GenericStatus::Is(Status::Succeeded)), "the others stay");

    assert_eq!(reconcile.local_for("adyen", "any").map(|source| source.match_key), Some(MatchKey::ProviderId));
    assert_eq!(reconcile.local_for("stripe", "acct_2"), None, "another account's charges are never compared");
    assert_eq!(reconcile.local_for("paypal", ""), None);

    let none = Reading::default();
    let title = Some("order_id (metadata)".to_owned());
    assert_eq!(settings.reconcile.reading_for("stripe", "acct_1", &none).reference_column, title);
    assert_eq!(settings.reconcile.reading_for("stripe", "acct_2", &none).reference_column, None);
}

#[test]
fn reading_options_go_from_the_flag_to_the_account_to_the_provider() {
    let settings = settings(
        r#"
        [[reconcile.provider]]
        name = "paypal"
        decimal_separator = "comma"
        timezone = "Europe/Berlin"
        delimiter = "tab"
        settlement_lag = "3d"

        [[reconcile.provider]]
        name = "paypal"
        account = "us"
        decimal_separator = "point"
        currency = "usd"
        encoding = "latin1"
        "#,
    );
    let flags = Reading { currency: Currency::parse("CAD"), ..Reading::default() };
    let reading = settings.reconcile.reading_for("paypal", "us", &flags);
    assert_eq!(reading.currency, Currency::parse("CAD"), "the flag");
    assert_eq!(reading.decimal_mark, Some(DecimalMark::Point), "the account");
    assert_eq!((reading.delimiter, reading.encoding.as_deref()), (Some(b'\t'), Some("windows-1252")));
    assert_eq!(
        settings.reconcile.reading_for("paypal", "de", &flags).decimal_mark,
        Some(DecimalMark::Comma),
        "the provider"
    );
    assert_eq!(settings.reconcile.reading_for("stripe", "", &flags), flags);
    assert_eq!(settings.reconcile.settlement_lag_for("paypal", "us"), 72 * HOUR);
    assert_eq!(settings.reconcile.settlement_lag_for("stripe", ""), 168 * HOUR);
}

#[test]
fn a_generic_format_is_declared_by_its_titles() {
    let settings = settings(
        r#"
        [[reconcile.format]]
        provider = "mybank"
        unit = "adyen"
        dated_by = "settled"
        time_format = "%d.%m.%Y"
        kinds = { Zahlung = "charge" }
        statuses = { Gebucht = "succeeded", "zurück" = "refunded" }
        columns = { provider_id = "Vorgang", amount = "Betrag", kind = "Art", status = "Status" }
        "#,
    );
    let format = &settings.reconcile.generic[0];
    assert_eq!(format.minor_units, Some(MinorUnits::Adyen));
    assert_eq!(format.kinds.get("zahlung"), Some(&EntryKind::Charge));
    assert_eq!(format.statuses.get("gebucht"), Some(&GenericStatus::Is(Status::Succeeded)));
    assert_eq!(format.statuses.get("zurück"), Some(&GenericStatus::Refunded));
    assert_eq!(format.columns.currency, None);
}

#[test]
fn the_fingerprint_names_the_effective_configuration() {
    let base = Settings::default().fingerprint();
    assert_eq!(base.len(), 64);
    assert_eq!(settings("[reconcile]\ngrace = \"3d\"").fingerprint(), base, "the same value in other words");
    assert_ne!(settings("[reconcile]\ngrace = \"4d\"").fingerprint(), base);
    let url = |text: &str| settings(&format!("[database]\nurl = {text:?}")).fingerprint();
    assert_eq!(url("postgres://a/b"), url("postgres://c/d"), "a secret's text is no part of it");
}
