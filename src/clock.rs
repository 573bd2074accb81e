//! The time. The only file that reads it; everywhere else now is an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, Utc};

/// Where now comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// Stands still (`--as-of`).
    Fixed(DateTime<Utc>),
    /// Moved by hand, in tests: seconds since the epoch.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The instant that this run takes as now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn now(&self) -> DateTime<Utc> {
        match self {
            Self::System => Utc::now(),
            Self::Fixed(at) => *at,
            Self::Manual(seconds) => {
                DateTime::from_timestamp(seconds.load(Ordering::SeqCst), 0).expect("tests set sane instants")
            }
        }
    }
}
