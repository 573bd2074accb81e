//! What the catalog says about one partitioned table.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::config::{PartitionTable, TableKind};
use crate::domain::partition::{
    COMMENT, Child, ColumnKind, ForeignKey, Grant, TableFacts, TableName, TableProblem, Traits,
};

use super::bounds;
use crate::store::StoreError;

/// The facts, or why this table cannot be maintained.
pub(super) async fn read(
    connection: &mut PgConnection,
    table: &PartitionTable,
) -> Result<Result<TableFacts, TableProblem>, StoreError> {
    let failed = |error: sqlx::Error| StoreError::query(format!("reading the catalog about {}", table.name), &error);
    let head = sqlx::query(HEAD)
        .bind(table.name.schema())
        .bind(table.name.name())
        .fetch_optional(&mut *connection)
        .await
        .map_err(failed)?;
    let Some(head) = head else { return Ok(Err(TableProblem::Missing(table.name.clone()))) };
    let kind = match judge(&head, table) {
        Ok(kind) => kind,
        Err(problem) => return Ok(Err(problem)),
    };
    let oid = oid(&head, "oid");
    let rows = sqlx::query(CHILDREN)
        .bind(sqlx::postgres::types::Oid(oid))
        .bind(COMMENT)
        .fetch_all(&mut *connection)
        .await
        .map_err(failed)?;
    let mut facts = TableFacts {
        name: table.name.clone(),
        oid,
        column: head.get("column_quoted"),
        kind,
        traits: traits(&head),
        children: Vec::new(),
        incoming: Vec::new(),
        outgoing: Vec::new(),
        plain_columns: head.get("plain_columns"),
        analyzed_at: head.get::<Option<DateTime<Utc>>, _>("analyzed_at"),
    };
    for row in &rows {
        let shown: String = row.get("bounds");
        let period = bounds::read(&shown, kind);
        if period.is_none() && shown != bounds::DEFAULT {
            return Ok(Err(TableProblem::Bounds { table: table.name.clone(), bounds: shown }));
        }
        let (schema, name): (String, String) = (row.get("schema"), row.get("name"));
        facts.children.push(Child {
            oid: self::oid(row, "oid"),
            shown: format!("{schema}.{name}"),
            name: TableName::of(&schema, &name),
            period,
            pending: row.get("pending"),
            ordinary: row.get::<String, _>("relkind") == "r",
            commented: row.get("commented"),
            rows: u64::try_from(row.get::<i64, _>("rows")).unwrap_or(0),
            traits: traits(row),
        });
    }
    facts.children.sort_by_key(|child| (child.period.is_none(), child.period));
    read_grants(connection, &mut facts).await.map_err(failed)?;
    read_foreign_keys(connection, &mut facts).await.map_err(failed)?;
    let first_key = facts.incoming.first().or(facts.outgoing.first());
    if let (TableKind::Keys, Some(key)) = (table.kind, first_key) {
        let name = key.name.clone();
        return Ok(Err(TableProblem::KeysWithForeignKey { table: table.name.clone(), name }));
    }
    Ok(Ok(facts))
}

/// What must hold before a statement is sent to a table.
fn judge(head: &PgRow, table: &PartitionTable) -> Result<ColumnKind, TableProblem> {
    let (strategy, columns): (Option<String>, Option<i16>) = (head.get("strategy"), head.get("columns"));
    let column: Option<String> = head.get("column");
    let (Some("r"), Some(1), Some(column)) = (strategy.as_deref(), columns, column) else {
        return Err(TableProblem::NotPartitioned(table.name.clone()));
    };
    if column != table.column {
        let (expected, name) = (table.column.clone(), table.name.clone());
        return Err(TableProblem::OtherColumn { table: name, found: column, expected });
    }
    let kind = match head.get::<String, _>("column_type").as_str() {
        "date" => ColumnKind::Date,
        "timestamp with time zone" => ColumnKind::Instant,
        found => {
            let found = found.to_owned();
            return Err(TableProblem::ColumnType { table: table.name.clone(), column, found });
        }
    };
    let user: String = head.get("login");
    if !head.get::<bool, _>("owned") {
        return Err(TableProblem::NotOwner { table: table.name.clone(), owner: head.get("owner"), user });
    }
    if !head.get::<bool, _>("may_create") {
        return Err(TableProblem::NoCreate { schema: table.name.schema().to_owned(), user });
    }
    Ok(kind)
}

