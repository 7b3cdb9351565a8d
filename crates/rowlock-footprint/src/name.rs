//! Names: how each dialect folds and compares them, and how a written name finds its table.

use sqlparser::{
    ast::{Ident, ObjectName, ObjectNamePart},
    tokenizer::{Token, TokenWithSpan},
};

use crate::{Dialect, Schema, Table, TableName};

/// An identifier as the server stores it. Only PostgreSQL folds (ASCII letters, as in its UTF-8 databases).
pub(crate) fn fold(ident: &Ident, dialect: Dialect) -> String {
    fold_word(&ident.value, ident.quote_style, dialect)
}

pub(crate) fn fold_word(value: &str, quote: Option<char>, dialect: Dialect) -> String {
    if dialect == Dialect::Postgres && quote.is_none() { value.to_ascii_lowercase() } else { value.to_owned() }
}

/// Whether two names of columns or aliases are one. MySQL, MariaDB and SQLite ignore case in columns; aliases that
/// differ only in case are taken for one there, too, which no sensible statement has.
pub(crate) fn same(a: &str, b: &str, dialect: Dialect) -> bool {
    if dialect == Dialect::Postgres { a == b } else { a.eq_ignore_ascii_case(b) }
}

/// The parts of a dotted name, folded.
pub(crate) fn parts(name: &ObjectName, dialect: Dialect) -> Vec<String> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => fold(ident, dialect),
            ObjectNamePart::Function(function) => function.name.value.clone(),
        })
        .collect()
}

/// A table's name as written: its last two parts (PostgreSQL lets one write the database, too).
pub(crate) fn table_name(name: &ObjectName, dialect: Dialect) -> TableName {
    let mut parts = parts(name, dialect);
    let name = parts.pop().unwrap_or_default();
    TableName { schema: parts.pop(), name }
}

/// The dotted name that begins at `at`, its last two parts, and where it ends.
pub(crate) fn written(tokens: &[TokenWithSpan], mut at: usize, dialect: Dialect) -> (TableName, usize) {
    let mut name = TableName { schema: None, name: String::new() };
    while let Some(Token::Word(word)) = tokens.get(at).map(|t| &t.token) {
        let part = fold_word(&word.value, word.quote_style, dialect);
        let before = std::mem::replace(&mut name.name, part);
        name.schema = Some(before).filter(|s| !s.is_empty());
        at += 1;
        if tokens.get(at).map(|t| &t.token) != Some(&Token::Period) {
            break;
        }
        at += 1;
    }
    (name, at)
}

/// The table of the schema that a written name means.
///
/// Where the server may ignore case (SQLite always, MySQL by its setting), a name that is not found as written is looked
/// for without regard to case.
pub(crate) fn find<'s>(schema: &'s Schema, name: &TableName, dialect: Dialect) -> Option<&'s Table> {
    if let Some(table) = schema.table(name) {
        return Some(table);
    }
    if dialect == Dialect::Postgres {
        return None;
    }
    schema
        .tables()
        .filter(|t| t.name.name.eq_ignore_ascii_case(&name.name))
        .filter(|t| match (&name.schema, &t.name.schema) {
            (Some(written), Some(stored)) => written.eq_ignore_ascii_case(stored),
            // A dump of one database does not say which.
            (Some(_), None) if dialect.is_innodb() => schema.search_path.is_empty(),
            (Some(written), None) => dialect == Dialect::Sqlite && written.eq_ignore_ascii_case("main"),
            (None, Some(stored)) => schema.search_path.iter().any(|s| s.eq_ignore_ascii_case(stored)),
            (None, None) => true,
        })
        .min_by(|a, b| a.name.cmp(&b.name))
}

/// The column as the table stores it, or, of a table that is not known, as it is best written.
pub(crate) fn column(table: Option<&Table>, written: &str, dialect: Dialect) -> String {
    if let Some(stored) = table.and_then(|t| t.columns.iter().find(|c| same(&c.name, written, dialect))) {
        return stored.name.clone();
    }
    if dialect == Dialect::Postgres { written.to_owned() } else { written.to_ascii_lowercase() }
}
