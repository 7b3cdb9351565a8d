//! MySQL's and MariaDB's `information_schema`, one database at a time: MariaDB opens each table of each database that a
//! condition does not rule out by equality.

use std::collections::HashMap;

use rowlock_footprint::{Action, Column, ForeignKey, Schema, Table, TableName, UniqueKey, relations};
use sqlx::{MySql, MySqlConnection, Row, mysql::MySqlRow};

use super::{Catalog, Details, add_foreign_key, hash, row_sets};
use crate::{Dialect, ResourceInfo};

pub(crate) async fn read(connection: &mut MySqlConnection, order: &[ResourceInfo]) -> Result<Catalog, sqlx::Error> {
    let mut catalog = Catalog {
        dialect: Dialect::MySql,
        version: String::new(),
        schema: Schema::default(),
        fingerprint: 0,
        details: HashMap::new(),
        triggers_hidden: false,
        folded: false,
    };
    let mut fingerprints = Vec::new();
    for database in databases(connection, order).await? {
        // The fingerprint comes first: what changes while the rest is read gives another one at the next look.
        let sql = [FINGERPRINT, SERVER, TABLES, COLUMNS, UNIQUE_KEYS, FOREIGN_KEYS, RULES, TRIGGERS, VIEWS].join(";\n");
        let mut sets = row_sets::<MySql>(connection, sql.replace("database()", &database)).await?;
        fingerprints.push(digest(&sets.next().unwrap_or_default())?);
        let server = sets.next().and_then(|mut rows| rows.pop()).ok_or(sqlx::Error::RowNotFound)?;
        catalog.version = server.try_get("version")?;
        if catalog.version.to_ascii_lowercase().contains("mariadb") {
            catalog.dialect = Dialect::MariaDb;
        }
        catalog.folded = server.try_get::<String, _>("folding")? != "0";
        catalog.triggers_hidden |=
            catalog.dialect == Dialect::MySql && server.try_get::<String, _>("sees_triggers")? == "0";
        let Some(name) = server.try_get::<Option<String>, _>("name")? else { continue };

        let mut tables = Tables { database: name.clone(), by_name: HashMap::new(), rules: HashMap::new() };
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.table(row))?;
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.column(row))?;
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.unique_key(row))?;
        let foreign_keys = sets.next().unwrap_or_default();
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.rule(row))?;
        foreign_keys.iter().try_for_each(|row| tables.foreign_key(row))?;
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.trigger(row))?;
        let dialect = catalog.dialect;
        sets.next().unwrap_or_default().iter().try_for_each(|row| tables.view(row, dialect))?;

        if catalog.schema.search_path.is_empty() {
            catalog.schema.search_path.push(name);
        }
        for (table, details) in tables.by_name.into_values() {
            catalog.details.insert(table.name.clone(), details);
            catalog.schema.insert(table);
        }
    }
    catalog.fingerprint = hash(fingerprints);
    Ok(catalog)
}

pub(crate) async fn fingerprint(connection: &mut MySqlConnection, order: &[ResourceInfo]) -> Result<u64, sqlx::Error> {
    let mut fingerprints = Vec::new();
    for database in databases(connection, order).await? {
        let sql = FINGERPRINT.replace("database()", &database);
        fingerprints.push(digest(&row_sets::<MySql>(connection, sql).await?.next().unwrap_or_default())?);
    }
    Ok(hash(fingerprints))
}

