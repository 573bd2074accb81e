//! The statements that make and remove days. Every name comes through [`TableName`], every bound is printed by us.
//!
//! Never here: IF NOT EXISTS (it hides a wrong table of that name), PARTITION OF (it stops all writers), CASCADE (it
//! takes other tables' foreign keys along), a zone of the session, DELETE for a whole day.

use crate::domain::partition::{COMMENT, Child, Leftover, Period, TableFacts, TableName, Traits};

use super::ledger::{close_row, finished};
use super::{Patience, Statement, Step, bounds, literal};

const SUE_PARENT: &str = "SHARE UPDATE EXCLUSIVE on the parent: readers and writers go on";
const EXCLUSIVE_PARENT: &str = "ACCESS EXCLUSIVE on the parent: everybody waits";
const NEW: &str = "only on the new table";
const QUERY: &str = "none";

/// Makes a day: a table like the parent with everything that it would not inherit, then ATTACH. In one transaction, so
/// that a timeout leaves no orphan. `default_rows` of the default partition belong to the day and move into it.
pub fn make_day(facts: &TableFacts, child: &TableName, period: Period, default_rows: u64) -> Step {
    let (parent, new) = (facts.name.quoted(), child.quoted());
    let template = newest_traits(facts);
    let options =
        if template.options.is_empty() { String::new() } else { format!(" WITH ({})", template.options.join(", ")) };
    let space = facts.traits.tablespace.as_ref().map_or_else(String::new, |space| format!(" TABLESPACE {space}"));
    let mut statements = vec![
        Statement::new(
            format!("CREATE TABLE {new} (LIKE {parent} INCLUDING ALL EXCLUDING IDENTITY){options}{space}"),
            "ACCESS SHARE on the parent",
        ),
        Statement::new(format!("COMMENT ON TABLE {new} IS {}", literal(COMMENT)), NEW),
    ];
    statements.extend(inherited(&facts.traits, &new));
    let default = facts.default_child().and_then(|child| child.name.as_ref()).map(TableName::quoted);
    if let (Some(default), true) = (&default, default_rows > 0) {
        statements.extend(move_rows(facts, default, &new, period));
    }
    let lock = if default.is_some() {
        "SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on the default partition, which is scanned"
    } else if facts.outgoing.is_empty() {
        SUE_PARENT
    } else {
        "SHARE UPDATE EXCLUSIVE on the parent, SHARE ROW EXCLUSIVE on the tables that foreign keys point to"
    };
    let bounds = bounds::print(period, facts.kind);
    statements.push(Statement::new(format!("ALTER TABLE {parent} ATTACH PARTITION {new} {bounds}"), lock));
    if let Some(index) = facts.traits.replica_index.as_ref().filter(|_| facts.traits.replica_identity == 'i') {
        statements.push(Statement::new(replica_index(&new, index), NEW));
    }
    statements.push(Statement {
        sql: format!(
            "SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
             WHERE c.oid = {}::regclass AND i.inhparent = {}::regclass \
             AND pg_get_expr(c.relpartbound, c.oid) = {}",
            literal(&new),
            literal(&parent),
            literal(&bounds),
        ),
        lock: QUERY,
        expects: Some((1, "the new table is not attached with the bounds that were asked for")),
    });
    statements.push(finished(facts, child, period, "create"));
    let patience = if default.is_none() && facts.outgoing.is_empty() { Patience::Long } else { Patience::Ladder };
    Step { what: format!("make {child} for {period}"), patience, transaction: true, statements }
}

/// Storage options cannot be set on a partitioned table: the newest child shows what they should be.
fn newest_traits(facts: &TableFacts) -> Traits {
    let ordinary = facts.children.iter().filter(|child| child.ordinary && child.period.is_some());
    ordinary.max_by_key(|child| child.period).map(|child| child.traits.clone()).unwrap_or_default()
}