fn oid(row: &PgRow, column: &str) -> u32 {
    row.get::<sqlx::postgres::types::Oid, _>(column).0
}

/// All but the grants, which come for parent and children together.
fn traits(row: &PgRow) -> Traits {
    let names: Vec<String> = row.get("statistics_columns");
    let targets: Vec<i32> = row.get("statistics_targets");
    Traits {
        owner: row.get("owner"),
        grants: Vec::new(),
        options: row.get("options"),
        replica_identity: row.get::<String, _>("replica_identity").chars().next().unwrap_or('d'),
        replica_index: row.get("replica_index"),
        row_security: (row.get("row_security"), row.get("row_security_forced")),
        statistics: names.into_iter().zip(targets).collect(),
        tablespace: row.get("tablespace"),
    }
}

async fn read_grants(connection: &mut PgConnection, facts: &mut TableFacts) -> Result<(), sqlx::Error> {
    let oids = facts.children.iter().map(|child| child.oid).chain([facts.oid]);
    let oids: Vec<_> = oids.map(sqlx::postgres::types::Oid).collect();
    let mut grants: BTreeMap<u32, Vec<Grant>> = BTreeMap::new();
    for row in sqlx::query(GRANTS).bind(oids).fetch_all(connection).await? {
        grants.entry(oid(&row, "oid")).or_default().push(Grant {
            privilege: row.get("privilege"),
            column: row.get("column"),
            grantee: row.get("grantee"),
            grantable: row.get("grantable"),
        });
    }
    let mut of = |oid: u32| {
        let mut own = grants.remove(&oid).unwrap_or_default();
        own.sort();
        own
    };
    facts.traits.grants = of(facts.oid);
    for child in &mut facts.children {
        child.traits.grants = of(child.oid);
    }
    Ok(())
}

async fn read_foreign_keys(connection: &mut PgConnection, facts: &mut TableFacts) -> Result<(), sqlx::Error> {
    let oids = facts.children.iter().map(|child| child.oid).chain([facts.oid]);
    let oids: Vec<_> = oids.map(sqlx::postgres::types::Oid).collect();
    for row in sqlx::query(FOREIGN_KEYS).bind(oids).fetch_all(connection).await? {
        let key = ForeignKey {
            name: row.get("name"),
            other: row.get("other"),
            other_quoted: row.get("other_quoted"),
            condition: row.get("condition"),
        };
        if row.get("incoming") { facts.incoming.push(key) } else { facts.outgoing.push(key) }
    }
    Ok(())
}

/// What parent and children are asked alike, over `c`.
macro_rules! traits_sql {
    () => {
        "pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(c.relowner)) AS owner,
         ARRAY(SELECT unnest(c.reloptions) ORDER BY 1) AS options,
         c.relreplident::text AS replica_identity,
         (SELECT format('%I.%I', kn.nspname, k.relname)
            FROM pg_index x JOIN pg_class k ON k.oid = x.indexrelid JOIN pg_namespace kn ON kn.oid = k.relnamespace
           WHERE x.indrelid = c.oid AND x.indisreplident) AS replica_index,
         c.relrowsecurity AS row_security, c.relforcerowsecurity AS row_security_forced,
         ARRAY(SELECT quote_ident(t.attname) FROM pg_attribute t
                WHERE t.attrelid = c.oid AND t.attnum > 0 AND NOT t.attisdropped AND coalesce(t.attstattarget, -1) >= 0
                ORDER BY t.attnum) AS statistics_columns,
         ARRAY(SELECT t.attstattarget::int FROM pg_attribute t
                WHERE t.attrelid = c.oid AND t.attnum > 0 AND NOT t.attisdropped AND coalesce(t.attstattarget, -1) >= 0
                ORDER BY t.attnum) AS statistics_targets,
         (SELECT quote_ident(s.spcname) FROM pg_tablespace s WHERE s.oid = c.reltablespace) AS tablespace"
    };
}