/// The connection's own database first, then those that the order names, then those whose tables have foreign keys to any of
/// these: what happens to a parent locks its children. Each as an expression of SQL.
async fn databases(connection: &mut MySqlConnection, order: &[ResourceInfo]) -> Result<Vec<String>, sqlx::Error> {
    let mut databases = vec!["database()".to_owned()];
    let add = |databases: &mut Vec<String>, schema: &str| {
        let literal = format!("'{}'", schema.replace('\\', r"\\").replace('\'', "''"));
        if !databases.contains(&literal) {
            databases.push(literal);
        }
    };
    order
        .iter()
        .filter_map(|resource| TableName::parse(resource.table).schema)
        .for_each(|schema| add(&mut databases, &schema));
    loop {
        let known = databases.len();
        let sql = CHILDREN.replace("database()", &databases.join(", "));
        let children = match sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_all(&mut *connection).await {
            Ok(children) => children,
            // 1227: MariaDB shows them to who has the privilege PROCESS.
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42000") => return Ok(databases),
            Err(error) => return Err(error),
        };
        for row in &children {
            add(&mut databases, row.try_get(0)?);
        }
        if databases.len() == known {
            return Ok(databases);
        }
    }
}

fn digest(rows: &[MySqlRow]) -> Result<String, sqlx::Error> {
    rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)
}

struct Tables {
    database: String,
    by_name: HashMap<String, (Table, Details)>,
    /// Constraint and its table: what happens on delete and on update.
    rules: HashMap<(String, String), (Action, Action)>,
}

impl Tables {
    fn table(&mut self, row: &MySqlRow) -> Result<(), sqlx::Error> {
        let name: String = row.try_get("name")?;
        let full = TableName { schema: Some(self.database.clone()), name: name.clone() };
        let kind = match row.try_get::<String, _>("kind")?.as_str() {
            "BASE TABLE" | "SYSTEM VERSIONED" => None,
            "SEQUENCE" => Some("sequence"),
            _ => Some("view"),
        };
        let table = Table {
            partitioned: row.try_get::<String, _>("options")?.to_ascii_lowercase().contains("partitioned"),
            view: kind.is_some(),
            ..Table::new(full)
        };
        let details = Details { kind, engine: row.try_get("engine")?, ..Details::default() };
        self.by_name.insert(name, (table, details));
        Ok(())
    }

    fn column(&mut self, row: &MySqlRow) -> Result<(), sqlx::Error> {
        let Some((table, details)) = self.by_name.get_mut(row.try_get::<&str, _>("table_name")?) else { return Ok(()) };
        let name: String = row.try_get("name")?;
        let extra = row.try_get::<String, _>("extra")?.to_ascii_lowercase();
        if extra.contains("invisible") {
            details.hidden.push(name.clone());
        }
        let type_name = row.try_get::<String, _>("type")?.to_ascii_lowercase();
        let collation: Option<String> = row.try_get("collation")?;
        let default: String = row.try_get::<String, _>("value")?.to_ascii_lowercase();
        let makes = |function: &str| default.trim_start_matches('(').starts_with(function);
        table.columns.push(Column {
            name,
            nullable: row.try_get::<String, _>("nullable")? != "NO",
            generated: extra.contains("auto_increment")
                || ["uuid()", "uuid_v7()", "uuid_to_bin(uuid()", "nextval(", "next value for"].into_iter().any(makes),
            bytewise: bytewise(&type_name, collation.as_deref()),
            type_name,
            collation,
        });
        Ok(())
    }

    fn unique_key(&mut self, row: &MySqlRow) -> Result<(), sqlx::Error> {
        let Some((table, _)) = self.by_name.get_mut(row.try_get::<&str, _>("table_name")?) else { return Ok(()) };
        let (name, column): (String, String) = (row.try_get("name")?, row.try_get("column_name")?);
        let partial = row.try_get::<String, _>("partial")? != "0";
        if name == "PRIMARY" {
            table.primary_key.push(column.clone());
        }
        match table.unique_keys.last_mut().filter(|key| key.name == name) {
            Some(key) => {
                key.columns.push(column);
                key.partial |= partial;
            }
            None => table.unique_keys.push(UniqueKey { name, columns: vec![column], partial }),
        }
        Ok(())
    }

    fn rule(&mut self, row: &MySqlRow) -> Result<(), sqlx::Error> {
        let actions = (action(row.try_get("on_delete")?), action(row.try_get("on_update")?));
        self.rules.insert((row.try_get("table_name")?, row.try_get("name")?), actions);
        Ok(())
    }

