//! The ledger: a row for each request, with its idempotency key and its outcome, in the transaction that applied it.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use rowlock_footprint::{Dialect, TableName};
use sqlx::{AssertSqlSafe, Row, SqlSafeStr, SqlStr};

use super::{
    grant::grant,
    queue::Group,
    rows::{execute, fetch},
};
use crate::{
    Kind, Outcome,
    check::full_name,
    engine::Engine,
    error::{Error, KindName},
    failure::Failure,
    inner::Inner,
    query::Query,
};

/// The longest request key, in bytes.
const LONGEST: usize = 255;

/// The SQL that makes a ledger for [`MergerBuilder::ledger`](super::MergerBuilder::ledger), for your own migrations; it may
/// be run again without harm.
///
/// Its rows are the merger's to write and yours to read: `request` (the idempotency key), `place` (table and key of the
/// row), `quantity`, `outcome` (0 applied, 1 insufficient, 2 missing), `value` (left, or found) and `made_at`. Delete old
/// ones once nobody will repeat their requests: a repeat after that is a new request.
///
/// ```
/// let sql = rowlock::ledger_sql(rowlock::Dialect::Postgres, "sales.stock_ledger");
/// assert!(sql.starts_with(r#"CREATE TABLE IF NOT EXISTS "sales"."stock_ledger" (request text"#));
/// ```
pub fn ledger_sql(dialect: Dialect, table: &str) -> String {
    let table = full_name(dialect, &TableName::parse(table));
    let (request, place, value, made_at, rest) = match dialect {
        // By bytes, whatever the database's collation.
        Dialect::Postgres => {
            ("text COLLATE \"C\"", "text COLLATE \"C\"", "bigint", "timestamptz NOT NULL DEFAULT now()", "")
        }
        Dialect::MySql | Dialect::MariaDb => (
            "varbinary(255)",
            "text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "bigint",
            "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP",
            " ENGINE=InnoDB",
        ),
        Dialect::Sqlite => ("text", "text", "integer", "text NOT NULL DEFAULT CURRENT_TIMESTAMP", " WITHOUT ROWID"),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (request {request} PRIMARY KEY NOT NULL, place {place} NOT NULL, \
         quantity {value} NOT NULL, outcome smallint NOT NULL, value {value}, made_at {made_at}){rest}"
    )
}

/// Whether a request's key can be kept as it is.
pub(super) fn check(kind: &KindName, request: &str) -> Result<(), Error> {
    if request.is_empty() || request.len() > LONGEST || request.contains('\0') {
        return Err(Error::RequestKey { kind: kind.clone(), request: request.to_owned() });
    }
    Ok(())
}

/// A ledger that was found fit.
pub(super) struct Ledger {
    dialect: Dialect,
    /// Quoted for SQL.
    table: String,
    insert: SqlStr,
    /// The table of the merger's resource, as its declared name.
    resource: &'static str,
    /// The last look found repeats, or a batch had some.
    repeats: AtomicBool,
}

/// What an earlier request with the same key was, and came to.
pub(super) struct Entry {
    place: Arc<str>,
    quantity: i64,
    outcome: Outcome,
}

/// What one request is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    Outcome(Outcome),
    /// Its key names an earlier request that was another.
    Reused,
}

/// What a batch comes to.
pub(super) struct Entries {
    /// One for each request, group by group.
    pub(super) told: Vec<Told>,
    /// One for each group.
    pub(super) granted: Vec<i64>,
    /// The rows to write: a JSON array of arrays; `None`: there are none.
    new: Option<String>,
    /// How many they are.
    count: u64,
}

impl Ledger {
    pub(super) async fn open<E: Engine>(kind: &Kind<E>, rank: u16, name: &str) -> Result<Ledger, Error> {
        let dialect = kind.shared.dialect;
        let table = full_name(dialect, &TableName::parse(name));
        let look = format!("SELECT request, place, quantity, outcome, value FROM {table} WHERE request IS NULL");
        let looked = async {
            let mut connection = kind.shared.pool.acquire().await?;
            E::batch(&mut connection, AssertSqlSafe(look).into_sql_str()).await
        };
        looked.await.map_err(|source| Error::Ledger { table: name.to_owned(), source })?;
        let insert = AssertSqlSafe(insert_text(dialect, &table)).into_sql_str();
        let resource = kind.shared.resources[usize::from(rank)].table;
        Ok(Ledger { dialect, table, insert, resource, repeats: AtomicBool::new(false) })
    }

    /// Whether it is better read before it is written. It is right in any case.
    pub(super) fn expects_repeats(&self) -> bool {
        self.repeats.load(Relaxed)
    }

    /// What is known of the batch's requests.
    pub(super) async fn read<E: Engine>(
        &self,
        inner: &mut Inner<E>,
        groups: &[Group],
    ) -> Result<HashMap<Arc<str>, Entry>, Error> {
        let requests: Vec<&Arc<str>> =
            groups.iter().flat_map(|g| &g.slots).filter_map(|s| s.request.as_ref()).collect();
        let Some(last) = requests.last() else { return Ok(HashMap::new()) };
        // Few texts serve all numbers; what is left over is filled with the last key again.
        let room = requests.len().next_power_of_two();
        let fill = std::iter::repeat_n(last, room - requests.len());
        let mut query = Query::<E>::new(AssertSqlSafe(self.read_text(room)));
        for request in requests.iter().chain(fill) {
            query = match self.dialect.is_innodb() {
                true => query.bind(request.as_bytes().to_vec()),
                false => query.bind(request.to_string()),
            };
        }
        let rows = fetch(inner, query.into_statement()?).await?;
        self.repeats.store(!rows.is_empty(), Relaxed);
        rows.iter().map(|row| self.entry::<E>(row)).collect::<Result<_, _>>().map_err(Error::from)
    }

