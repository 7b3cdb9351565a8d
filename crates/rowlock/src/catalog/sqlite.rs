//! SQLite's pragmas and `sqlite_schema`, of the main database and those attached (`temp` is a session's own).
//!
//! No pragma tells a column's collation. It is asked for only where the text of CREATE TABLE has the word: the code of
//! `col = 'x'`, which EXPLAIN prints, names it.

use std::collections::HashMap;

use futures_util::TryStreamExt;
use rowlock_footprint::{Action, Column, ForeignKey, Schema, Table, TableName, UniqueKey};
use sqlx::{AssertSqlSafe, Executor, Row, Sqlite, SqliteConnection, sqlite::SqliteRow};

use super::{Catalog, Details, add_foreign_key, hash, row_sets};
use crate::{Dialect, check::quote};

pub(crate) async fn read(connection: &mut SqliteConnection) -> Result<Catalog, sqlx::Error> {
    let databases = databases(connection).await?;
    // The fingerprint comes first: what changes while the rest is read gives another one at the next look.
    let fingerprint = versions(connection, &databases).await?;
    let (mut schema, mut details) = (Schema::default(), HashMap::new());
    let mut version = String::new();
    for database in databases {
        let literal = format!("'{}'", database.replace('\'', "''"));
        let texts = format!(
            "select type, name, tbl_name, coalesce(sql, '') as sql from {}.sqlite_schema order by name",
            quote(Dialect::Sqlite, &database)
        );
        let sql = [SERVER, TABLES, COLUMNS, INDEXES, FOREIGN_KEYS].join(";\n").replace("'main'", &literal);
        let mut sets = row_sets::<Sqlite>(connection, format!("{sql};\n{texts}")).await?;
        if let Some(row) = sets.next().unwrap_or_default().first() {
            version = row.try_get("version")?;
        }
        let mut tables = Tables { database: database.clone(), by_name: HashMap::new() };
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.table(row))?;
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.column(row))?;
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.index(row))?;
        let foreign_keys = sets.next().unwrap_or_default();
        let mut collated = Vec::new();
        for row in sets.next().unwrap_or_default() {
            tables.text(&row, &mut collated)?;
        }
        for table in collated {
            tables.collations(connection, &table).await?;
        }
        tables.finish_keys();
        foreign_keys.iter().try_for_each(|row| tables.foreign_key(row))?;
        for read in tables.by_name.into_values() {
            details.insert(read.table.name.clone(), Details { kind: read.kind, ..Details::default() });
            schema.insert(read.table);
        }
        schema.search_path.push(database);
    }
    Ok(Catalog {
        dialect: Dialect::Sqlite,
        version,
        schema,
        fingerprint,
        details,
        triggers_hidden: false,
        folded: true,
    })
}

pub(crate) async fn fingerprint(connection: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let databases = databases(connection).await?;
    versions(connection, &databases).await
}

async fn databases(connection: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("select name from pragma_database_list where name <> 'temp' order by seq")
        .fetch_all(connection)
        .await
}

/// The counter in the file's header that SQLite raises with each change of schema.
async fn versions(connection: &mut SqliteConnection, databases: &[String]) -> Result<u64, sqlx::Error> {
    let mut versions = Vec::new();
    for database in databases {
        let pragma = format!("pragma {}.schema_version", quote(Dialect::Sqlite, database));
        let version: i64 = sqlx::raw_sql(AssertSqlSafe(pragma)).fetch_one(&mut *connection).await?.try_get(0)?;
        versions.push((database, version));
    }
    Ok(hash(versions))
}

struct Tables {
    database: String,
    by_name: HashMap<String, Read>,
}

struct Read {
    table: Table,
    kind: Option<&'static str>,
    without_rowid: bool,
    strict: bool,
    /// There is an index for the primary key: it is not the row's own number.
    primary_index: bool,
    /// The unique indexes, with the collation of each of their columns.
    indexes: Vec<(UniqueKey, Vec<String>)>,
}

impl Tables {
    fn table(&mut self, row: &SqliteRow) -> Result<(), sqlx::Error> {
        let name: String = row.try_get("name")?;
        let kind = match row.try_get::<&str, _>("type")? {
            "view" => Some("view"),
            "virtual" => Some("virtual table"),
            _ => None,
        };
        let full = TableName { schema: Some(self.database.clone()), name: name.clone() };
        let read = Read {
            table: Table { view: kind.is_some(), ..Table::new(full) },
            kind,
            without_rowid: row.try_get("wr")?,
            strict: row.try_get("strict")?,
            primary_index: false,
            indexes: Vec::new(),
        };
        self.by_name.insert(name, read);
        Ok(())
    }

