//! Whether a column can hold a declared key: a value that needs a conversion scans the table, or finds another row.

use rowlock_footprint::{Column, Table};

use super::target::{charset, full_name, quote};
use crate::{
    Catalog, Dialect, KeyType,
    catalog::sqlite::{Affinity, affinity},
};

/// What is wrong with the column, and the way out.
pub(super) fn fit(catalog: &Catalog, table: &Table, column: &Column, key: KeyType) -> Result<(), (String, String)> {
    match catalog.dialect {
        Dialect::Postgres => postgres(table, column, key),
        Dialect::MySql | Dialect::MariaDb => mysql(catalog.dialect, table, column, key),
        Dialect::Sqlite => sqlite(table, column, key),
    }
}

/// What to write instead, for those whose column is right and whose declaration is not.
fn declare(key: Option<KeyType>) -> &'static str {
    match key {
        Some(KeyType::Integer) => ", or declare the key as an integer (`i64`)",
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
            KeyType::Integer => {
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

fn mysql(dialect: Dialect, table: &Table, column: &Column, key: KeyType) -> Result<(), (String, String)> {
    let kind = bare(&column.type_name).split(' ').next().unwrap_or_default();
    let holds = match kind {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Some(KeyType::Integer),
        "binary" if column.type_name == "binary(16)" && key == KeyType::Uuid => Some(KeyType::Uuid),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Some(KeyType::Bytes),
        "varchar" | "char" | "tinytext" | "text" | "mediumtext" | "longtext" => Some(KeyType::Text),
        _ => None,
    };
    let modify = format!("alter table {} modify {}", full_name(dialect, &table.name), quote(dialect, &column.name));
    if kind == "uuid" {
        let what = format!(
            "`{}` is MariaDB's `uuid`, which does not sort in the order of its bytes and is sent as text",
            column.name
        );
        return Err((what, format!("{modify} binary(16) not null, with the bytes of each value")));
    }
    if holds != Some(key) {
        let (wanted, to) = match key {
            KeyType::Integer => ("an integer, since a number compared with text scans the table", "bigint"),
            KeyType::Uuid => ("binary(16)", "binary(16)"),
            KeyType::Text => ("varchar", "varchar(191) character set utf8mb4"),
            KeyType::Bytes => ("varbinary or binary", "varbinary(255)"),
        };
        return Err((mismatch(column, key, wanted), format!("{modify} {to} not null{}", declare(holds))));
    }
    if key != KeyType::Text {
        return Ok(());
    }
    let collation = column.collation.as_deref().unwrap_or_default();
    let charset = charset(collation);
    let way_out = |length: &str| {
        let collate = if dialect == Dialect::MySql { "utf8mb4_0900_bin" } else { "utf8mb4_nopad_bin" };
        format!(
            "{modify} varchar{length} character set utf8mb4 collate {collate} not null, or varbinary with the key declared \
             as `Vec<u8>`{RESOLVE}"
        )
    };
    let length = column.type_name.find('(').map_or("(191)", |at| &column.type_name[at..]);
    if !column.bytewise {
        let why = match kind {
            "char" => "`char(n)` drops trailing blanks".to_owned(),
            _ if collation.ends_with("_bin") => {
                format!("its collation `{collation}` pads: 'a' and 'a ' are equal")
            }
            _ => format!("its collation `{collation}` is not one of bytes"),
        };
        return Err((spellings(column, &why), way_out(length)));
    }
    if charset != "utf8mb4" {
        let why = format!("`{}`: a character that `{charset}` lacks becomes `?`, which is another key", column.name);
        return Err((why, way_out(length)));
    }
    Ok(())
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
    let rebuild = format!("make {} anew with `{}", quote(Dialect::Sqlite, &table.name.name), column.name);
    if holds != Some(key) {
        let (wanted, to) = match key {
            KeyType::Integer => ("integer affinity", "integer"),
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
