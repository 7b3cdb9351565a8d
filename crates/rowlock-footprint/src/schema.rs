//! What the model must know of a database. Plain values: a live server or a dump fills them, tests write them down.

use std::{collections::HashMap, fmt};

/// A table's name as the server stores it: unquoted names of a statement are folded as the dialect folds them before
/// they are looked up.
///
/// ```
/// use rowlock_footprint::TableName;
///
/// let name = TableName::parse("public.orders");
/// assert_eq!((name.schema.as_deref(), name.name.as_str()), (Some("public"), "orders"));
/// assert_eq!(name.to_string(), "public.orders");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The schema (PostgreSQL), database (MySQL, MariaDB) or attached database (SQLite); `None`: found by the search path.
    pub schema: Option<String>,
    /// The table.
    pub name: String,
}

impl TableName {
    /// Reads `"table"` or `"schema.table"`.
    pub fn parse(text: &str) -> TableName {
        match text.split_once('.') {
            Some((schema, name)) => TableName { schema: Some(schema.into()), name: name.into() },
            None => TableName { schema: None, name: text.into() },
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.name)
    }
}

/// What the lock model must know of a database: keys, unique keys, foreign keys, and what runs behind a statement's back.
///
/// Read from a live server by the library and from a dump by the command. An empty schema is a valid one: then every
/// statement is read without it, and what it cannot know is [`Rows::Unknown`](crate::Rows::Unknown).
///
/// ```
/// use rowlock_footprint::{Schema, Table, TableName};
///
/// let mut schema = Schema::default();
/// schema.search_path = vec!["public".into()];
/// schema.insert(Table::new(TableName::parse("public.orders")));
/// assert!(schema.table(&TableName::parse("orders")).is_some());
/// assert!(schema.table(&TableName::parse("archive.orders")).is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    tables: HashMap<TableName, Table>,
    /// Where a name without a schema is looked for, first match first. (PostgreSQL's `search_path`; one entry elsewhere.)
    pub search_path: Vec<String>,
}

impl Schema {
    /// Adds a table, under its full name. A second table of that name replaces the first.
    pub fn insert(&mut self, table: Table) {
        self.tables.insert(table.name.clone(), table);
    }

    /// Takes a table away, by its full name.
    pub fn remove(&mut self, name: &TableName) -> Option<Table> {
        self.tables.remove(name)
    }

    /// The table of that name: as written when it has a schema, else the first along the search path.
    pub fn table(&self, name: &TableName) -> Option<&Table> {
        if let Some(table) = self.tables.get(name) {
            return Some(table);
        }
        if name.schema.is_some() {
            return None;
        }
        self.search_path
            .iter()
            .find_map(|schema| self.tables.get(&TableName { schema: Some(schema.clone()), name: name.name.clone() }))
    }

    /// The tables that the rows of a view stand in, through other views too.
    pub fn base_tables<'s>(&'s self, view: &'s Table) -> Vec<&'s TableName> {
        let mut seen: Vec<&TableName> = Vec::new();
        let mut next: Vec<&TableName> = view.beneath.iter().collect();
        while let Some(name) = next.pop() {
            if !seen.contains(&name) {
                seen.push(name);
                next.extend(self.tables.get(name).iter().flat_map(|table| &table.beneath));
            }
        }
        seen.retain(|name| self.tables.get(*name).is_some_and(|table| !table.view));
        seen
    }

    /// All tables, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// The foreign keys of other tables (and of itself) that point at `parent`, with the table that has them.
    pub fn children<'s>(&'s self, parent: &'s TableName) -> impl Iterator<Item = (&'s Table, &'s ForeignKey)> {
        self.tables
            .values()
            .flat_map(|table| table.foreign_keys.iter().map(move |key| (table, key)))
            .filter(move |(_, key)| key.parent == *parent)
    }
}

/// One table.
///
/// ```
/// use rowlock_footprint::{Column, Dialect, Schema, Strength, Table, TableName, UniqueKey, analyze};
///
/// let mut users = Table::new(TableName::parse("users"));
/// users.primary_key = vec!["id".into()];
/// users.unique_keys.push(UniqueKey { name: "users_email_key".into(), columns: vec!["email".into()], partial: false });
/// let mut schema = Schema::default();
/// schema.insert(users);
///
/// // A column that a foreign key could point at needs the strongest lock.
/// let strength = |sql| analyze(sql, Dialect::Postgres, &schema).map(|f| f.locks[0].strength);
/// assert_eq!(strength("UPDATE users SET name = 'x' WHERE id = 1")?, Strength::NoKeyUpdate);
/// assert_eq!(strength("UPDATE users SET email = 'x' WHERE id = 1")?, Strength::Update);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its full name.
    pub name: TableName,
    /// In their order in the table.
    pub columns: Vec<Column>,
    /// The columns of the primary key, in its order; empty when there is none.
    pub primary_key: Vec<String>,
    /// Unique constraints and unique indexes, the primary key included.
    pub unique_keys: Vec<UniqueKey>,
    /// The foreign keys of which this table is the child.
    pub foreign_keys: Vec<ForeignKey>,
    /// Names of triggers that run on INSERT, UPDATE or DELETE of this table (not those that the engine makes for foreign keys).
    pub triggers: Vec<String>,
    /// Names of rewrite rules (PostgreSQL).
    pub rules: Vec<String>,
    /// Row security is on for the session that read the schema: rows may be missing without an error.
    pub row_security: bool,
    /// It is partitioned, a partition, or has inheritance children.
    pub partitioned: bool,
    /// It is a view, a foreign table, or anything that is not a base table.
    pub view: bool,
    /// For a view: the tables and views that its rows come from, as far as its definition could be read.
    pub beneath: Vec<TableName>,
}