    fn column(&mut self, row: &SqliteRow) -> Result<(), sqlx::Error> {
        let Some(read) = self.by_name.get_mut(row.try_get::<&str, _>("table_name")?) else { return Ok(()) };
        let (name, type_name): (String, String) = (row.try_get("name")?, row.try_get("type")?);
        let type_name = type_name.to_ascii_lowercase();
        let pk: i64 = row.try_get("pk")?;
        if pk > 0 {
            let at = usize::try_from(pk - 1).unwrap_or_default();
            read.table.primary_key.resize(read.table.primary_key.len().max(at + 1), String::new());
            if let Some(slot) = read.table.primary_key.get_mut(at) {
                slot.clone_from(&name);
            }
        }
        // The two later kinds of table hold a primary key to NOT NULL; the first kind never did.
        let required = row.try_get::<bool, _>("required")? || (pk > 0 && (read.without_rowid || read.strict));
        read.table.columns.push(Column {
            name,
            nullable: !required,
            generated: false,
            collation: (affinity(&type_name) == Affinity::Text).then(|| "BINARY".to_owned()),
            bytewise: affinity(&type_name) != Affinity::Real,
            type_name,
        });
        Ok(())
    }

    fn index(&mut self, row: &SqliteRow) -> Result<(), sqlx::Error> {
        let Some(read) = self.by_name.get_mut(row.try_get::<&str, _>("table_name")?) else { return Ok(()) };
        read.primary_index |= row.try_get::<bool, _>("is_primary")?;
        let name: String = row.try_get("name")?;
        let column: Option<String> = row.try_get("column_name")?;
        let partial = row.try_get("partial")? || column.is_none();
        let column = column.unwrap_or_else(|| "an expression".into());
        let collation = row.try_get("collation")?;
        match read.indexes.last_mut().filter(|(key, _)| key.name == name) {
            Some((key, collations)) => {
                key.columns.push(column);
                key.partial |= partial;
                collations.push(collation);
            }
            None => read.indexes.push((UniqueKey { name, columns: vec![column], partial }, vec![collation])),
        }
        Ok(())
    }

    /// Triggers, and which tables mention a collation.
    fn text(&mut self, row: &SqliteRow, collated: &mut Vec<String>) -> Result<(), sqlx::Error> {
        let table: String = row.try_get("tbl_name")?;
        match row.try_get::<&str, _>("type")? {
            "trigger" => {
                if let Some(read) = self.by_name.get_mut(&table) {
                    read.table.triggers.push(row.try_get("name")?);
                }
            }
            "table" if row.try_get::<&str, _>("sql")?.to_ascii_lowercase().contains("collate") => collated.push(table),
            _ => {}
        }
        Ok(())
    }

    async fn collations(&mut self, connection: &mut SqliteConnection, name: &str) -> Result<(), sqlx::Error> {
        let Some(read) = self.by_name.get_mut(name).filter(|read| read.kind.is_none()) else { return Ok(()) };
        for column in read.table.columns.iter_mut().filter(|column| affinity(&column.type_name) == Affinity::Text) {
            let sql = format!(
                "explain select {} = 'x' from {}.{}",
                quote(Dialect::Sqlite, &column.name),
                quote(Dialect::Sqlite, &self.database),
                quote(Dialect::Sqlite, name)
            );
            let mut code = connection.fetch(sqlx::raw_sql(AssertSqlSafe(sql)));
            while let Some(step) = code.try_next().await? {
                // `Eq` and `Ne` carry it as `NOCASE-8`, with the database's encoding behind it.
                if matches!(step.try_get::<&str, _>("opcode")?, "Eq" | "Ne")
                    && let Some(collation) = step.try_get::<Option<&str>, _>("p4")?
                {
                    let collation = collation.rsplit_once('-').map_or(collation, |(name, _)| name);
                    column.bytewise = collation.eq_ignore_ascii_case("binary");
                    column.collation = Some(collation.to_owned());
                }
            }
        }
        Ok(())
    }

