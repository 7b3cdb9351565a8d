//! Whether a column can hold a declared key: a value that needs a conversion scans the table, or finds another row.

use rowlock_footprint::{Action, Column, ForeignKey, Table, TableName};

use super::target::{charset, full_name, quote};
use crate::{
    Catalog, Dialect, KeyType,
    catalog::sqlite::{Affinity, affinity},
};

/// What is wrong with the column, and the way out.
pub(super) fn fit(catalog: &Catalog, table: &Table, column: &Column, key: KeyType) -> Result<(), (String, String)> {
    let wide = key == KeyType::Unsigned;
    let key = if wide { KeyType::Integer } else { key };
    match catalog.dialect {
        Dialect::Postgres => postgres(table, column, key),
        Dialect::MySql | Dialect::MariaDb => mysql(catalog, table, column, key, wide),
        Dialect::Sqlite => sqlite(table, column, key),
    }
}

/// What to write instead, for those whose column is right and whose declaration is not.
fn declare(key: Option<KeyType>) -> &'static str {
    match key {
        Some(KeyType::Integer | KeyType::Unsigned) => ", or declare the key as an integer (`i64`)",
        Some(KeyType::Uuid) => ", or declare the key as `Uuid`",
        Some(KeyType::Text) => ", or declare the key as `String`",
        Some(KeyType::Bytes) => ", or declare the key as `Vec<u8>`",
        None => "",
    }
}

/// `character varying(36)` without its length.
fn bare(type_name: &str) -> &str {
    type_name.split('(').next().unwrap_or_default().trim()
}

fn mismatch(column: &Column, key: KeyType, wanted: &str) -> String {
    format!("`{}` is `{}` and the key is declared as {key}: it needs {wanted}", column.name, column.type_name)
}

fn postgres(table: &Table, column: &Column, key: KeyType) -> Result<(), (String, String)> {
    let kind = bare(&column.type_name);
    let holds = match kind {
        "smallint" | "integer" | "bigint" => Some(KeyType::Integer),
        "uuid" => Some(KeyType::Uuid),
        "text" | "character varying" | "name" | "character" | "citext" => Some(KeyType::Text),
        "bytea" => Some(KeyType::Bytes),
        // `public.citext`, where the extension's schema is not on the search path
        other if other.ends_with(".citext") => Some(KeyType::Text),
        _ => None,
    };
    let alter = format!(
        "alter table {} alter column {} type",
        full_name(Dialect::Postgres, &table.name),
        quote(Dialect::Postgres, &column.name)
    );
    if holds != Some(key) {
        let (wanted, to) = match key {
            KeyType::Integer | KeyType::Unsigned => {
                ("smallint, integer or bigint, since a number does not find text by its index", "bigint")
            }
            KeyType::Uuid => ("uuid", "uuid"),
            KeyType::Text => ("text or varchar", "text"),
            KeyType::Bytes => ("bytea", "bytea"),
        };
        let using = format!("{alter} {to} using {}::{to}{}", quote(Dialect::Postgres, &column.name), declare(holds));
        return Err((mismatch(column, key, wanted), using));
    }
    if !column.bytewise {
        let why = match (kind, &column.collation) {
            ("character", _) => "`char(n)` is equal without regard to trailing blanks".to_owned(),
            (citext, _) if citext.ends_with("citext") => "`citext` is equal without regard to case".to_owned(),
            (_, Some(collation)) => format!("its collation `{collation}` is nondeterministic"),
            (other, None) => format!("equality of `{other}` is not that of its bytes"),
        };
        return Err((spellings(column, &why), format!("{alter} text collate \"C\"{RESOLVE}")));
    }
    Ok(())
}

/// The other way out: rows are locked by another key, and this one is only looked up.
const RESOLVE: &str = ", or lock by another key of the table, read from the row that this spelling finds";

fn spellings(column: &Column, why: &str) -> String {
    format!("`{}`: {why}, so two spellings of one key would sort to two places", column.name)
}

fn mysql(catalog: &Catalog, table: &Table, column: &Column, key: KeyType, wide: bool) -> Result<(), (String, String)> {
    let dialect = catalog.dialect;
    let change = |to: &dyn Fn(&Column) -> String| change(catalog, table, column, to);
    let kind = bare(&column.type_name).split(' ').next().unwrap_or_default();
    let holds = match kind {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Some(KeyType::Integer),
        "binary" if column.type_name == "binary(16)" && key == KeyType::Uuid => Some(KeyType::Uuid),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Some(KeyType::Bytes),
        "varchar" | "char" | "tinytext" | "text" | "mediumtext" | "longtext" => Some(KeyType::Text),
        _ => None,
    };
    if kind == "uuid" {
        let what = format!(
            "`{}` is MariaDB's `uuid`, which does not sort in the order of its bytes and is sent as text",
            column.name
        );
        return Err((what, format!("{}, with the bytes of each value", change(&|_| "binary(16)".into()))));
    }
    if holds != Some(key) {
        let (wanted, to) = match key {
            KeyType::Integer | KeyType::Unsigned => {
                ("an integer, since a number compared with text scans the table", "bigint")
            }
            KeyType::Uuid => ("binary(16)", "binary(16)"),
            KeyType::Text => ("varchar", "varchar(191) character set utf8mb4"),
            KeyType::Bytes => ("varbinary or binary", "varbinary(255)"),
        };
        return Err((mismatch(column, key, wanted), change(&|_| to.into()) + declare(holds)));
    }
    if kind == "bigint" && column.type_name.contains("unsigned") && !wide {
        let what = format!(
            "`{}` is `{}` and the key is declared as a type that ends at half of it: the first row beyond would fail",
            column.name, column.type_name
        );
        return Err((what, format!("declare the key as `u64`, or {}", change(&|_| "bigint".into()))));
    }
    if key != KeyType::Text {
        return Ok(());
    }
    let collation = column.collation.as_deref().unwrap_or_default();
    let charset = charset(collation);
    let way_out = || {
        let collate = if dialect == Dialect::MySql { "utf8mb4_0900_bin" } else { "utf8mb4_nopad_bin" };
        let altered = change(&|column| {
            let length = column.type_name.find('(').map_or("(191)", |at| &column.type_name[at..]);
            format!("varchar{length} character set utf8mb4 collate {collate}")
        });
        format!("{altered}, or varbinary with the key declared as `Vec<u8>`{RESOLVE}")
    };
    if !column.bytewise {
        let why = match kind {
            "char" => "`char(n)` drops trailing blanks".to_owned(),
            _ if collation.ends_with("_bin") => {
                format!("its collation `{collation}` pads: 'a' and 'a ' are equal")
            }
            _ => format!("its collation `{collation}` is not one of bytes"),
        };
        return Err((spellings(column, &why), way_out()));
    }
    if charset != "utf8mb4" {
        let why = format!("`{}`: a character that `{charset}` lacks becomes `?`, which is another key", column.name);
        return Err((why, way_out()));
    }
    Ok(())
}

