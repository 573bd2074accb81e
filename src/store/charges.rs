//! The local side: charges out of the configured table or query, as a stream and by key, in one snapshot.
//!
//! Never here: writing. The transaction is READ ONLY, so an operator's query cannot change anything either.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Column, Executor, Row, SqlSafeStr, Statement, TypeInfo, ValueRef};

use crate::config::LocalSource;
use crate::config::settings::{LocalFrom, LocalTable};
use crate::domain::charge::{Charge, MatchKey};

use super::charge_row::{COLUMNS, Fields, Meaning};
use super::copy_binary::{CopyBuffer, Next};
use super::local_sql::{Identifier, Literal, fill};
use super::{Store, StoreError, session};

/// Keys of one lookup statement.
const LOOKUP_KEYS_MAX: usize = 1_000;

/// A reader may wait this long between two statements while the report is read.
const IDLE_MAX: &str = "2h";

/// How the local charges of one provider and account are read; checked, not yet run.
#[derive(Clone, Debug)]
pub struct LocalQuery {
    from: From,
    meaning: Meaning,
}

#[derive(Clone, Debug)]
enum From {
    Table {
        /// Schema and table, quoted.
        name: String,
        /// The configured column for each of [`COLUMNS`].
        columns: [Option<Identifier>; COLUMNS.len()],
        /// Conditions on provider and account, each with a leading AND.
        filter: String,
    },
    Query {
        text: String,
        provider: Literal,
        account: Literal,
    },
}

impl LocalQuery {
    /// Binds a source to the provider and account whose charges are wanted. An empty account means every account
    /// of the provider.
    pub fn new(source: &LocalSource, provider: &str, account: &str) -> Result<Self, StoreError> {
        let from = match &source.from {
            LocalFrom::Table(table) => table_from(table, source.provider.as_deref(), provider, account),
            LocalFrom::Query(text) => query_from(text, provider, account),
        };
        let from = from.map_err(|reason| StoreError::LocalSource { reason })?;
        let meaning = Meaning { minor_units: source.minor_units, statuses: source.statuses.clone() };
        Ok(Self { from, meaning })
    }

    /// The rows of a window (or of all time), every column under its configured name.
    fn rows(&self, from: &Literal, to: &Literal) -> Result<String, String> {
        match &self.from {
            From::Table { name, columns, filter } => {
                let created_at = columns[COLUMNS.len() - 1].as_ref().expect("created_at is not optional");
                let window = match (from, to) {
                    (Literal::Ever, Literal::Never) => String::new(),
                    _ => format!(" AND {created_at} >= {from} AND {created_at} < {to}"),
                };
                Ok(format!("SELECT * FROM {name} WHERE true{filter}{window}"))
            }
            From::Query { text, provider, account } => fill(
                text,
                &[
                    ("from", from.clone()),
                    ("to", to.clone()),
                    ("provider", provider.clone()),
                    ("account", account.clone()),
                ],
            ),
        }
    }
}

fn table_from(table: &LocalTable, bound_to: Option<&str>, provider: &str, account: &str) -> Result<From, String> {
    let name = |text: &String| Identifier::new(text);
    let maybe = |text: &Option<String>| text.as_ref().map(name).transpose();
    let mut conditions = Vec::new();
    match &table.provider_column {
        Some(column) => conditions.push(format!(" AND {} = {}", name(column)?, Literal::text(provider)?)),
        None if bound_to.is_some() => {}
        None => {
            return Err(format!(
                "the table {}.{} has no provider_column and its source names no provider, so charges of other \
                 providers cannot be told apart: set one of the two",
                table.schema, table.table
            ));
        }
    }
    if let (Some(column), false) = (&table.account_column, account.is_empty()) {
        conditions.push(format!(" AND {} = {}", name(column)?, Literal::text(account)?));
    }
    Ok(From::Table {
        name: format!("{}.{}", name(&table.schema)?, name(&table.table)?),
        columns: [
            Some(name(&table.charge_id)?),
            maybe(&table.idempotency_key)?,
            maybe(&table.merchant_reference)?,
            maybe(&table.provider_id)?,
            Some(name(&table.amount_minor)?),
            maybe(&table.refunded_minor)?,
            Some(name(&table.currency)?),
            Some(name(&table.status)?),
            Some(name(&table.created_at)?),
        ],
        filter: conditions.concat(),
    })
}

