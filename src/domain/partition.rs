//! A table that is partitioned by day, as the catalog describes it, and the words for its days.
//!
//! Never here: how facts are read or changed (`store`), what is to be done about them (`policy`).

use std::fmt;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};

/// Longest name that PostgreSQL keeps, in bytes; what is longer it cuts off, and two days become one name.
pub const NAME_BYTES_MAX: usize = 63;

/// What a day adds to the name of its table: `_y2026m11d30`.
pub const SUFFIX_BYTES: usize = 12;

/// The comment on each child that this program made.
pub const COMMENT: &str = "idem-jobs partition";

/// A schema and a table in it. Neither can hold a quote, so that a quoted name stays one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    schema: String,
    name: String,
}

impl TableName {
    /// Reads `schema.table`; `public` where no schema is named. The table leaves room for a day behind its name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (schema, name) = text.split_once('.').unwrap_or(("public", text));
        if name.contains('.') {
            return Err("expected a table such as shop.events, with at most one point".to_owned());
        }
        let name_bytes_max = NAME_BYTES_MAX - SUFFIX_BYTES;
        if name.len() > name_bytes_max {
            return Err(format!(
                "the name has {} bytes; a table managed by day has at most {name_bytes_max}, since PostgreSQL cuts names \
                 at {NAME_BYTES_MAX} bytes and a day adds {SUFFIX_BYTES}",
                name.len()
            ));
        }
        Self::of(schema, name).ok_or_else(|| {
            format!(
                "expected a table such as shop.events: 1 to {NAME_BYTES_MAX} bytes, no quotes or control characters"
            )
        })
    }

    /// A name out of the catalog; `None` for one that we would not write into a statement.
    pub fn of(schema: &str, name: &str) -> Option<Self> {
        let sound = |text: &str| {
            !text.is_empty()
                && text.len() <= NAME_BYTES_MAX
                && !text.chars().any(|c| c.is_control() || c == '"' || c == '\'' || c == '\\')
        };
        (sound(schema) && sound(name)).then(|| Self { schema: schema.to_owned(), name: name.to_owned() })
    }

    /// The schema alone.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The table alone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it stands in a statement.
    pub fn quoted(&self) -> String {
        format!("\"{}\".\"{}\"", self.schema, self.name)
    }

    /// The child for a period that begins on this day. A day that is filled in several pieces has the time of the
    /// later ones behind it. `None` when the name would be cut off.
    pub fn child(&self, period: Period, first_of_day: bool) -> Option<Self> {
        let day = period.from.format("y%Ym%md%d");
        let name = if first_of_day {
            format!("{}_{day}", self.name)
        } else {
            format!("{}_{day}_{}", self.name, period.from.format("%H%M%S"))
        };
        Self::of(&self.schema, &name)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// A half-open stretch of time: from the first instant to the first one behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period {
    /// The first instant; `DateTime::MIN_UTC` for no bound.
    pub from: DateTime<Utc>,
    /// The first instant that is not part of it; `DateTime::MAX_UTC` for no bound.
    pub to: DateTime<Utc>,
}

impl Period {
    /// A day of UTC: always 24 hours, whatever the zones do.
    pub fn day(day: NaiveDate) -> Self {
        let from = day.and_time(NaiveTime::MIN).and_utc();
        Self { from, to: from + TimeDelta::days(1) }
    }

    /// The day of UTC that this is exactly.
    pub fn as_day(self) -> Option<NaiveDate> {
        let day = self.from.date_naive();
        (Self::day(day) == self).then_some(day)
    }

    /// Whether both share an instant.
    pub fn overlaps(self, other: Self) -> bool {
        self.from < other.to && other.from < self.to
    }

    /// Whether both bounds are midnights of UTC, or none.
    pub fn on_midnights(self) -> bool {
        let sound = |at: DateTime<Utc>| {
            at == DateTime::<Utc>::MIN_UTC || at == DateTime::<Utc>::MAX_UTC || at.time() == NaiveTime::MIN
        };
        sound(self.from) && sound(self.to)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(day) = self.as_day() {
            return write!(f, "{day}");
        }
        let word = |at: DateTime<Utc>| {
            if at == DateTime::<Utc>::MIN_UTC {
                "the beginning".to_owned()
            } else if at == DateTime::<Utc>::MAX_UTC {
                "the end of time".to_owned()
            } else if at.time() == NaiveTime::MIN {
                at.date_naive().to_string()
            } else {
                at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
            }
        };
        write!(f, "{} to {}", word(self.from), word(self.to))
    }
}