const HEAD: &str = concat!(
    "/* store::partition_table */ SELECT c.oid, current_user::text AS login,
            pg_has_role(c.relowner, 'USAGE') AS owned, has_schema_privilege(n.oid, 'CREATE') AS may_create,
            p.partstrat::text AS strategy, p.partnatts AS columns,
            a.attname::text AS column, quote_ident(a.attname) AS column_quoted,
            format_type(a.atttypid, NULL) AS column_type,
            greatest(s.last_analyze, s.last_autoanalyze) AS analyzed_at,
            coalesce((SELECT string_agg(quote_ident(g.attname), ', ' ORDER BY g.attnum) FROM pg_attribute g
                       WHERE g.attrelid = c.oid AND g.attnum > 0 AND NOT g.attisdropped AND g.attgenerated = ''),
                     '') AS plain_columns,
            ",
    traits_sql!(),
    " FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0] AND a.attnum > 0
      LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
     WHERE n.nspname = $1 AND c.relname = $2"
);

const CHILDREN: &str = concat!(
    "/* store::partition_children */ SELECT c.oid, n.nspname::text AS schema, c.relname::text AS name,
            c.relkind::text AS relkind, i.inhdetachpending AS pending,
            coalesce(pg_get_expr(c.relpartbound, c.oid), '') AS bounds,
            coalesce(obj_description(c.oid, 'pg_class') = $2, false) AS commented,
            greatest(c.reltuples, 0)::bigint AS rows,
            ",
    traits_sql!(),
    " FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE i.inhparent = $1"
);

const GRANTS: &str = "/* store::partition_grants */
    SELECT c.oid, NULL::text AS column, e.privilege_type AS privilege,
           CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(e.grantee)) END AS grantee,
           e.is_grantable AS grantable
      FROM pg_class c, aclexplode(c.relacl) e
     WHERE c.oid = ANY ($1) AND e.grantee <> c.relowner
     UNION ALL
    SELECT c.oid, quote_ident(a.attname), e.privilege_type,
           CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(e.grantee)) END, e.is_grantable
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped, aclexplode(a.attacl) e
     WHERE c.oid = ANY ($1) AND e.grantee <> c.relowner";

/// Keys as they were declared: not the copies that PostgreSQL keeps for each partition of either side.
const FOREIGN_KEYS: &str = "/* store::partition_foreign_keys */
    SELECT f.conname::text AS name, f.confrelid = ANY ($1) AS incoming, o.oid::regclass::text AS other,
           format('%I.%I', n.nspname, o.relname) AS other_quoted,
           coalesce((SELECT string_agg(format('r.%I = k.%I', mine.attname, theirs.attname), ' AND ')
                       FROM unnest(f.conkey, f.confkey) AS pair (mine, theirs)
                       JOIN pg_attribute mine ON mine.attrelid = f.conrelid AND mine.attnum = pair.mine
                       JOIN pg_attribute theirs ON theirs.attrelid = f.confrelid AND theirs.attnum = pair.theirs),
                    'false') AS condition
      FROM pg_constraint f
      JOIN pg_class o ON o.oid = CASE WHEN f.confrelid = ANY ($1) THEN f.conrelid ELSE f.confrelid END
      JOIN pg_namespace n ON n.oid = o.relnamespace
     WHERE f.contype = 'f' AND f.conparentid = 0 AND (f.confrelid = ANY ($1) OR f.conrelid = ANY ($1))
     ORDER BY 1";
