//! A database per test, on a private server of this test run (or on the one that `IDEM_TEST_DATABASE_URL` names).

use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use idem_jobs::config::Secret;
use idem_jobs::local_postgres::{Environment, LocalPostgres};
use idem_jobs::store::Store;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// A fresh database, dropped at the end of the test.
pub(crate) struct TestDatabase {
    pub(crate) name: String,
    pub(crate) url: Secret,
    pub(crate) store: Store,
}

impl TestDatabase {
    /// With the schema in it.
    pub(crate) async fn new() -> Self {
        let database = Self::empty().await;
        database.store.migrate(false).await.unwrap();
        database
    }

    /// Without the schema.
    pub(crate) async fn empty() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("idem_test_{}_{number}", std::process::id());
        run_as_admin(format!("CREATE DATABASE {name}")).await;
        let url = Secret::new(with_database(&admin_url(), &name));
        let store = Store::connect(&url).await.unwrap();
        Self { name, url, store }
    }

    /// A session of the test's own.
    pub(crate) async fn session(&self) -> PgConnection {
        PgConnection::connect(self.url.expose()).await.unwrap()
    }

    /// Runs statements in a session of the test's own.
    pub(crate) async fn sql(&self, statements: &str) -> Result<(), sqlx::Error> {
        let mut session = self.session().await;
        let done = sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut session).await;
        session.close().await.unwrap();
        done.map(|_| ())
    }

    /// The one number that a query gives.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let mut session = self.session().await;
        let number = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut session).await.unwrap();
        session.close().await.unwrap();
        number
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // The test's runtime may be at its end, so a thread with one of its own.
        let thread = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run_as_admin(statement));
        });
        // A failed clean-up must not hide what the test says.
        let _ = thread.join();
    }
}

/// Address of the server's maintenance database. The server is started by the first test that asks and ends with
/// the process: it watches for that itself.
pub(crate) fn admin_url() -> String {
    static SERVER: OnceLock<LocalPostgres> = OnceLock::new();
    if let Some(url) = variable("IDEM_TEST_DATABASE_URL") {
        return url.into_string().expect("IDEM_TEST_DATABASE_URL is text");
    }
    let start = || {
        let environment = Environment {
            postgres_bin: variable("IDEM_POSTGRES_BIN").map(Into::into),
            search_path: variable("PATH"),
            temp_dir: std::env::temp_dir(),
        };
        LocalPostgres::start_temporary(&environment).expect("the tests need a private PostgreSQL")
    };
    SERVER.get_or_init(start).url("postgres")
}

#[expect(clippy::disallowed_methods, reason = "the tests' own switches, not the program's")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The same server and user, another database.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let (before, query) = url.split_once('?').unwrap_or((url, ""));
    let slash = before.rfind('/').expect("a URL with a database");
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("{}/{name}{query}", &before[..slash])
}

async fn run_as_admin(statement: String) {
    let mut admin = PgConnection::connect(&admin_url()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
}