/// What the partition column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// `date`: a day of UTC.
    Date,
    /// `timestamptz`.
    Instant,
}

/// One privilege that somebody has on a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// `SELECT`, `INSERT`...
    pub privilege: String,
    /// Quoted column, for a privilege on one column.
    pub column: Option<String>,
    /// Quoted role, or `PUBLIC`.
    pub grantee: String,
    /// Whether it may be passed on.
    pub grantable: bool,
}

/// What a child does not inherit from its parent, and what therefore drifts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Quoted role.
    pub owner: String,
    /// Privileges of others, sorted.
    pub grants: Vec<Grant>,
    /// Storage options such as `fillfactor=90`, sorted. A partitioned table cannot have any.
    pub options: Vec<String>,
    /// `d`, `n`, `f` or `i`, as in `pg_class.relreplident`.
    pub replica_identity: char,
    /// Quoted index behind replica identity `i`.
    pub replica_index: Option<String>,
    /// Row level security is enabled, and forced.
    pub row_security: (bool, bool),
    /// Quoted columns with a statistics target of their own.
    pub statistics: Vec<(String, i32)>,
    /// Quoted tablespace, where it is not the database's.
    pub tablespace: Option<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Number of the table in the catalog.
    pub oid: u32,
    /// Its name; `None` for one that we would not write into a statement.
    pub name: Option<TableName>,
    /// Its name for people.
    pub shown: String,
    /// `None` for the default partition.
    pub period: Option<Period>,
    /// A concurrent detach was begun and not finished.
    pub pending: bool,
    /// An ordinary table: not partitioned further, not foreign.
    pub ordinary: bool,
    /// It carries our comment.
    pub commented: bool,
    /// The server's estimate of its rows.
    pub rows: u64,
    /// What it does not inherit.
    pub traits: Traits,
}

/// A foreign key from or to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its name.
    pub name: String,
    /// The other table, for people.
    pub other: String,
    /// The other table, quoted.
    pub other_quoted: String,
    /// For keys that point to us: the condition under which a row `r` of theirs points to a row `k` of ours.
    pub condition: String,
}

/// A partitioned table, as its catalog describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFacts {
    /// Its name.
    pub name: TableName,
    /// Number in the catalog.
    pub oid: u32,
    /// The partition column, quoted.
    pub column: String,
    /// What that column holds.
    pub kind: ColumnKind,
    /// What its children should look like.
    pub traits: Traits,
    /// Partitions, by bounds; those pending detach too, the default last.
    pub children: Vec<Child>,
    /// Foreign keys of others that point here.
    pub incoming: Vec<ForeignKey>,
    /// Foreign keys that point from here.
    pub outgoing: Vec<ForeignKey>,
    /// Columns that can be copied from row to row, quoted, with commas.
    pub plain_columns: String,
    /// When the statistics of the whole were last made by hand.
    pub analyzed_at: Option<DateTime<Utc>>,
}

impl TableFacts {
    /// The default partition.
    pub fn default_child(&self) -> Option<&Child> {
        self.children.iter().find(|child| child.period.is_none())
    }

    /// The child with a detach that was begun and not finished. PostgreSQL allows one a table.
    pub fn pending(&self) -> Option<&Child> {
        self.children.iter().find(|child| child.pending)
    }

    /// Stretches that are taken: a child that is pending detach still holds its own.
    pub fn taken(&self) -> Vec<Period> {
        self.children.iter().filter_map(|child| child.period).collect()
    }

    /// Stretches that take rows.
    pub fn open(&self) -> Vec<Period> {
        self.children.iter().filter(|child| !child.pending).filter_map(|child| child.period).collect()
    }
}