    fn foreign_key(&mut self, row: &MySqlRow) -> Result<(), sqlx::Error> {
        let table_name: String = row.try_get("table_name")?;
        let Some((table, _)) = self.by_name.get_mut(&table_name) else { return Ok(()) };
        let name: String = row.try_get("name")?;
        let (on_delete, on_update) =
            self.rules.get(&(table_name, name.clone())).copied().unwrap_or((Action::NoAction, Action::NoAction));
        let column = ForeignKey {
            name,
            columns: vec![row.try_get("column_name")?],
            parent: TableName { schema: Some(row.try_get("parent_schema")?), name: row.try_get("parent")? },
            parent_columns: vec![row.try_get("parent_column")?],
            on_delete,
            on_update,
            deferred: false,
        };
        add_foreign_key(table, column);
        Ok(())
    }

    /// The server keeps a view's text with all names in full, and shows it to those who have the privilege SHOW VIEW.
    fn view(&mut self, row: &MySqlRow, dialect: Dialect) -> Result<(), sqlx::Error> {
        if let Some((view, _)) = self.by_name.get_mut(row.try_get::<&str, _>("table_name")?) {
            view.beneath = relations(row.try_get("definition")?, dialect);
        }
        Ok(())
    }

    fn trigger(&mut self, row: &MySqlRow) -> Result<(), sqlx::Error> {
        if let Some((table, _)) = self.by_name.get_mut(row.try_get::<&str, _>("table_name")?) {
            table.triggers.push(row.try_get("name")?);
        }
        Ok(())
    }
}

