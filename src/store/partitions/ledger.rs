//! `idem.partition_ledger`: what was begun stands there before it is done, so that no kill can lose a table.

use sqlx::Row;
use sqlx::postgres::PgConnection;
use sqlx::types::chrono::{DateTime, Utc};

use crate::domain::partition::{COMMENT, Leftover, Period, Stands, TableFacts, TableName};

use super::{Patience, Statement, Step, bounds, literal};
use crate::store::StoreError;

const LEDGER: &str = "a row of idem.partition_ledger";

/// How many removals that were begun one look at the ledger takes.
const LEFTOVERS_MAX: i64 = 1_000;

/// Writes that a removal begins.
pub fn intent(facts: &TableFacts, child: &TableName, oid: u32, period: Period) -> Step {
    let sql = format!(
        "INSERT INTO idem.partition_ledger (parent, child, child_oid, lower, upper, action, state) \
         SELECT {parent}, {child}, {oid}, '{}', '{}', 'remove', 'intent' \
         WHERE NOT EXISTS (SELECT FROM idem.partition_ledger \
         WHERE parent = {parent} AND child_oid = {oid} AND action = 'remove' AND finished_at IS NULL)",
        instant(period.from),
        instant(period.to),
        parent = literal(&facts.name.to_string()),
        child = literal(&child.to_string()),
    );
    Step {
        what: format!("note that {child} goes"),
        patience: Patience::Long,
        transaction: false,
        statements: vec![Statement::new(sql, LEDGER)],
    }
}

/// Writes that a child is detached.
pub fn detached(parent: &TableName, oid: u32) -> Statement {
    Statement::new(
        format!(
            "UPDATE idem.partition_ledger SET state = 'detached' WHERE parent = {} AND child_oid = {oid} \
             AND action = 'remove' AND finished_at IS NULL",
            literal(&parent.to_string())
        ),
        LEDGER,
    )
}

/// Writes how a removal ended: `dropped`, `reattached`, `abandoned` or `gone`.
pub fn close_row(parent: &TableName, oid: u32, state: &'static str) -> Statement {
    Statement::new(
        format!(
            "UPDATE idem.partition_ledger SET state = '{state}', finished_at = clock_timestamp() \
             WHERE parent = {} AND child_oid = {oid} AND action = 'remove' AND finished_at IS NULL",
            literal(&parent.to_string())
        ),
        LEDGER,
    )
}

/// Writes something that is done already.
pub(super) fn finished(facts: &TableFacts, child: &TableName, period: Period, action: &'static str) -> Statement {
    let sql = format!(
        "INSERT INTO idem.partition_ledger (parent, child, child_oid, lower, upper, action, state, finished_at) \
         VALUES ({}, {}, {}::regclass::oid, '{}', '{}', '{action}', 'done', clock_timestamp())",
        literal(&facts.name.to_string()),
        literal(&child.to_string()),
        literal(&child.quoted()),
        instant(period.from),
        instant(period.to),
    );
    Statement::new(sql, LEDGER)
}

fn instant(at: DateTime<Utc>) -> String {
    bounds::print_one(at, crate::domain::partition::ColumnKind::Instant)
}

/// Removals of this table that were begun and not finished.
///
/// A table of its own counts as the old child when number and name are the same and it carries our comment or the old
/// bounds as a CHECK, which a concurrent detach leaves behind.
pub(super) async fn leftovers(connection: &mut PgConnection, facts: &TableFacts) -> Result<Vec<Leftover>, StoreError> {
    let what = || format!("reading the ledger about {}", facts.name);
    let rows = sqlx::query(
        "/* store::partition_leftovers */
         SELECT l.id, l.child, l.child_oid, l.lower, l.upper,
                floor(extract(epoch FROM clock_timestamp() - l.created_at))::bigint AS age_seconds,
                c.oid IS NOT NULL AS there, i.inhparent IS NOT NULL AS attached,
                coalesce(i.inhdetachpending, false) AS pending,
                coalesce(obj_description(c.oid, 'pg_class') = $2, false) AS commented,
                ARRAY(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
                       WHERE k.conrelid = c.oid AND k.contype = 'c') AS checks
           FROM idem.partition_ledger l
           LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace)
             ON c.oid = l.child_oid AND n.nspname || '.' || c.relname = l.child AND c.relkind = 'r'
           LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
          WHERE l.parent = $1 AND l.action = 'remove' AND l.finished_at IS NULL
          ORDER BY l.id LIMIT $3",
    )
    .bind(facts.name.to_string())
    .bind(COMMENT)
    .bind(LEFTOVERS_MAX)
    .fetch_all(connection)
    .await
    .map_err(|error| StoreError::query(what(), &error))?;
    let mut leftovers = Vec::new();
    for row in rows {
        let child: String = row.get("child");
        let name = child.split_once('.').and_then(|(schema, name)| TableName::of(schema, name));
        let Some(name) = name else {
            return Err(StoreError::Corrupt { what: what(), reason: format!("child {child:?} is no name of ours") });
        };
        let period = Period { from: row.get("lower"), to: row.get("upper") };
        let checks: Vec<String> = row.get("checks");
        let quoted = |at| format!("'{}'", bounds::print_one(at, facts.kind));
        let (from, to) = (quoted(period.from), quoted(period.to));
        let bounded = checks.iter().any(|check| check.contains(&from) && check.contains(&to));
        let stands = match (row.get("there"), row.get("attached"), row.get("pending")) {
            (false, _, _) => Stands::Gone,
            (true, true, true) => Stands::Pending,
            (true, true, false) => Stands::Attached,
            (true, false, _) if bounded || row.get("commented") => Stands::Detached,
            (true, false, _) => Stands::Unproven,
        };
        let oid = row.get::<sqlx::postgres::types::Oid, _>("child_oid").0;
        leftovers.push(Leftover {
            id: row.get("id"),
            child: name,
            oid,
            period,
            stands,
            age_seconds: row.get("age_seconds"),
        });
    }
    Ok(leftovers)
}
