//! Log lines on standard error: text on a terminal, JSON elsewhere or when asked for.
//!
//! Nothing is logged here; and secrets cannot be, since their `Debug` redacts them. Standard output belongs to data.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::Environment;

/// What the operator asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogWishes {
    /// JSON or text; `None`: text on a terminal, JSON elsewhere.
    pub json: Option<bool>,
    /// With colour or without; `None`: on a terminal that has not asked for none.
    pub color: Option<bool>,
    /// 0 as usual; 1 and 2 say more, -1 and -2 less.
    pub verbosity: i16,
}

/// How log lines look and which are written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogSettings {
    json: bool,
    color: bool,
    /// Directives as tracing reads them.
    filter: String,
}

impl LogSettings {
    /// Decides; `terminal` says whether the lines go to one.
    fn new(wishes: LogWishes, environment: &Environment, terminal: bool) -> Self {
        // Other crates speak up only when something is wrong, until everything is wanted.
        let ours = match wishes.verbosity {
            ..=-2 => "error",
            -1 => "warn",
            0 => "warn,idem_jobs=info",
            1 => "warn,idem_jobs=debug",
            2.. => "info,idem_jobs=trace",
        };
        Self {
            json: wishes.json.unwrap_or(!terminal),
            color: wishes.color.unwrap_or(terminal && !environment.no_color()),
            filter: environment.log_filter().unwrap_or(ours).to_owned(),
        }
    }
}

/// Why no log lines can be written.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `IDEM_LOG` holds no directives.
    #[error("the environment variable IDEM_LOG is wrong: {0}; expected directives such as idem_jobs=debug")]
    Filter(#[from] ParseError),
    /// Somebody else in this process has begun to log.
    #[error("log lines already go elsewhere: {0}")]
    Taken(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// Sends log lines of the whole process to standard error. Call it once.
pub fn init(wishes: LogWishes, environment: &Environment) -> Result<(), TelemetryError> {
    let settings = LogSettings::new(wishes, environment, std::io::stderr().is_terminal());
    tracing::subscriber::set_global_default(subscriber(&settings, std::io::stderr)?)?;
    Ok(())
}

/// A subscriber that writes to `writer`.
fn subscriber<W>(settings: &LogSettings, writer: W) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, ParseError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(&settings.filter)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(settings.color);
    Ok(if settings.json {
        Box::new(lines.json().flatten_event(true).with_current_span(true).with_span_list(false).finish())
    } else {
        Box::new(lines.with_target(false).finish())
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::config::Secret;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::from_pairs(pairs.iter().copied())
    }

    #[test]
    fn text_and_colour_are_for_terminals() {
        let looks = |json, color, pairs: &[(&str, &str)], terminal| {
            let wishes = LogWishes { json, color, verbosity: 0 };
            let settings = LogSettings::new(wishes, &environment(pairs), terminal);
            (settings.json, settings.color)
        };
        assert_eq!(looks(None, None, &[], true), (false, true));
        assert_eq!(looks(None, None, &[], false), (true, false));
        assert_eq!(looks(None, None, &[("NO_COLOR", "1")], true), (false, false));
        assert_eq!(looks(None, None, &[("TERM", "dumb")], true), (false, false));
        assert_eq!(looks(None, Some(true), &[("NO_COLOR", "1")], false), (true, true), "a flag wins");
        assert_eq!(looks(Some(true), Some(false), &[], true), (true, false));
        assert_eq!(looks(Some(false), None, &[], false), (false, false));
    }

    #[test]
    fn levels_by_flag_and_by_variable() {
        let filter = |verbosity, pairs: &[(&str, &str)]| {
            LogSettings::new(LogWishes { verbosity, ..LogWishes::default() }, &environment(pairs), true).filter
        };
        let table = [
            (-9, "error"),
            (-2, "error"),
            (-1, "warn"),
            (0, "warn,idem_jobs=info"),
            (1, "warn,idem_jobs=debug"),
            (2, "info,idem_jobs=trace"),
            (9, "info,idem_jobs=trace"),
        ];
        for (verbosity, expected) in table {
            assert_eq!(filter(verbosity, &[]), expected, "{verbosity}");
        }
        assert_eq!(filter(-1, &[("IDEM_LOG", "sqlx=debug")]), "sqlx=debug");
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_json_line_stands_alone_and_hides_secrets() {
        let lines = Lines::default();
        let settings = LogSettings::new(LogWishes::default(), &environment(&[]), false);
        let writer = lines.clone();
        let subscriber = subscriber(&settings, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "idem_jobs::job", url = ?Secret::new("hunter2"), rows = 3, "report read");
            tracing::debug!(target: "idem_jobs::job", "not at this level");
            tracing::info!(target: "sqlx", "not ours");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["message"], &line["rows"], &line["url"]),
            (&"report read".into(), &3.into(), &"[redacted]".into())
        );
    }

    #[test]
    fn a_wrong_filter_is_an_error_and_not_silence() {
        let pairs = [("IDEM_LOG", "idem_jobs=loud")];
        let settings = LogSettings::new(LogWishes::default(), &environment(&pairs), true);
        assert!(subscriber(&settings, std::io::sink).is_err());
    }
}
