//! Tables with a key of each type, 1200 rows in each, put in against their order.

use std::sync::{Mutex, Once, PoisonError};

use rowlock::{Db, Engine, Key, KeyColumn, KeyType, KeyValue};
use rowlock_testing::{Family, TestDb};
use uuid::Uuid;

rowlock::lock_order! {
    pub(crate) order Keys {
        ByUuid     => "by_uuid"      (id: Uuid),
        ByText     => "by_text"      (id: String),
        ByTextC    => "by_text_c"    (id: String),
        ByTextIcu  => "by_text_icu"  (id: String),
        ByBytes    => "by_bytes"     (id: Vec<u8>),
        ByPair     => "by_pair"      (a: i64, b: i32),
        ByMixed    => "by_mixed"     (a: String, b: i64),
        ByFour     => "by_four"      (a: Uuid, b: String, c: i64, d: Vec<u8>),
        ByNewtype  => "by_newtype"   (id: Number),
    }
}

/// A user's own type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) i64);

impl KeyColumn for Number {
    const TYPE: KeyType = KeyType::Integer;
    fn to_value(&self) -> KeyValue {
        self.0.to_value()
    }
    fn from_value(value: &KeyValue) -> Option<Self> {
        i64::from_value(value).map(Number)
    }
}

pub(crate) const ROWS: i64 = 1200;

pub(crate) fn uuid(n: i64) -> Uuid {
    // Spread over all sixteen bytes, and always the same.
    Uuid::from_u128((n as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// Upper and lower case, accents, lengths and a space at the end: what collations sort otherwise than bytes.
pub(crate) fn text(n: i64) -> String {
    let word = ["a", "B", "ä", "Z", "z", "É", "ß", "a b", "A-", "Ω", "_"][n as usize % 11];
    format!("{word}{}{}", n % 97, if n % 5 == 0 { " " } else { "" }) + &"x".repeat(n as usize / 97)
}

pub(crate) fn bytes(n: i64) -> Vec<u8> {
    let mut bytes = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().to_vec();
    bytes.truncate(3 + n as usize % 5);
    bytes.extend((n as u16).to_be_bytes());
    bytes
}

/// The words for the column types.
fn columns(test: &TestDb, table: &str) -> String {
    let bin = if test.engine() == rowlock_testing::Engine::MariaDb { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" };
    let (uuid, bytes, text) = match test.family() {
        Family::Postgres => ("uuid", "bytea", "text".to_owned()),
        Family::InnoDb => ("binary(16)", "varbinary(40)", format!("varchar(60) character set utf8mb4 collate {bin}")),
        Family::Sqlite => ("blob", "blob", "text".to_owned()),
    };
    let collated = |name: &str| match test.family() {
        Family::Postgres => format!("{text} collate {name}"),
        _ => text.clone(),
    };
    match table {
        "by_uuid" => format!("id {uuid} not null, primary key (id)"),
        "by_text" => format!("id {text} not null, primary key (id)"),
        "by_text_c" => format!("id {} not null, primary key (id)", collated("\"C\"")),
        // PostgreSQL 18 comes without ICU; this one of its own goes by more than bytes, too.
        "by_text_icu" if test.engine() == rowlock_testing::Engine::Pg18 => {
            format!("id {} not null, primary key (id)", collated("pg_unicode_fast"))
        }
        "by_text_icu" => format!("id {} not null, primary key (id)", collated("\"und-x-icu\"")),
        "by_bytes" => format!("id {bytes} not null, primary key (id)"),
        "by_pair" => "a bigint not null, b int not null, primary key (a, b)".into(),
        "by_mixed" => format!("a {text} not null, b bigint not null, primary key (a, b)"),
        "by_four" => {
            format!(
                "a {uuid} not null, b {text} not null, c bigint not null, d {bytes} not null, primary key (a, b, c, d)"
            )
        }
        _ => "id bigint not null, primary key (id)".into(),
    }
}

/// Makes a table with these keys.
pub(crate) async fn table<K: Key>(test: &TestDb, table: &str, keys: &[K]) {
    test.execute(&format!("create table {table} (n bigint not null default 0, {})", columns(test, table))).await;
    fill(test, table, keys).await;
}

pub(crate) async fn fill<K: Key>(test: &TestDb, table: &str, keys: &[K]) {
    let rows: Vec<String> = keys.iter().rev().map(|key| format!("({})", literals(test, key).join(", "))).collect();
    let names = match K::COLUMNS.len() {
        1 => "id",
        2 => "a, b",
        _ => "a, b, c, d",
    };
    test.execute(&format!("insert into {table} ({names}) values {}", rows.join(", "))).await;
    if test.family() == Family::Postgres {
        test.execute(&format!("analyze {table}")).await;
    }
}

/// `a = 1 and b = 'x'`.
pub(crate) fn condition<K: Key>(test: &TestDb, key: &K) -> String {
    let names: &[&str] = if K::COLUMNS.len() == 1 { &["id"] } else { &["a", "b", "c", "d"] };
    let parts = names.iter().zip(literals(test, key)).map(|(name, value)| format!("{name} = {value}"));
    parts.collect::<Vec<_>>().join(" and ")
}

fn literals<K: Key>(test: &TestDb, key: &K) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let postgres = test.family() == Family::Postgres;
    let literal = |value: &KeyValue| match value {
        KeyValue::Uuid(uuid) if postgres => format!("'{uuid}'"),
        KeyValue::Uuid(uuid) => format!("x'{}'", hex(uuid.as_bytes())),
        KeyValue::Bytes(bytes) if postgres => format!("'\\x{}'", hex(bytes)),
        KeyValue::Bytes(bytes) => format!("x'{}'", hex(bytes)),
        KeyValue::Text(text) => format!("'{text}'"),
        other => other.to_string(),
    };
    key.value().columns().iter().map(literal).collect()
}

/// All tables, opened.
pub(crate) async fn open<E: Engine>(test: &TestDb) -> Db<E> {
    record();
    let n = || 0..ROWS;
    table(test, "by_uuid", &n().map(uuid).collect::<Vec<_>>()).await;
    for name in ["by_text", "by_text_c", "by_text_icu"] {
        table(test, name, &n().map(text).collect::<Vec<_>>()).await;
    }
    table(test, "by_bytes", &n().map(bytes).collect::<Vec<_>>()).await;
    table(test, "by_pair", &n().map(pair).collect::<Vec<_>>()).await;
    table(test, "by_mixed", &n().map(mixed).collect::<Vec<_>>()).await;
    table(test, "by_four", &n().map(four).collect::<Vec<_>>()).await;
    table(test, "by_newtype", &n().map(Number).collect::<Vec<_>>()).await;
    let pool = test.pool_of::<E>(5).await;
    Db::builder(Keys).open(pool).await.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn pair(n: i64) -> (i64, i32) {
    (n / 7 - 80, (n % 7) as i32 - 3)
}

pub(crate) fn mixed(n: i64) -> (String, i64) {
    (text(n % 200), n / 200 - 3)
}

pub(crate) fn four(n: i64) -> (Uuid, String, i64, Vec<u8>) {
    (uuid(n % 3), text(n % 50), n % 2 - 1, bytes(n))
}

/// What was traced at warning level.
static TRACED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Trace;

impl std::io::Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        TRACED.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false).with_writer(|| Trace).init();
    });
}

/// In debug builds each locking text is explained; no plan so far was one that locks in another order.
pub(crate) fn no_fault_was_traced() {
    let traced = String::from_utf8_lossy(&TRACED.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    assert!(!traced.contains("does not lock in key order"), "{traced}");
}