/// What neither LIKE nor ATTACH takes over from the parent.
fn inherited(traits: &Traits, new: &str) -> Vec<Statement> {
    let mut statements = vec![format!("ALTER TABLE {new} OWNER TO {}", traits.owner)];
    for grant in &traits.grants {
        let column = grant.column.as_ref().map_or_else(String::new, |column| format!(" ({column})"));
        let option = if grant.grantable { " WITH GRANT OPTION" } else { "" };
        statements.push(format!("GRANT {}{column} ON TABLE {new} TO {}{option}", grant.privilege, grant.grantee));
    }
    if traits.row_security.0 {
        statements.push(format!("ALTER TABLE {new} ENABLE ROW LEVEL SECURITY"));
    }
    if traits.row_security.1 {
        statements.push(format!("ALTER TABLE {new} FORCE ROW LEVEL SECURITY"));
    }
    for (column, target) in &traits.statistics {
        statements.push(format!("ALTER TABLE {new} ALTER COLUMN {column} SET STATISTICS {target}"));
    }
    match traits.replica_identity {
        'f' => statements.push(format!("ALTER TABLE {new} REPLICA IDENTITY FULL")),
        'n' => statements.push(format!("ALTER TABLE {new} REPLICA IDENTITY NOTHING")),
        // `d` is what a new table has; the index of `i` is found after ATTACH has tied it to the parent's.
        _ => {}
    }
    statements.into_iter().map(|sql| Statement::new(sql, NEW)).collect()
}

/// PostgreSQL names the child's index, so it is looked up by its tie to the parent's.
fn replica_index(new: &str, parent_index: &str) -> String {
    let (new_literal, index) = (literal(new), literal(parent_index));
    format!(
        "DO $idem$ BEGIN EXECUTE (SELECT format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', {new_literal}, c.relname) \
         FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid JOIN pg_class c ON c.oid = x.indexrelid \
         WHERE i.inhparent = {index}::regclass AND x.indrelid = {new_literal}::regclass); END $idem$"
    )
}

/// Rows of the default partition that belong to the day. They are locked first, so that none can come in between.
fn move_rows(facts: &TableFacts, default: &str, new: &str, period: Period) -> Vec<Statement> {
    let (columns, condition) = (&facts.plain_columns, within(facts, period));
    let lock = "ACCESS EXCLUSIVE on the default partition";
    vec![
        Statement::new(format!("LOCK TABLE ONLY {default} IN ACCESS EXCLUSIVE MODE"), lock),
        Statement::new(
            format!("INSERT INTO {new} ({columns}) SELECT {columns} FROM ONLY {default} WHERE {condition}"),
            lock,
        ),
        Statement::new(format!("DELETE FROM ONLY {default} WHERE {condition}"), lock),
    ]
}

/// The condition under which a row belongs to a period.
pub(super) fn within(facts: &TableFacts, period: Period) -> String {
    let (column, kind) = (&facts.column, facts.kind);
    let (from, to) = (bounds::print_one(period.from, kind), bounds::print_one(period.to, kind));
    format!("{column} >= '{from}' AND {column} < '{to}'")
}

/// Detaches without stopping anybody. Alone in its message, as PostgreSQL wants it.
pub fn detach_concurrently(parent: &TableName, child: &TableName) -> Step {
    alone(
        format!("detach {child}"),
        Patience::Budget,
        Statement::new(
            format!("ALTER TABLE {} DETACH PARTITION {} CONCURRENTLY", parent.quoted(), child.quoted()),
            "SHARE UPDATE EXCLUSIVE on the parent in two short transactions, nothing while it waits between them",
        ),
    )
}

/// Finishes a detach that was begun. Only ever the child that the catalog shows as pending.
pub fn finalize(parent: &TableName, child: &TableName) -> Step {
    alone(
        format!("finish the detach of {child}"),
        Patience::Finish,
        Statement::new(
            format!("ALTER TABLE {} DETACH PARTITION {} FINALIZE", parent.quoted(), child.quoted()),
            "SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on the child",
        ),
    )
}

fn alone(what: String, patience: Patience, statement: Statement) -> Step {
    Step { what, patience, transaction: false, statements: vec![statement] }
}

/// Drops a detached table, if it is still the one that the ledger means.
pub fn drop_detached(facts: &TableFacts, leftover: &Leftover) -> Step {
    let patience = if facts.outgoing.is_empty() { Patience::Long } else { Patience::Ladder };
    let lock = if facts.outgoing.is_empty() {
        "ACCESS EXCLUSIVE on the detached table alone"
    } else {
        "ACCESS EXCLUSIVE on the detached table and on the tables that its foreign keys point to"
    };
    Step {
        what: format!("drop {}", leftover.child),
        patience,
        transaction: true,
        statements: vec![
            same_table(&leftover.child, leftover.oid),
            Statement::new(format!("DROP TABLE {}", leftover.child.quoted()), lock),
            close_row(&facts.name, leftover.oid, "dropped"),
        ],
    }
}