fn query_from(text: &str, provider: &str, account: &str) -> Result<From, String> {
    let text = text.trim().trim_end_matches(';').to_owned();
    Ok(From::Query { text, provider: Literal::text(provider)?, account: Literal::text(account)? })
}

impl Store {
    /// Opens a session of its own in one READ ONLY, REPEATABLE READ transaction: everything that the reader
    /// returns is of one snapshot. `statement_timeout` is the budget of each of its statements.
    ///
    /// The source's columns are checked here: [`StoreError::LocalSource`] says which is missing or of a type that would
    /// have to be guessed at (amounts must be integers, instants must have a zone).
    pub async fn local_reader(
        &self,
        query: LocalQuery,
        statement_timeout: Duration,
    ) -> Result<LocalReader, StoreError> {
        let mut connection = session::open(&self.options).await?;
        begin(&mut connection, statement_timeout).await?;
        let columns = columns(&mut connection, &query).await?;
        Ok(LocalReader { query, columns, connection, streaming: false })
    }
}

async fn begin(connection: &mut PgConnection, statement_timeout: Duration) -> Result<(), StoreError> {
    let what = "opening the snapshot of the local charges";
    sqlx::raw_sql("/* store::local_begin */ BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .execute(&mut *connection)
        .await
        .map_err(|error| StoreError::query(what, &error))?;
    sqlx::query(
        "/* store::local_limits */
         SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)",
    )
    .bind(statement_timeout.as_millis().min(i32::MAX as u128).to_string())
    .bind(IDLE_MAX)
    .execute(connection)
    .await
    .map_err(|error| StoreError::query(what, &error))?;
    Ok(())
}

/// How each of [`COLUMNS`] is read from the source.
#[derive(Clone, Debug)]
struct SourceColumns {
    /// The SELECT list: each column cast to the type whose binary layout we know.
    list: String,
    /// The column's name in the source, and whether it can be compared with text as it is.
    names: [Option<(Identifier, bool)>; COLUMNS.len()],
}

/// Asks the server for the source's columns. Preparing the operator's query alone also proves that it is one SELECT
/// with its parentheses in order, so that it cannot reach out of the COPY that is put around it.
async fn columns(connection: &mut PgConnection, query: &LocalQuery) -> Result<SourceColumns, StoreError> {
    let refuse = |reason: String| StoreError::LocalSource { reason };
    let rows = query.rows(&Literal::Ever, &Literal::Never).map_err(refuse)?;
    let text = format!("/* store::local_columns */ SELECT * FROM (\n{rows}\n) AS local_side LIMIT 0");
    let prepared =
        connection.prepare(AssertSqlSafe(text).into_sql_str()).await.map_err(|error| source_error(&error))?;
    let mut list = Vec::with_capacity(COLUMNS.len());
    let mut names: [Option<(Identifier, bool)>; COLUMNS.len()] = Default::default();
    for (at, column) in COLUMNS.into_iter().enumerate() {
        let name = match &query.from {
            From::Table { columns, .. } => columns[at].clone(),
            From::Query { .. } => Some(Identifier::new(column).expect("our own names are short")),
        };
        let found = name.and_then(|name| {
            let found = prepared.columns().iter().find(|c| name.is(c.name()))?;
            Some((name, found.type_info().name().to_owned()))
        });
        if let (From::Table { name: table, columns, .. }, None) = (&query.from, &found)
            && let Some(named) = columns[at].as_ref().filter(|named| !named.is(column))
        {
            // A name that the operator has written must exist: a misspelt one would make every row of theirs a break.
            return Err(refuse(format!(
                "the table {table} has no column {named}, which [reconcile.local.columns] names as {column}"
            )));
        }
        let wanted = cast(column, found.as_ref().map(|(_, kind)| kind.as_str())).map_err(refuse)?;
        match found {
            Some((name, kind)) => {
                list.push(format!("{name}::pg_catalog.{wanted}"));
                names[at] = Some((name, matches!(kind.as_str(), "TEXT" | "VARCHAR" | "CHAR")));
            }
            None => list.push(format!("NULL::pg_catalog.{wanted}")),
        }
    }
    let list = list.join(", ");
    // And once as it will be read, so that a name that stands there twice is found now.
    let text = format!("/* store::local_list */ SELECT {list} FROM (\n{rows}\n) AS local_side LIMIT 0");
    connection.prepare(AssertSqlSafe(text).into_sql_str()).await.map_err(|error| source_error(&error))?;
    Ok(SourceColumns { list, names })
}