/// The statements that give a column another type, on MySQL and MariaDB, which change no column that a foreign key ties to
/// another one (1832, 1833): the foreign keys go, all columns that are tied together change alike, and the foreign keys
/// come again.
fn change(catalog: &Catalog, table: &Table, column: &Column, to: &dyn Fn(&Column) -> String) -> String {
    let name = |table: &TableName| full_name(catalog.dialect, table);
    let quoted = |column: &String| quote(catalog.dialect, column);
    let mut tied: Vec<(&TableName, &str)> = vec![(&table.name, &column.name)];
    let mut keys: Vec<(&Table, &ForeignKey)> = Vec::new();
    let mut tables: Vec<&Table> = catalog.schema.tables().collect();
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    let mut next = 0;
    while let Some(&one) = tied.get(next) {
        next += 1;
        for (child, key) in tables.iter().flat_map(|child| child.foreign_keys.iter().map(move |key| (*child, key))) {
            for (own, parents) in key.columns.iter().zip(&key.parent_columns) {
                let ends = [(&child.name, own.as_str()), (&key.parent, parents.as_str())];
                if !ends.contains(&one) {
                    continue;
                }
                if !keys.iter().any(|(of, other)| of.name == child.name && other.name == key.name) {
                    keys.push((child, key));
                }
                tied.extend(ends.into_iter().filter(|end| *end != one && !tied.contains(end)).collect::<Vec<_>>());
            }
        }
    }
    let mut statements = Vec::new();
    for (child, key) in &keys {
        statements.push(format!("alter table {} drop foreign key {}", name(&child.name), quoted(&key.name)));
    }
    for (of, named) in tied {
        let Some(column) = catalog.schema.table(of).and_then(|table| table.column(named)) else { continue };
        let null = if column.nullable { "null" } else { "not null" };
        let to = to(column);
        // An integer's value is made by AUTO_INCREMENT alone.
        let made = if column.generated && to.contains("int") { " auto_increment" } else { "" };
        statements.push(format!("alter table {} modify {} {to} {null}{made}", name(of), quoted(&column.name)));
    }
    for (child, key) in &keys {
        let list = |columns: &[String]| columns.iter().map(quoted).collect::<Vec<_>>().join(", ");
        statements.push(format!(
            "alter table {} add constraint {} foreign key ({}) references {} ({}){}{}",
            name(&child.name),
            quoted(&key.name),
            list(&key.columns),
            name(&key.parent),
            list(&key.parent_columns),
            rule(" on delete ", key.on_delete),
            rule(" on update ", key.on_update),
        ));
    }
    statements.join("; ")
}

fn rule(when: &str, action: Action) -> String {
    let action = match action {
        Action::NoAction => return String::new(),
        Action::Restrict => "restrict",
        Action::Cascade => "cascade",
        Action::SetNull => "set null",
        Action::SetDefault => "set default",
    };
    format!("{when}{action}")
}

fn sqlite(table: &Table, column: &Column, key: KeyType) -> Result<(), (String, String)> {
    let kind = column.type_name.as_str();
    // A blob stays a blob under numeric affinity, which these names have.
    let bytes = affinity(kind) == Affinity::Blob || kind.contains("binary") || kind == "uuid";
    let holds = match affinity(kind) {
        _ if bytes && key == KeyType::Uuid => Some(KeyType::Uuid),
        _ if bytes => Some(KeyType::Bytes),
        Affinity::Integer => Some(KeyType::Integer),
        Affinity::Text => Some(KeyType::Text),
        _ => None,
    };
    let (of, named) = (quote(Dialect::Sqlite, &table.name.name), quote(Dialect::Sqlite, &column.name));
    let rebuild = format!("make {of} anew with `{named}");
    if holds != Some(key) {
        let (wanted, to) = match key {
            KeyType::Integer | KeyType::Unsigned => ("integer affinity", "integer"),
            KeyType::Uuid => ("a blob of 16 bytes", "blob"),
            KeyType::Text => ("text affinity", "text"),
            KeyType::Bytes => ("a blob", "blob"),
        };
        return Err((mismatch(column, key, wanted), format!("{rebuild} {to} not null`{}", declare(holds))));
    }
    if !column.bytewise {
        let why = format!("its collation is `{}`", column.collation.as_deref().unwrap_or("unknown"));
        return Err((spellings(column, &why), format!("{rebuild} text not null` (collation BINARY){RESOLVE}")));
    }
    Ok(())
}