    fn read_text(&self, room: usize) -> String {
        let mut sql = format!("SELECT request, place, quantity, outcome, value FROM {} WHERE request IN (", self.table);
        for n in 1..=room {
            let comma = if n == 1 { "" } else { ", " };
            let _ = match self.dialect {
                Dialect::Postgres => write!(sql, "{comma}${n}"),
                _ => write!(sql, "{comma}?"),
            };
        }
        sql.push(')');
        sql
    }

    fn entry<E: Engine>(&self, row: &E::Row) -> Result<(Arc<str>, Entry), sqlx::Error> {
        let request: Arc<str> = match self.dialect.is_innodb() {
            true => String::from_utf8_lossy(&row.try_get::<Vec<u8>, _>(0)?).into(),
            false => row.try_get::<String, _>(0)?.into(),
        };
        let place: Arc<str> = row.try_get::<String, _>(1)?.into();
        let value: Option<i64> = row.try_get(4)?;
        let outcome = match (row.try_get::<i16, _>(3)?, value) {
            (0, Some(value)) => Outcome::Applied { value },
            (1, Some(found)) => Outcome::Insufficient { found },
            _ => Outcome::Missing,
        };
        Ok((request, Entry { place, quantity: row.try_get(2)?, outcome }))
    }

    /// What each request comes to, where `found` is in the rows and `known` in the ledger.
    pub(super) fn grant(
        &self,
        groups: &[Group],
        found: &[Option<i64>],
        mut known: HashMap<Arc<str>, Entry>,
    ) -> Entries {
        let mut entries = Entries { told: Vec::new(), granted: Vec::new(), new: None, count: 0 };
        let mut new: Vec<(Arc<str>, String)> = Vec::new();
        for (group, found) in groups.iter().zip(found) {
            let place: Arc<str> = format!("{} {}", self.resource, group.key).into();
            let mut value = *found;
            for slot in &group.slots {
                let Some(request) = &slot.request else { continue };
                if let Some(entry) = known.get(request) {
                    let same = entry.place == place && entry.quantity == slot.quantity;
                    entries.told.push(if same { Told::Outcome(entry.outcome) } else { Told::Reused });
                    continue;
                }
                grant(value, std::iter::once(slot.quantity), |outcome| {
                    if let Outcome::Applied { value: left } = outcome {
                        value = Some(left);
                    }
                    entries.told.push(Told::Outcome(outcome));
                    new.push((request.clone(), json_row(request, &place, slot.quantity, outcome)));
                    let entry = Entry { place: place.clone(), quantity: slot.quantity, outcome };
                    known.insert(request.clone(), entry);
                });
            }
            entries.granted.push(found.unwrap_or(0) - value.unwrap_or(0));
        }
        // In one order in every process: whoever waits for another's row in the ledger waits upwards.
        new.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let rows = new.iter().map(|(_, row)| row.as_str()).collect::<Vec<_>>().join(",");
        entries.count = new.len() as u64;
        entries.new = (!new.is_empty()).then(|| format!("[{rows}]"));
        entries
    }

    /// Enters the new requests. Whether they were new: if not, the transaction is to be rolled back.
    pub(super) async fn write<E: Engine>(&self, inner: &mut Inner<E>, entries: &Entries) -> Result<bool, Error> {
        let Some(new) = &entries.new else { return Ok(true) };
        let query = Query::<E>::new(self.insert.clone()).bind(new.clone());
        let new = match execute(inner, query.into_statement()?).await {
            Ok(entered) => entered == entries.count,
            Err(Error::Database(error)) if Failure::of::<E>(self.dialect, &error) == Failure::Duplicate => false,
            Err(error) => return Err(error),
        };
        if !new {
            self.repeats.store(true, Relaxed);
        }
        Ok(new)
    }
}

/// One text for any number of rows: they come as one JSON value.
fn insert_text(dialect: Dialect, table: &str) -> String {
    let rows = match dialect {
        Dialect::Postgres => {
            "SELECT r->>0, r->>1, (r->>2)::bigint, (r->>3)::smallint, (r->>4)::bigint FROM json_array_elements($1::json) r"
        }
        Dialect::MySql | Dialect::MariaDb => {
            "SELECT r.* FROM JSON_TABLE(?, '$[*]' COLUMNS (request varchar(255) CHARACTER SET utf8mb4 PATH '$[0]', \
             place text CHARACTER SET utf8mb4 PATH '$[1]', quantity bigint PATH '$[2]', outcome smallint PATH '$[3]', \
             value bigint PATH '$[4]')) r"
        }
        Dialect::Sqlite => "SELECT value->>0, value->>1, value->>2, value->>3, value->>4 FROM json_each(?)",
    };
    // One that is there is no error on PostgreSQL, whose log would have it; elsewhere it is, and tells as much.
    let rest = if dialect == Dialect::Postgres { " ON CONFLICT DO NOTHING" } else { "" };
    format!("INSERT INTO {table} (request, place, quantity, outcome, value) {rows}{rest}")
}

fn json_row(request: &str, place: &str, quantity: i64, outcome: Outcome) -> String {
    let mut row = String::with_capacity(request.len() + place.len() + 32);
    row.push('[');
    json_text(&mut row, request);
    row.push(',');
    json_text(&mut row, place);
    let _ = match outcome {
        Outcome::Applied { value } => write!(row, ",{quantity},0,{value}]"),
        Outcome::Insufficient { found } => write!(row, ",{quantity},1,{found}]"),
        // Nothing is withheld from a request by another's.
        Outcome::Missing | Outcome::Withheld { .. } => write!(row, ",{quantity},2,null]"),
    };
    row
}

/// `text` as a JSON string (RFC 8259, section 7).
fn json_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