/// A failure while rows are read. The transaction is READ ONLY on our side, so a refused write is the source's.
fn read_error(what: &str, error: &sqlx::Error) -> StoreError {
    match StoreError::query(what, error) {
        StoreError::ReadOnly => StoreError::LocalSource {
            reason: "the query writes, perhaps in a function that it calls; it may only read".to_owned(),
        },
        other => other,
    }
}

/// A statement over the source that the server did not take: the configuration's fault, not ours.
fn source_error(error: &sqlx::Error) -> StoreError {
    match StoreError::query("looking at the columns", error) {
        StoreError::Query(refusal) => {
            // undefined_table, undefined_function
            let unqualified = matches!(refusal.sqlstate.as_str(), "42P01" | "42883");
            let advice = if unqualified { "; names in the query need their schema in front" } else { "" };
            StoreError::LocalSource { reason: format!("{refusal}{advice}") }
        }
        other => other,
    }
}

/// The type that a column is read as; refuses what would have to be guessed at. `found` is the driver's name of the
/// type in the source.
fn cast(column: &str, found: Option<&str>) -> Result<&'static str, String> {
    let required = !matches!(column, "idempotency_key" | "merchant_reference" | "provider_id" | "refunded_minor");
    let found = match found {
        Some(found) => found,
        None if required => {
            return Err(format!(
                "the source has no column {column}, which is needed: name yours under [reconcile.local.columns], or \
                 give it this name in the query"
            ));
        }
        None => "",
    };
    match (column, found) {
        ("amount_minor" | "refunded_minor", "INT2" | "INT4" | "INT8" | "") => Ok("int8"),
        ("amount_minor" | "refunded_minor", _) => Err(format!(
            "column {column} is of type {found}; expected an integer (smallint, integer, bigint) of minor units: \
             convert it in a query, where you can say how"
        )),
        ("created_at", "TIMESTAMPTZ") => Ok("timestamptz"),
        ("created_at", _) => Err(format!(
            "column created_at is of type {found}; expected timestamptz: convert it in a query \
             (created_at AT TIME ZONE '...'), where you can say which zone it means"
        )),
        _ => Ok("text"),
    }
}

/// Reads local charges; see [`Store::local_reader`].
#[derive(Debug)]
pub struct LocalReader {
    query: LocalQuery,
    columns: SourceColumns,
    connection: PgConnection,
    /// A stream was begun and not read to its end: the session cannot be used for anything else.
    streaming: bool,
}