/// Why a configured table cannot be maintained. Nothing is sent to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TableProblem {
    #[error("table {0} does not exist")]
    Missing(TableName),
    #[error("{0} is not partitioned by range; expected PARTITION BY RANGE over one column")]
    NotPartitioned(TableName),
    #[error("{table} is partitioned by {found}, jobs.toml says column {expected}")]
    OtherColumn { table: TableName, found: String, expected: String },
    #[error("column {column} of {table} is of type {found}; expected date or timestamp with time zone")]
    ColumnType { table: TableName, column: String, found: String },
    #[error("{table} belongs to {owner}, and this login ({user}) is neither that role nor a member of it")]
    NotOwner { table: TableName, owner: String, user: String },
    #[error("this login ({user}) may not create tables in schema {schema}: GRANT CREATE ON SCHEMA is needed")]
    NoCreate { schema: String, user: String },
    #[error("{table} has a foreign key ({name}); a table of idempotency keys can have none, in or out")]
    KeysWithForeignKey { table: TableName, name: String },
    #[error("a partition of {table} has bounds that cannot be read: {bounds}")]
    Bounds { table: TableName, bounds: String },
}

/// A removal that was begun and not finished, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Number of the ledger's row.
    pub id: i64,
    /// The child as it was named.
    pub child: TableName,
    /// Its number in the catalog.
    pub oid: u32,
    /// Its bounds.
    pub period: Period,
    /// Where the table of that number and name stands today.
    pub stands: Stands,
    /// How old the row is, in seconds, by the database's clock.
    pub age_seconds: i64,
}

/// Where a child of the ledger stands today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// There is no table of that number and name.
    Gone,
    /// Still a partition.
    Attached,
    /// Still a partition, a detach was begun.
    Pending,
    /// A table of its own that is proven to be the old child.
    Detached,
    /// A table of its own that carries neither our comment nor the old bounds.
    Unproven,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_counted_in_bytes_and_hold_no_quotes() {
        let at_limit = format!("shop.{}", "a".repeat(51));
        let table = [
            ("shop.events", Ok(())),
            ("events", Ok(())),
            ("Shop.Events 2", Ok(())),
            (at_limit.as_str(), Ok(())),
            ("shop.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Err("has 52 bytes")),
            // 26 letters of two bytes each.
            ("shop.éééééééééééééééééééééééééé", Err("has 52 bytes")),
            ("a.b.c", Err("at most one point")),
            ("", Err("expected a table")),
            ("shop.", Err("expected a table")),
            ("shop.a\"b", Err("no quotes")),
            ("shop.a'b", Err("no quotes")),
            ("shop.a\0b", Err("no quotes")),
        ];
        for (text, expected) in table {
            match (TableName::parse(text), expected) {
                (Ok(_), Ok(())) => {}
                (Err(found), Err(part)) => assert!(found.contains(part), "{text}: {found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_child_is_named_after_its_day() {
        let table = TableName::parse("idem.idempotency_keys").unwrap();
        let day = Period::day("2026-11-30".parse().unwrap());
        assert_eq!(table.child(day, true).unwrap().to_string(), "idem.idempotency_keys_y2026m11d30");
        let late = Period { from: day.from + TimeDelta::hours(5), to: day.to };
        assert_eq!(table.child(late, false).unwrap().to_string(), "idem.idempotency_keys_y2026m11d30_050000");
    }

    proptest! {
        #[test]
        fn no_two_days_share_a_name(a in -700_000_i64..700_000, b in -700_000_i64..700_000) {
            let epoch = NaiveDate::from_ymd_opt(2026, 1, 1).unwrap();
            let table = TableName::parse("shop.events").unwrap();
            // Years of four digits: the table's own limit counts on them.
            let name = |n: i64| table.child(Period::day(epoch + TimeDelta::days(n % 2_900_000)), true).unwrap();
            prop_assert_eq!(name(a) == name(b), a == b);
        }
    }

    #[test]
    fn a_period_is_said_as_shortly_as_it_can_be() {
        let day = Period::day("2026-11-30".parse().unwrap());
        assert_eq!(day.to_string(), "2026-11-30");
        let week = Period { to: day.from + TimeDelta::days(7), ..day };
        assert_eq!(week.to_string(), "2026-11-30 to 2026-12-07");
        let open = Period { from: day.from + TimeDelta::hours(5), to: DateTime::<Utc>::MAX_UTC };
        assert_eq!(open.to_string(), "2026-11-30T05:00:00Z to the end of time");
    }
}
