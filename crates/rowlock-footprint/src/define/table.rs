//! `CREATE TABLE` and `CREATE UNIQUE INDEX`: columns, keys, foreign keys.

use sqlparser::{
    ast::{
        ColumnDef, ColumnOption, ConstraintCharacteristics, CreateIndex, CreateTable, CreateTableLikeKind,
        DeferrableInitial, Expr, ForeignKeyConstraint, Ident, IndexColumn, PrimaryKeyConstraint, ReferentialAction,
        Statement, TableConstraint,
    },
    tokenizer::{Token, TokenWithSpan},
};

use super::Definition;
use crate::{
    Action, Column, Dialect, ForeignKey, Table, UniqueKey, Unreadable,
    name::{self, fold},
    text::{are_words, is_word},
};

impl Definition<'_> {
    pub(super) fn create_table(&mut self, mut tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        let partitions = ["partition", "inherits"];
        let whole_partition = tokens.iter().position(|token| is_word(Some(token), "partition"));
        if let Some(at) = whole_partition.filter(|at| is_word(tokens.get(at + 1), "of")) {
            let name = self.name_at(&tokens, self.after_table(&tokens));
            let parent = self.name_at(&tokens, at + 2);
            let like = self.table(&parent).unwrap_or_else(|| Table::new(parent));
            self.schema.insert(Table { name, partitioned: true, ..like });
            return Ok(());
        }
        // The columns; options follow their parenthesis.
        let open = tokens.iter().position(|token| token.token == Token::LParen).unwrap_or(tokens.len());
        let mut depth = 0_usize;
        let close = tokens.iter().enumerate().skip(open).find_map(|(at, token)| {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            (depth == 0).then_some(at)
        });
        let columns_come_first = !tokens.iter().take(open).any(|token| is_word(Some(token), "as"));
        let mut partitioned = false;
        if let (Some(close), true) = (close, columns_come_first) {
            let options = tokens.split_off(close + 1);
            partitioned = options.iter().any(|token| partitions.iter().any(|word| is_word(Some(token), word)));
        }
        let Statement::CreateTable(create) = self.parse(tokens)? else { return Ok(()) };
        let table = self.new_table(&create);
        self.schema.insert(Table { partitioned: partitioned || table.partitioned, ..table });
        Ok(())
    }

    fn after_table(&self, tokens: &[TokenWithSpan]) -> usize {
        let at = tokens.iter().position(|token| is_word(Some(token), "table")).unwrap_or_default() + 1;
        if are_words(tokens, at, &["if", "not", "exists"]) { at + 3 } else { at }
    }

    fn new_table(&self, create: &CreateTable) -> Table {
        let name = self.full(name::table_name(&create.name, self.dialect));
        let like = create.like.as_ref().map(|like| match like {
            CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like) => {
                name::table_name(&like.name, self.dialect)
            }
        });
        let mut table = match like.and_then(|like| self.table(&like)) {
            Some(like) => Table { name, foreign_keys: Vec::new(), triggers: Vec::new(), ..like },
            None => Table::new(name),
        };
        for definition in &create.columns {
            self.column(&mut table, definition);
        }
        for constraint in &create.constraints {
            self.constraint(&mut table, constraint);
        }
        table
    }

    pub(super) fn column(&self, table: &mut Table, definition: &ColumnDef) {
        let name = fold(&definition.name, self.dialect);
        let type_name = definition.data_type.to_string().to_ascii_lowercase();
        let mut column = Column {
            name: name.clone(),
            nullable: true,
            generated: self.dialect == Dialect::Postgres && type_name.contains("serial"),
            collation: None,
            bytewise: true,
            type_name,
        };
        let mut constraints = Vec::new();
        for option in &definition.options {
            match &option.option {
                ColumnOption::NotNull => column.nullable = false,
                ColumnOption::Default(value) => column.generated |= makes_a_key(value),
                ColumnOption::Generated { generation_expr: None, .. } | ColumnOption::Identity(_) => {
                    column.generated = true;
                }
                ColumnOption::DialectSpecific(tokens) => {
                    let text = tokens.iter().map(ToString::to_string).collect::<String>().to_ascii_lowercase();
                    column.generated |= text.contains("auto_increment") || text.contains("autoincrement");
                }
                ColumnOption::Collation(name) => {
                    column.collation = name::parts(name, self.dialect).pop();
                }
                ColumnOption::PrimaryKey(_) => {
                    column.nullable = false;
                    let rowid = self.dialect == Dialect::Sqlite && column.type_name == "integer";
                    column.generated |= rowid;
                    constraints.push(TableConstraint::PrimaryKey(PrimaryKeyConstraint {
                        name: option.name.clone(),
                        index_name: None,
                        index_type: None,
                        columns: vec![definition.name.clone().into()],
                        include: Vec::new(),
                        index_options: Vec::new(),
                        characteristics: None,
                    }));
                }
                ColumnOption::Unique(unique) => {
                    let mut unique = unique.clone();
                    unique.name = unique.name.or_else(|| option.name.clone());
                    unique.columns = vec![definition.name.clone().into()];
                    constraints.push(TableConstraint::Unique(unique));
                }
                ColumnOption::ForeignKey(key) => {
                    let mut key = key.clone();
                    key.name = key.name.or_else(|| option.name.clone());
                    key.columns = vec![definition.name.clone()];
                    constraints.push(TableConstraint::ForeignKey(key));
                }
                _ => {}
            }
        }
        column.bytewise = bytewise(&column, self.dialect);
        match table.columns.iter_mut().find(|old| old.name == name) {
            Some(old) => *old = column,
            None => table.columns.push(column),
        }
        for constraint in &constraints {
            self.constraint(table, constraint);
        }
    }

    pub(super) fn constraint(&self, table: &mut Table, constraint: &TableConstraint) {
        let short = table.name.name.clone();
        let named = |name: &Option<Ident>| name.as_ref().map(|name| fold(name, self.dialect));
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let (columns, _) = self.index_columns(table, &key.columns);
                for column in table.columns.iter_mut().filter(|column| columns.contains(&column.name)) {
                    column.nullable = false;
                    let rowid = self.dialect == Dialect::Sqlite && column.type_name == "integer" && columns.len() == 1;
                    column.generated |= rowid;
                }
                let name = match self.dialect {
                    Dialect::Postgres => named(&key.name).unwrap_or_else(|| format!("{short}_pkey")),
                    _ => "PRIMARY".to_owned(),
                };
                table.primary_key.clone_from(&columns);
                table.unique_keys.push(UniqueKey { name, columns, partial: false });
            }
            TableConstraint::Unique(key) => {
                let (columns, partial) = self.index_columns(table, &key.columns);
                let name = named(&key.name).or_else(|| named(&key.index_name));
                let name = name.unwrap_or_else(|| match self.dialect {
                    Dialect::Postgres => format!("{short}_{}_key", columns.join("_")),
                    _ => columns.first().cloned().unwrap_or_default(),
                });
                table.unique_keys.push(UniqueKey { name, columns, partial });
            }
            TableConstraint::ForeignKey(key) => {
                let key = self.foreign_key(table, key);
                table.foreign_keys.push(key);
            }
            TableConstraint::PrimaryKeyUsingIndex(using) | TableConstraint::UniqueUsingIndex(using) => {
                let index = fold(&using.index_name, self.dialect);
                let columns = table.unique_keys.iter().find(|key| key.name == index).map(|key| key.columns.clone());
                if let (TableConstraint::PrimaryKeyUsingIndex(_), Some(columns)) = (constraint, columns) {
                    table.primary_key = columns;
                }
            }
            _ => {}
        }
    }

    fn foreign_key(&self, table: &Table, key: &ForeignKeyConstraint) -> ForeignKey {
        let columns: Vec<String> = key.columns.iter().map(|column| fold(column, self.dialect)).collect();
        let parent = self.full(name::table_name(&key.foreign_table, self.dialect));
        let known = self.table(&parent);
        let mut parent_columns: Vec<String> =
            key.referred_columns.iter().map(|column| fold(column, self.dialect)).collect();
        if parent_columns.is_empty() {
            let own = parent == table.name;
            let of = known.as_ref().or_else(|| own.then_some(table));
            parent_columns = of.map(|parent| parent.primary_key.clone()).unwrap_or_default();
        }
        let name = key.name.as_ref().map(|name| fold(name, self.dialect)).unwrap_or_else(|| match self.dialect {
            Dialect::Postgres => format!("{}_{}_fkey", table.name.name, columns.join("_")),
            _ => format!("{}_ibfk_{}", table.name.name, table.foreign_keys.len() + 1),
        });
        ForeignKey {
            name,
            columns,
            parent: known.map_or(parent, |known| known.name),
            parent_columns,
            on_delete: action(key.on_delete),
            on_update: action(key.on_update),
            deferred: deferred(key.characteristics.as_ref()),
        }
    }

    /// The columns of an index; `true` when one of them is an expression, so that they do not make rows unique.
    fn index_columns(&self, table: &Table, columns: &[IndexColumn]) -> (Vec<String>, bool) {
        let mut partial = false;
        let names = columns.iter().map(|column| match &column.column.expr {
            Expr::Identifier(ident) => name::column(Some(table), &fold(ident, self.dialect), self.dialect),
            // A prefix of MySQL's: `name(10)`.
            other => {
                partial = true;
                other.to_string()
            }
        });
        let names = names.collect();
        (names, partial)
    }

    pub(super) fn unique_index(&mut self, index: &CreateIndex) {
        let Some(mut table) = self.table(&name::table_name(&index.table_name, self.dialect)) else { return };
        let (columns, expressions) = self.index_columns(&table, &index.columns);
        let name = index.name.as_ref().and_then(|name| name::parts(name, self.dialect).pop());
        let partial = expressions || index.predicate.is_some();
        table.unique_keys.push(UniqueKey { name: name.unwrap_or_default(), columns, partial });
        self.schema.insert(table);
    }
}