impl LocalReader {
    /// Starts to stream the charges made in `range`; `read` on the result pulls them at the caller's pace.
    pub async fn copy_out(&mut self, range: Range<DateTime<Utc>>) -> Result<CopyOut<'_>, StoreError> {
        let what = "streaming the local charges";
        self.check_idle(what)?;
        let rows = self
            .query
            .rows(&Literal::Instant(range.start), &Literal::Instant(range.end))
            .map_err(|reason| StoreError::LocalSource { reason })?;
        let statement = format!(
            "/* store::copy_out */ COPY (SELECT {} FROM (\n{rows}\n) AS local_side) TO STDOUT (FORMAT binary)",
            self.columns.list
        );
        self.streaming = true;
        let stream = self.connection.copy_out_raw(&statement).await.map_err(|error| read_error(what, &error))?;
        Ok(CopyOut {
            meaning: &self.query.meaning,
            streaming: &mut self.streaming,
            stream,
            buffer: CopyBuffer::default(),
        })
    }

    /// Streams the charges made in `range` to `on` until it breaks. Returns the number of rows given to it.
    /// After a break the reader cannot be used again.
    pub async fn copy_all(
        &mut self,
        range: Range<DateTime<Utc>>,
        on: impl FnMut(Charge<'_>) -> ControlFlow<()> + Send,
    ) -> Result<u64, StoreError> {
        let mut stream = self.copy_out(range).await?;
        Ok(stream.pull(usize::MAX, on).await? as u64)
    }

    /// Fetches every charge, whenever made, whose column `by` is one of `keys`, in batches of 1,000 keys.
    /// Nothing when the source has no such column. A charge comes at most once a call. Returns the number of rows.
    pub async fn lookup(
        &mut self,
        by: MatchKey,
        keys: &[String],
        mut on: impl FnMut(Charge<'_>) + Send,
    ) -> Result<u64, StoreError> {
        let what = "looking local charges up";
        self.check_idle(what)?;
        let Some((name, is_text)) = &self.columns.names[place(by)] else { return Ok(0) };
        let rows =
            self.query.rows(&Literal::Ever, &Literal::Never).map_err(|reason| StoreError::LocalSource { reason })?;
        // Compared as it is where that can use an index on the column; otherwise through its text.
        let column = if *is_text { name.to_string() } else { format!("{name}::pg_catalog.text") };
        let statement = format!(
            "/* store::lookup */ SELECT {} FROM (\n{rows}\n) AS local_side WHERE {column} = ANY ($1)",
            self.columns.list
        );
        // A key that was asked for twice must not give its charge twice; text with NUL is nowhere in PostgreSQL.
        let keys: BTreeSet<&str> = keys.iter().map(String::as_str).filter(|key| !key.contains('\0')).collect();
        let keys: Vec<&str> = keys.into_iter().collect();
        let mut found = 0;
        for batch in keys.chunks(LOOKUP_KEYS_MAX) {
            let mut rows = sqlx::query(AssertSqlSafe(statement.as_str())).bind(batch).fetch(&mut self.connection);
            while let Some(row) = rows.try_next().await.map_err(|error| read_error(what, &error))? {
                on(self.query.meaning.charge(fields(&row)?)?);
                found += 1;
            }
        }
        Ok(found)
    }

    /// Whether the source has the column at all.
    pub fn has(&self, by: MatchKey) -> bool {
        self.columns.names[place(by)].is_some()
    }

    /// Ends the transaction and the session.
    pub async fn close(self) -> Result<(), StoreError> {
        // Nothing was written, so there is nothing to commit: the server rolls back as the session ends.
        session::close(self.connection).await;
        Ok(())
    }

    fn check_idle(&self, what: &str) -> Result<(), StoreError> {
        if self.streaming {
            let reason = "an earlier stream of this reader was left before its end".to_owned();
            return Err(StoreError::Lost { what: what.to_owned(), reason });
        }
        Ok(())
    }
}

/// Where the key's column stands in [`COLUMNS`].
fn place(by: MatchKey) -> usize {
    match by {
        MatchKey::IdempotencyKey => 1,
        MatchKey::MerchantReference => 2,
        MatchKey::ProviderId => 3,
    }
}

fn fields(row: &PgRow) -> Result<Fields<'_>, StoreError> {
    let mut fields = Fields::default();
    for (at, field) in fields.iter_mut().enumerate() {
        let value = row.try_get_raw(at).map_err(|error| StoreError::query("reading a local charge", &error))?;
        if !value.is_null() {
            let bytes = value.as_bytes().map_err(|error| StoreError::Corrupt {
                what: "reading a local charge".to_owned(),
                reason: error.to_string(),
            })?;
            *field = Some(bytes);
        }
    }
    Ok(fields)
}

/// Charges on their way out of the database. Dropped before its end, it leaves its reader useless.
pub struct CopyOut<'r> {
    meaning: &'r Meaning,
    streaming: &'r mut bool,
    stream: BoxStream<'r, sqlx::Result<Bytes>>,
    buffer: CopyBuffer,
}

impl CopyOut<'_> {
    /// Pulls at most `rows_max` charges and gives each to `on`. Returns how many; 0 means the end.
    pub async fn read(&mut self, rows_max: usize, mut on: impl FnMut(Charge<'_>) + Send) -> Result<usize, StoreError> {
        let on = |charge: Charge<'_>| {
            on(charge);
            ControlFlow::Continue(())
        };
        self.pull(rows_max, on).await
    }

    async fn pull(
        &mut self,
        rows_max: usize,
        mut on: impl FnMut(Charge<'_>) -> ControlFlow<()> + Send,
    ) -> Result<usize, StoreError> {
        let what = "streaming the local charges";
        let corrupt = |reason| StoreError::Corrupt { what: what.to_owned(), reason };
        let mut rows = 0;
        while rows < rows_max {
            match self.buffer.next().map_err(corrupt)? {
                Next::Row(fields) => {
                    rows += 1;
                    if on(self.meaning.charge(fields)?).is_break() {
                        break;
                    }
                }
                Next::End | Next::More => match self.stream.next().await {
                    Some(chunk) => {
                        let chunk = chunk.map_err(|error| read_error(what, &error))?;
                        self.buffer.feed(chunk).map_err(corrupt)?;
                    }
                    None if self.buffer.ended() => {
                        *self.streaming = false;
                        break;
                    }
                    None => return Err(corrupt("the stream ended before its end mark".to_owned())),
                },
            }
        }
        Ok(rows)
    }
}
