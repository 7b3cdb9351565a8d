//! What one query level can see: its relations, and the conditions that their rows meet.
//!
//! A level is the `FROM` of one `SELECT`, or the tables of one `UPDATE`, `DELETE` or `MERGE`. An outer join's `ON` says
//! something only of the rows of its nullable side; a [`Condition`] says of which relations it holds.

use std::ops::Range;

use sqlparser::ast::{Expr, Ident};

use crate::{Dialect, Table, TableName, Value, name};

/// A relation's column: its place in [`Level::relations`], and its name as stored.
pub(crate) type ColumnRef = (usize, String);

pub(crate) struct Level<'s, 'q> {
    pub(crate) relations: Vec<Relation<'s>>,
    pub(crate) conditions: Vec<Condition<'q>>,
    pub(crate) dialect: Dialect,
    /// `STRAIGHT_JOIN` holds the tables to the order in which they are written.
    pub(crate) straight: bool,
}

pub(crate) struct Relation<'s> {
    /// The name that the statement's other parts know it by.
    pub(crate) alias: String,
    pub(crate) source: Source<'s>,
}

pub(crate) enum Source<'s> {
    /// A table by its name, with what the schema has of it.
    Table(TableName, Option<&'s Table>),
    /// A subquery, a CTE, a function.
    Rows(Output),
}

/// What is known of the rows that a subquery gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    pub(crate) columns: Vec<String>,
    /// All columns are known, in their order.
    pub(crate) complete: bool,
    /// Every row of the subquery agrees with one of these; `None`: any value. Where all are `Some`, there is at most one
    /// row for each.
    pub(crate) rows: Vec<Vec<Option<Value>>>,
}

impl Output {
    /// Rows of which nothing is known.
    pub(crate) fn unknown() -> Output {
        Output { columns: Vec::new(), complete: false, rows: vec![Vec::new()] }
    }

    /// `AS k(a, b)`.
    pub(crate) fn rename(mut self, names: Vec<String>) -> Output {
        for (at, name) in names.into_iter().enumerate() {
            match self.columns.get_mut(at) {
                Some(column) if self.complete => *column = name,
                _ => return Output::unknown(),
            }
        }
        self
    }

    pub(crate) fn position(&self, column: &str, dialect: Dialect) -> Option<usize> {
        self.columns.iter().position(|c| name::same(c, column, dialect))
    }
}

pub(crate) struct Condition<'q> {
    pub(crate) test: Test<'q>,
    /// The relations of whose rows it holds; `None`: all.
    pub(crate) only: Option<Range<usize>>,
}

impl Condition<'_> {
    pub(crate) fn holds_for(&self, relation: Option<usize>) -> bool {
        match (&self.only, relation) {
            (None, _) => true,
            (Some(only), Some(relation)) => only.contains(&relation),
            (Some(_), None) => false,
        }
    }
}

pub(crate) enum Test<'q> {
    Expr(&'q Expr),
    /// What `USING` says.
    Equal(ColumnRef, ColumnRef),
}

impl<'s, 'q> Level<'s, 'q> {
    pub(crate) fn new(dialect: Dialect) -> Level<'s, 'q> {
        Level { relations: Vec::new(), conditions: Vec::new(), dialect, straight: false }
    }

    pub(crate) fn require(&mut self, expr: Option<&'q Expr>) {
        self.conditions.extend(expr.map(|e| Condition { test: Test::Expr(e), only: None }));
    }

    pub(crate) fn table(&self, relation: usize) -> Option<&'s Table> {
        match self.relations.get(relation)?.source {
            Source::Table(_, table) => table,
            Source::Rows(_) => None,
        }
    }

    /// The relation of that name.
    pub(crate) fn relation(&self, alias: &str) -> Option<usize> {
        self.relations.iter().position(|r| name::same(&r.alias, alias, self.dialect))
    }

    /// The column that an expression is, if it is one and of this level.
    pub(crate) fn column(&self, expr: &Expr) -> Option<ColumnRef> {
        match expr {
            Expr::Nested(inner) => self.column(inner),
            Expr::Identifier(ident) => self.resolve(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(idents) => self.resolve(idents),
            _ => None,
        }
    }

    pub(crate) fn resolve(&self, idents: &[Ident]) -> Option<ColumnRef> {
        let (last, before) = idents.split_last()?;
        let written = name::fold(last, self.dialect);
        let relation = match before.last() {
            Some(qualifier) => self.relation(&name::fold(qualifier, self.dialect))?,
            None => self.owner(&written)?,
        };
        Some((relation, self.stored(relation, &written)))
    }

    /// The relation that an unqualified column belongs to: the first that has it, else the only one that may.
    fn owner(&self, column: &str) -> Option<usize> {
        let mut possible = None;
        let mut several = false;
        for (at, relation) in self.relations.iter().enumerate() {
            let (has, may) = match &relation.source {
                Source::Table(_, Some(table)) => (
                    table.columns.iter().any(|c| name::same(&c.name, column, self.dialect))
                        || row_id(table, column, self.dialect).is_some(),
                    table.columns.is_empty(),
                ),
                Source::Table(_, None) => (false, true),
                Source::Rows(output) => (output.position(column, self.dialect).is_some(), !output.complete),
            };
            if has {
                return Some(at);
            }
            if may {
                several = possible.is_some();
                possible = possible.or(Some(at));
            }
        }
        if several { None } else { possible }
    }

    fn stored(&self, relation: usize, written: &str) -> String {
        let table = self.table(relation);
        if let Some(key) = table.and_then(|t| row_id(t, written, self.dialect)) {
            return key.to_owned();
        }
        name::column(table, written, self.dialect)
    }
}

/// SQLite's `rowid`, which is the integer primary key.
fn row_id<'t>(table: &'t Table, written: &str, dialect: Dialect) -> Option<&'t str> {
    let is_alias = dialect == Dialect::Sqlite
        && ["rowid", "_rowid_", "oid"].iter().any(|a| a.eq_ignore_ascii_case(written))
        && !table.columns.iter().any(|c| c.name.eq_ignore_ascii_case(written));
    match table.primary_key.as_slice() {
        [key] if is_alias && table.column(key).is_some_and(|c| c.generated) => Some(key),
        _ => None,
    }
}