impl Table {
    /// A table with nothing but its name.
    pub fn new(name: TableName) -> Table {
        Table {
            name,
            columns: Vec::new(),
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            rules: Vec::new(),
            row_security: false,
            partitioned: false,
            view: false,
            beneath: Vec::new(),
        }
    }

    /// The column of that name, as the server stores it.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }
}

/// One column.
///
/// ```
/// use rowlock_footprint::{Column, Dialect, Rows, Schema, Table, TableName, analyze};
///
/// let column = |name: &str, generated| Column {
///     name: name.into(), type_name: "bigint".into(), nullable: false, generated, collation: None, bytewise: true,
/// };
/// let mut events = Table::new(TableName::parse("events"));
/// events.columns = vec![column("id", true), column("kind", false)];
/// events.primary_key = vec!["id".into()];
/// let mut schema = Schema::default();
/// schema.insert(events);
///
/// // Nobody else can have the key that the server makes, so nobody is waited for.
/// let footprint = analyze("INSERT INTO events (kind) VALUES (1)", Dialect::Postgres, &schema)?;
/// assert_eq!(footprint.locks[0].rows, Rows::Fresh);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name as stored.
    pub name: String,
    /// The type as the server names it, in lower case: `bigint`, `int unsigned`, `character(3)`, `uuid`, `varbinary(16)`.
    pub type_name: String,
    /// May hold NULL.
    pub nullable: bool,
    /// The server makes a value that no other transaction has when an INSERT does not name the column
    /// (serial, identity, AUTO_INCREMENT, SQLite's rowid alias).
    pub generated: bool,
    /// The collation, when the type has one and it is known: `C`, `utf8mb4_bin`, `BINARY`.
    pub collation: Option<String>,
    /// Equality is bytewise: two values are equal exactly if their bytes are. False for case-insensitive and
    /// nondeterministic collations, `citext`, `char(n)`, and PAD SPACE collations.
    pub bytewise: bool,
}

/// A unique constraint or a unique index.
///
/// ```
/// use rowlock_footprint::{Dialect, Schema, Table, TableName, UniqueKey, analyze};
///
/// let mut users = Table::new(TableName::parse("users"));
/// users.unique_keys.push(UniqueKey { name: "users_email_key".into(), columns: vec!["email".into()], partial: false });
/// let mut schema = Schema::default();
/// schema.insert(users);
/// let footprint = analyze("DELETE FROM users WHERE email = $1", Dialect::Postgres, &schema)?;
/// assert_eq!(footprint.locks[0].rows.to_string(), "email = $1");
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// The index's name: `PRIMARY`, `orders_pkey`.
    pub name: String,
    /// Its columns in index order; an expression stands as its text.
    pub columns: Vec<String>,
    /// It covers only some rows (a `WHERE` clause, an expression), so it does not make rows unique by these columns.
    pub partial: bool,
}

/// A foreign key, seen from its child.
///
/// ```
/// use rowlock_footprint::{Action, Dialect, ForeignKey, Schema, Table, TableName, analyze};
///
/// let mut lines = Table::new(TableName::parse("order_lines"));
/// lines.foreign_keys.push(ForeignKey {
///     name: "lines_order".into(), columns: vec!["order_id".into()], parent: TableName::parse("orders"),
///     parent_columns: vec!["id".into()], on_delete: Action::Cascade, on_update: Action::NoAction, deferred: false,
/// });
/// let mut schema = Schema::default();
/// schema.insert(Table::new(TableName::parse("orders")));
/// schema.insert(lines);
/// let footprint = analyze("DELETE FROM orders WHERE id = $1", Dialect::Postgres, &schema)?;
/// assert_eq!(footprint.locks[1].to_string(), "order_lines: update, some rows, cascade of lines_order");
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The constraint's name.
    pub name: String,
    /// Columns of the child.
    pub columns: Vec<String>,
    /// The parent's full name.
    pub parent: TableName,
    /// Columns of the parent, in the order of `columns`.
    pub parent_columns: Vec<String>,
    /// What a DELETE of the parent does to the children.
    pub on_delete: Action,
    /// What a change of the parent's key does to the children.
    pub on_update: Action,
    /// It is checked at COMMIT, not by the statement.
    pub deferred: bool,
}

/// What happens to the children when a parent goes or changes its key.
///
/// ```
/// use rowlock_footprint::{Action, Dialect, ForeignKey, Schema, Table, TableName, analyze};
///
/// let mut lines = Table::new(TableName::parse("order_lines"));
/// lines.foreign_keys.push(ForeignKey {
///     name: "lines_order".into(), columns: vec!["order_id".into()], parent: TableName::parse("orders"),
///     parent_columns: vec!["id".into()], on_delete: Action::Restrict, on_update: Action::SetNull, deferred: false,
/// });
/// let mut schema = Schema::default();
/// schema.insert(Table::new(TableName::parse("orders")));
/// schema.insert(lines);
/// let of_children = |sql| analyze(sql, Dialect::Postgres, &schema).map(|f| f.locks[1].to_string());
/// assert_eq!(of_children("DELETE FROM orders")?, "order_lines: key share, some rows, foreign key lines_order");
/// assert_eq!(of_children("UPDATE orders SET id = 5")?, "order_lines: no key update, some rows, cascade of lines_order");
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An error, by the statement or later.
    NoAction,
    /// An error at once.
    Restrict,
    /// They go, or change, too: their rows are locked.
    Cascade,
    /// Their columns become NULL: their rows are locked.
    SetNull,
    /// Their columns get their default: their rows are locked.
    SetDefault,
}
