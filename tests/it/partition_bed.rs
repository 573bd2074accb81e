//! A database with tables that are partitioned by day, and the words of the tests about them.

use std::process::Child;
use std::time::{Duration, Instant};

use chrono::{Days, NaiveDate};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::testbed::{Ran, TestBed};

/// A bed, and the database's day of UTC when it was made.
pub(crate) struct PartitionBed {
    pub(crate) bed: TestBed,
    pub(crate) today: NaiveDate,
}

/// Columns of the tests' table; `created_at` is what it is partitioned by.
pub(crate) const EVENTS: &str = "id bigint NOT NULL, created_at timestamptz NOT NULL, state text NOT NULL DEFAULT 'done', PRIMARY KEY (id, created_at)";

impl PartitionBed {
    /// With a schema `shop` and what jobs.toml says.
    pub(crate) async fn new(jobs_toml: &str) -> Self {
        let bed = TestBed::new().await;
        bed.file("jobs.toml", jobs_toml);
        bed.database().sql("CREATE SCHEMA shop").await.unwrap();
        let mut session = bed.database().session().await;
        let today = sqlx::query_scalar("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date");
        let today = today.fetch_one(&mut session).await.unwrap();
        session.close().await.unwrap();
        Self { bed, today }
    }

    /// With the table `shop.events` and nothing else of note.
    pub(crate) async fn events() -> Self {
        let bed = Self::new(&table("shop.events", "")).await;
        bed.table("events").await;
        bed
    }

    /// Makes a partitioned table of [`EVENTS`].
    pub(crate) async fn table(&self, name: &str) {
        self.sql(&format!("CREATE TABLE shop.{name} ({EVENTS}) PARTITION BY RANGE (created_at)")).await;
    }

    pub(crate) async fn sql(&self, statements: &str) {
        self.bed.database().sql(statements).await.unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.bed.database().number(query).await
    }

    pub(crate) async fn session(&self) -> PgConnection {
        self.bed.database().session().await
    }

    /// The day so many days from today.
    pub(crate) fn day(&self, offset: i64) -> NaiveDate {
        if offset < 0 {
            self.today - Days::new(offset.unsigned_abs())
        } else {
            self.today + Days::new(offset.unsigned_abs())
        }
    }

    /// The name that a day's child has.
    pub(crate) fn child(&self, table: &str, offset: i64) -> String {
        format!("{table}_{}", self.day(offset).format("y%Ym%md%d"))
    }

    /// Makes a day as the program does, with one row at noon.
    pub(crate) async fn make(&self, table: &str, offset: i64) {
        let (child, from, to) = (self.child(table, offset), self.day(offset), self.day(offset + 1));
        self.sql(&format!(
            "CREATE TABLE shop.{child} (LIKE shop.{table} INCLUDING ALL EXCLUDING IDENTITY);
             COMMENT ON TABLE shop.{child} IS 'idem-jobs partition';
             ALTER TABLE shop.{table} ATTACH PARTITION shop.{child} FOR VALUES FROM ('{from} 00:00:00+00') TO ('{to} 00:00:00+00');
             INSERT INTO shop.{table} (id, created_at) VALUES ({}, '{from} 12:00:00+00')",
            1_000 + offset
        ))
        .await;
    }

    /// Makes today and the days that are made ahead.
    pub(crate) async fn make_coming(&self, table: &str) {
        for offset in 0..=5 {
            self.make(table, offset).await;
        }
    }

    /// Names of the children that are attached and not pending, with a row of bounds each, sorted.
    pub(crate) async fn bounds(&self, table: &str) -> Vec<String> {
        self.texts(&format!(
            "SELECT c.relname || ' ' || pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i
               JOIN pg_class c ON c.oid = i.inhrelid
              WHERE i.inhparent = 'shop.{table}'::regclass AND NOT i.inhdetachpending ORDER BY 1"
        ))
        .await
    }

    /// What one column of a query holds. The session reads in UTC.
    pub(crate) async fn texts(&self, query: &str) -> Vec<String> {
        let mut session = self.session().await;
        session.execute("SET TIME ZONE 'UTC'; SET DateStyle = 'ISO, YMD'").await.unwrap();
        let texts = sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(&mut session).await.unwrap();
        session.close().await.unwrap();
        texts
    }

    /// Whether a table of that name exists at all.
    pub(crate) async fn exists(&self, name: &str) -> bool {
        self.number(&format!("SELECT count(*) FROM pg_class WHERE relname = '{name}'")).await > 0
    }

    pub(crate) async fn pending(&self) -> i64 {
        self.number("SELECT count(*) FROM pg_inherits WHERE inhdetachpending").await
    }

    /// Children that are attached and not pending.
    pub(crate) async fn attached(&self, table: &str) -> usize {
        self.bounds(table).await.len()
    }

    /// `partitions` with JSON on standard output.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut all = vec!["partitions", "--output", "json"];
        all.extend(arguments);
        self.bed.run(&all)
    }

    /// The same, in the background.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut all = vec!["partitions", "--output", "json"];
        all.extend(arguments);
        self.bed.start(&all)
    }

    /// Waits until a query gives true.
    pub(crate) async fn until(&self, query: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut session = self.session().await;
        loop {
            let there: bool = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut session).await.unwrap();
            if there {
                break;
            }
            assert!(Instant::now() < deadline, "never came true: {query}");
            tokio::task::yield_now().await;
        }
        session.close().await.unwrap();
    }

    /// Waits until a session of the program waits in a statement like this.
    pub(crate) async fn until_waiting(&self, statement: &str) {
        self.until(&format!(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
              AND application_name = 'idem-jobs' AND query LIKE '%{statement}%')"
        ))
        .await;
    }

    /// A transaction that has read a table and stays open.
    pub(crate) async fn reader(&self, table: &str) -> PgConnection {
        let mut session = self.session().await;
        session.execute(AssertSqlSafe(format!("BEGIN; SELECT count(*) FROM shop.{table}"))).await.unwrap();
        session
    }

    /// Leaves a concurrent detach of a child pending, as an operator's cancelled statement does.
    pub(crate) async fn leave_pending(&self, table: &str, offset: i64) {
        let reader = self.reader(table).await;
        let mut session = self.session().await;
        session.execute("SET statement_timeout = '300ms'").await.unwrap();
        let detach =
            format!("ALTER TABLE shop.{table} DETACH PARTITION shop.{} CONCURRENTLY", self.child(table, offset));
        session.execute(AssertSqlSafe(detach)).await.unwrap_err();
        session.close().await.unwrap();
        reader.close().await.unwrap();
        assert_eq!(self.pending().await, 1);
    }
}

/// An entry of jobs.toml.
pub(crate) fn table(name: &str, more: &str) -> String {
    format!("[[partitions.table]]\nname = \"{name}\"\ncolumn = \"created_at\"\n{more}\n")
}

/// One table of a run's JSON.
pub(crate) fn of(ran: &Ran, table: &str) -> Value {
    let json = ran.json();
    let tables = json["tables"].as_array().unwrap_or_else(|| panic!("no tables in {json}"));
    tables.iter().find(|found| found["table"] == table).unwrap_or_else(|| panic!("no {table} in {json}")).clone()
}

/// How many elements a list of a table's JSON has.
pub(crate) fn count(table: &Value, list: &str) -> usize {
    table[list].as_array().unwrap_or_else(|| panic!("no list {list} in {table}")).len()
}