    /// An `integer primary key` is the row's own number and has no index. An index that compares by another collation
    /// than its column is not used for `=`.
    fn finish_keys(&mut self) {
        for read in self.by_name.values_mut() {
            let table = &mut read.table;
            for (mut key, collations) in std::mem::take(&mut read.indexes) {
                let differs = |(column, collation): (&String, &String)| {
                    let own = table.column(column).and_then(|c| c.collation.as_deref()).unwrap_or("BINARY");
                    !own.eq_ignore_ascii_case(collation)
                };
                key.partial |= key.columns.iter().zip(&collations).any(differs);
                table.unique_keys.push(key);
            }
            if !table.primary_key.is_empty() && !read.primary_index {
                let key = UniqueKey { name: "rowid".into(), columns: table.primary_key.clone(), partial: false };
                table.unique_keys.insert(0, key);
                for column in table.columns.iter_mut().filter(|column| table.primary_key.contains(&column.name)) {
                    column.generated = true;
                    column.nullable = false;
                }
            }
        }
    }

    fn foreign_key(&mut self, row: &SqliteRow) -> Result<(), sqlx::Error> {
        let parent: &str = row.try_get("parent")?;
        let parent = self.by_name.values().find(|read| read.table.name.name.eq_ignore_ascii_case(parent));
        let Some((parent, parent_key)) = parent.map(|p| (p.table.name.clone(), p.table.primary_key.clone())) else {
            return Ok(());
        };
        let Some(read) = self.by_name.get_mut(row.try_get::<&str, _>("table_name")?) else { return Ok(()) };
        let (id, seq): (i64, i64) = (row.try_get("id")?, row.try_get("seq")?);
        let at = usize::try_from(seq).unwrap_or_default();
        // Without named columns, it points at the primary key.
        let parent_column: Option<String> = row.try_get("parent_column")?;
        let parent_column = parent_column.or_else(|| parent_key.get(at).cloned()).unwrap_or_default();
        // SQLite does not tell the constraint's name.
        let name = format!("foreign key {id} to {}", parent.name);
        let column = ForeignKey {
            name,
            columns: vec![row.try_get("column_name")?],
            parent,
            parent_columns: vec![parent_column],
            on_delete: action(row.try_get("on_delete")?),
            on_update: action(row.try_get("on_update")?),
            // Not told either; and whenever it is checked, the whole file is locked.
            deferred: false,
        };
        add_foreign_key(&mut read.table, column);
        Ok(())
    }
}

/// What a column makes of a value ("Datatypes In SQLite", 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    Integer,
    Text,
    Blob,
    Real,
    Numeric,
}

/// By the declared type, in lower case.
pub(crate) fn affinity(type_name: &str) -> Affinity {
    let has = |parts: &[&str]| parts.iter().any(|part| type_name.contains(part));
    match () {
        () if has(&["int"]) => Affinity::Integer,
        () if has(&["char", "clob", "text"]) => Affinity::Text,
        () if type_name.is_empty() || has(&["blob"]) => Affinity::Blob,
        () if has(&["real", "floa", "doub"]) => Affinity::Real,
        () => Affinity::Numeric,
    }
}

fn action(rule: &str) -> Action {
    match rule {
        "RESTRICT" => Action::Restrict,
        "CASCADE" => Action::Cascade,
        "SET NULL" => Action::SetNull,
        "SET DEFAULT" => Action::SetDefault,
        _ => Action::NoAction,
    }
}

const SERVER: &str = "select sqlite_version() as version";

const TABLES: &str = r"
select name, type, wr, strict from pragma_table_list
where schema = 'main' and name not like 'sqlite\_%' escape '\'";

const COLUMNS: &str = r#"
select t.name as table_name, c.name, c.type, c."notnull" as required, c.pk
from pragma_table_list t join pragma_table_xinfo(t.name, t.schema) c
where t.schema = 'main' and t.name not like 'sqlite\_%' escape '\'
order by t.name, c.cid"#;

/// `seqno` counts the columns of the index, `key` tells them from what is stored beside them.
const INDEXES: &str = r#"
select t.name as table_name, i.name, i.partial, i.origin = 'pk' as is_primary, c.name as column_name, c.coll as collation
from pragma_table_list t join pragma_index_list(t.name, t.schema) i join pragma_index_xinfo(i.name, t.schema) c
where t.schema = 'main' and t.type = 'table' and i."unique" and c.key
order by t.name, i.origin <> 'pk', i.name, c.seqno"#;

const FOREIGN_KEYS: &str = r#"
select t.name as table_name, f.id, f.seq, f."table" as parent, f."from" as column_name, f."to" as parent_column,
       f.on_delete, f.on_update
from pragma_table_list t join pragma_foreign_key_list(t.name, t.schema) f
where t.schema = 'main' and t.type = 'table'
order by t.name, f.id, f.seq"#;