/// Text is equal bytewise only by a binary collation that does not pad: most `_bin` collations compare as if the shorter
/// value ended in blanks, so that `'a'` and `'a '` are one row with two spellings. `char(n)` drops its trailing blanks.
fn bytewise(type_name: &str, collation: Option<&str>) -> bool {
    match collation {
        None => !["float", "double", "json"].into_iter().any(|inexact| type_name.starts_with(inexact)),
        Some(name) => {
            !type_name.starts_with("char")
                && (name == "binary" || name == "utf8mb4_0900_bin" || name.ends_with("_nopad_bin"))
        }
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

// `convert(.. using utf8mb4)`: some columns of information_schema are sent as bytes, which are no text to sqlx.

/// Databases that have foreign keys to these, and are none of them. MariaDB would open every table there is to fill
/// `key_column_usage`; what InnoDB keeps by itself is at hand. (`/*!50700` is read by MySQL only, `/*M!` by MariaDB.)
const CHILDREN: &str = "
select distinct convert(child using utf8mb4) from (
    /*!50700 select table_schema as child, referenced_table_schema as parent from information_schema.key_column_usage */
    /*M! select substring_index(for_name, '/', 1) as child, substring_index(ref_name, '/', 1) as parent
         from information_schema.innodb_sys_foreign */
) as links
where parent in (database()) and child not in (database()) order by 1";

/// MySQL shows a trigger to those who have the privilege TRIGGER, MariaDB (10.11) to all who may use the table. What an
/// active role grants is not looked into.
const SERVER: &str = r"
select version() as version, convert(@@lower_case_table_names using utf8mb4) as folding,
       convert(database() using utf8mb4) as name,
       convert(coalesce(current_role(), 'NONE') <> 'NONE'
           or exists (select 1 from information_schema.user_privileges
                      where privilege_type = 'TRIGGER' and grantee = me.grantee)
           or exists (select 1 from information_schema.schema_privileges
                      where privilege_type = 'TRIGGER' and grantee = me.grantee and database() like table_schema)
           or exists (select 1 from information_schema.table_privileges
                      where privilege_type = 'TRIGGER' and grantee = me.grantee and table_schema = database())
           using utf8mb4) as sees_triggers
from (select concat('''', substring_index(current_user(), '@', 1), '''@''',
                    substring_index(current_user(), '@', -1), '''') as grantee) as me";

const TABLES: &str = "
select convert(table_name using utf8mb4) as name, convert(table_type using utf8mb4) as kind,
       convert(engine using utf8mb4) as engine, coalesce(convert(create_options using utf8mb4), '') as options
from information_schema.tables where table_schema = database()";

const COLUMNS: &str = "
select convert(table_name using utf8mb4) as table_name, convert(column_name using utf8mb4) as name,
       convert(column_type using utf8mb4) as type, convert(is_nullable using utf8mb4) as nullable,
       convert(extra using utf8mb4) as extra, convert(collation_name using utf8mb4) as collation,
       coalesce(convert(column_default using utf8mb4), '') as value
from information_schema.columns where table_schema = database() order by table_name, ordinal_position";

/// An index on the first characters of a column finds no whole key. MySQL has indexes on expressions; a comment with a
/// version from 50700 to 99999 is read by MySQL only.
const UNIQUE_KEYS: &str = "
select convert(table_name using utf8mb4) as table_name, convert(index_name using utf8mb4) as name,
       convert(coalesce(column_name /*!80013 , expression */, '') using utf8mb4) as column_name,
       convert(sub_part is not null or column_name is null using utf8mb4) as `partial`
from information_schema.statistics where table_schema = database() and non_unique = 0
order by table_name, index_name <> 'PRIMARY', index_name, seq_in_index";

const FOREIGN_KEYS: &str = "
select convert(table_name using utf8mb4) as table_name, convert(constraint_name using utf8mb4) as name,
       convert(column_name using utf8mb4) as column_name, convert(referenced_table_schema using utf8mb4) as parent_schema,
       convert(referenced_table_name using utf8mb4) as parent,
       convert(referenced_column_name using utf8mb4) as parent_column
from information_schema.key_column_usage where table_schema = database() and referenced_table_name is not null
order by table_name, constraint_name, ordinal_position";

const RULES: &str = "
select convert(table_name using utf8mb4) as table_name, convert(constraint_name using utf8mb4) as name,
       convert(delete_rule using utf8mb4) as on_delete, convert(update_rule using utf8mb4) as on_update
from information_schema.referential_constraints where constraint_schema = database()";

const TRIGGERS: &str = "
select convert(event_object_table using utf8mb4) as table_name, convert(trigger_name using utf8mb4) as name
from information_schema.triggers where event_object_schema = database() order by trigger_name";

const VIEWS: &str = "
select convert(table_name using utf8mb4) as table_name,
       coalesce(convert(view_definition using utf8mb4), '') as definition
from information_schema.views where table_schema = database()";

/// A sum over each view: half of the time of sending all rows. (`create_time` alone misses triggers and instant changes.)
const FINGERPRINT: &str = "
select convert(concat_ws(' ', database(), version(),
    (select concat(count(*), ' ', coalesce(sum(crc32(concat_ws('|', table_name, table_type, engine, create_options))), 0))
     from information_schema.tables where table_schema = database()),
    (select sum(crc32(concat_ws('|', table_name, ordinal_position, column_name, column_type, is_nullable, extra,
                                collation_name, column_default)))
     from information_schema.columns where table_schema = database()),
    (select sum(crc32(concat_ws('|', table_name, index_name, seq_in_index, column_name, sub_part)))
     from information_schema.statistics where table_schema = database() and non_unique = 0),
    (select sum(crc32(concat_ws('|', table_name, constraint_name, column_name, referenced_table_schema,
                                referenced_table_name, referenced_column_name)))
     from information_schema.key_column_usage where table_schema = database() and referenced_table_name is not null),
    (select sum(crc32(concat_ws('|', table_name, constraint_name, delete_rule, update_rule)))
     from information_schema.referential_constraints where constraint_schema = database()),
    (select sum(crc32(concat_ws('|', table_name, view_definition)))
     from information_schema.views where table_schema = database()),
    (select sum(crc32(concat_ws('|', event_object_table, trigger_name, event_manipulation)))
     from information_schema.triggers where event_object_schema = database())
) using utf8mb4)";