/// A default that gives each row a value of its own.
pub(super) fn makes_a_key(value: &Expr) -> bool {
    const MAKERS: [&str; 9] = [
        "nextval(",
        "gen_random_uuid(",
        "uuidv4(",
        "uuidv7(",
        "uuid_generate_v1(",
        "uuid_generate_v4(",
        "uuid(",
        "uuid_v7(",
        "uuid_to_bin(uuid(",
    ];
    let text = value.to_string().to_ascii_lowercase();
    let text = text.trim_start_matches('(');
    let text = text.rsplit_once('.').filter(|(schema, _)| !schema.contains('(')).map_or(text, |(_, name)| name);
    MAKERS.iter().any(|maker| text.starts_with(maker))
}

/// Whether equality is that of the bytes, as far as a definition tells: a text column without a collation has the database's,
/// which on MySQL and MariaDB ignores case.
fn bytewise(column: &Column, dialect: Dialect) -> bool {
    let type_name = column.type_name.as_str();
    let is = |types: &[&str]| types.iter().any(|name| type_name.starts_with(name));
    let collation = column.collation.as_deref();
    match dialect {
        Dialect::Postgres => {
            !is(&["citext", "char(", "character(", "bpchar", "numeric", "decimal", "real", "float", "double", "json"])
        }
        Dialect::Sqlite => collation.is_none_or(|name| name.eq_ignore_ascii_case("binary")),
        Dialect::MySql | Dialect::MariaDb => {
            if is(&["char", "varchar", "text", "tinytext", "mediumtext", "longtext", "enum", "set"]) {
                let binary =
                    |name: &str| name == "binary" || name == "utf8mb4_0900_bin" || name.ends_with("_nopad_bin");
                !type_name.starts_with("char") && collation.is_some_and(binary)
            } else {
                !is(&["float", "double", "json"])
            }
        }
    }
}

fn action(action: Option<ReferentialAction>) -> Action {
    match action {
        None | Some(ReferentialAction::NoAction) => Action::NoAction,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::SetNull,
        Some(ReferentialAction::SetDefault) => Action::SetDefault,
    }
}

fn deferred(characteristics: Option<&ConstraintCharacteristics>) -> bool {
    characteristics.is_some_and(|c| c.initially == Some(DeferrableInitial::Deferred))
}