/// Drops a child whose detach cannot be finished, because its columns have been changed meanwhile.
pub fn drop_pending(facts: &TableFacts, child: &TableName, oid: u32) -> Step {
    Step {
        what: format!("drop {child}, whose detach cannot be finished"),
        patience: Patience::Ladder,
        transaction: true,
        statements: vec![
            same_table(child, oid),
            Statement::new(format!("DROP TABLE {}", child.quoted()), EXCLUSIVE_PARENT),
            close_row(&facts.name, oid, "dropped"),
        ],
    }
}

/// A name may belong to another table by now.
fn same_table(child: &TableName, oid: u32) -> Statement {
    Statement {
        sql: format!(
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.oid = {oid} AND n.nspname = {} AND c.relname = {}",
            literal(child.schema()),
            literal(child.name())
        ),
        lock: QUERY,
        expects: Some((1, "the table of that name is another one by now")),
    }
}

/// Removes an attached child in one transaction: with `detach` a DETACH first, with `drop` the DROP. `unfinished` is
/// the query that must count no row once nobody can write any more.
pub fn remove_by_ladder(
    facts: &TableFacts,
    child: &Child,
    name: &TableName,
    unfinished: Option<String>,
    road: LadderRoad,
) -> Step {
    let parent = facts.name.quoted();
    let mut statements =
        vec![Statement::new(format!("LOCK TABLE ONLY {parent} IN ACCESS EXCLUSIVE MODE"), EXCLUSIVE_PARENT)];
    statements.push(same_table(name, child.oid));
    if let Some(sql) = unfinished {
        statements.push(Statement {
            sql,
            lock: QUERY,
            expects: Some((0, "unfinished or unexpired rows came in between")),
        });
    }
    if road.detach {
        let sql = format!("ALTER TABLE {parent} DETACH PARTITION {}", name.quoted());
        let lock = "ACCESS EXCLUSIVE on parent and child, SHARE ROW EXCLUSIVE on tables with foreign keys between";
        statements.push(Statement::new(sql, lock));
    }
    if road.drop {
        let lock = "ACCESS EXCLUSIVE on parent and child, none on the tables that foreign keys point to";
        statements.push(Statement::new(format!("DROP TABLE {}", name.quoted()), lock));
        statements.push(close_row(&facts.name, child.oid, "dropped"));
    } else {
        statements.push(super::ledger::detached(&facts.name, child.oid));
    }
    Step { what: format!("remove {name}"), patience: Patience::Ladder, transaction: true, statements }
}

/// Which of the two parts of a removal the ladder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LadderRoad {
    /// DETACH first.
    pub detach: bool,
    /// DROP.
    pub drop: bool,
}

/// Puts a detached day back. The CHECK that the concurrent detach has left spares the scan.
pub fn attach_again(facts: &TableFacts, child: &TableName, oid: u32, period: Period) -> Step {
    let bounds = bounds::print(period, facts.kind);
    let patience =
        if facts.default_child().is_none() && facts.outgoing.is_empty() { Patience::Long } else { Patience::Ladder };
    Step {
        what: format!("put {child} back"),
        patience,
        transaction: true,
        statements: vec![
            same_table(child, oid),
            Statement::new(
                format!("ALTER TABLE {} ATTACH PARTITION {} {bounds}", facts.name.quoted(), child.quoted()),
                SUE_PARENT,
            ),
            close_row(&facts.name, oid, "reattached"),
        ],
    }
}

/// Makes the statistics of the whole, which autovacuum never does for a parent. From PostgreSQL 18 without its children.
pub fn analyze(table: &TableName, server_version: i32) -> Step {
    let sql = if server_version >= 180_000 {
        format!("ANALYZE (SKIP_LOCKED) ONLY {}", table.quoted())
    } else {
        format!("ANALYZE (SKIP_LOCKED) {}", table.quoted())
    };
    alone(format!("analyze {table}"), Patience::Long, Statement::new(sql, SUE_PARENT))
}
