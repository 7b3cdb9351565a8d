//! From DDL to a [`Schema`]: what a dump or a migration says of keys, foreign keys and triggers.
//!
//! Tables are read by the parser, their options left out (no option changes what is locked, and each server has its own);
//! what hangs on a table under another name (triggers, rules, views) by its first words.

mod alter;
mod table;

use sqlparser::{
    ast::Statement,
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};

use crate::{
    Dialect, Schema, Table, TableName, Unreadable, name,
    text::{Text, are_words, grammar, is_word},
};

/// Deepest that definitions may nest, as for statements.
const MAX_DEPTH: usize = 64;

/// Adds to `schema` what `sql` defines: tables, columns, keys, foreign keys, unique indexes, triggers, rules and views; takes
/// away what it drops. Statements that define none of these change nothing.
///
/// On PostgreSQL a name without a schema goes to the first of [`Schema::search_path`].
///
/// # Errors
///
/// [`Unreadable`] when a definition cannot be read: what stood before it in `sql` has been added, what follows has not.
///
/// # Examples
///
/// ```
/// use rowlock_footprint::{Dialect, Schema, TableName, define};
///
/// let mut schema = Schema::default();
/// let sql = "create table orders (id bigint primary key);
///            create table order_lines (id serial primary key, order_id bigint references orders on delete cascade)";
/// define(sql, Dialect::Postgres, &mut schema)?;
/// let lines = schema.table(&TableName::parse("order_lines")).expect("it was defined");
/// assert_eq!(lines.primary_key, ["id"]);
/// assert!(lines.columns[0].generated);
/// assert_eq!(lines.foreign_keys[0].parent_columns, ["id"]);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
pub fn define(sql: &str, dialect: Dialect, schema: &mut Schema) -> Result<(), Unreadable> {
    let text = Text::read(sql, dialect)?;
    let mut definition = Definition { dialect, schema };
    for (tokens, nesting) in text.statements {
        nesting.with_stack(|| definition.statement(tokens))?;
    }
    Ok(())
}

struct Definition<'s> {
    dialect: Dialect,
    schema: &'s mut Schema,
}

impl Definition<'_> {
    fn statement(&mut self, tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        let create = is_word(tokens.first(), "create");
        let has = |word: &str, within: usize| tokens.iter().take(within).position(|token| is_word(Some(token), word));
        match () {
            () if create && has("trigger", 8).is_some() => self.attached(&tokens, "trigger", "on"),
            () if create && has("rule", 4).is_some() => self.attached(&tokens, "rule", "to"),
            () if create && has("view", 10).is_some() && has("as", tokens.len()).is_some() => {
                let name = self.name_at(&tokens, has("view", 10).unwrap_or_default() + 1);
                self.schema.insert(Table { view: true, ..Table::new(name) });
            }
            () if create && has("table", 5).is_some() => return self.create_table(tokens),
            () if create && has("unique", 3).is_some() => {
                if let Statement::CreateIndex(index) = self.parse(tokens)? {
                    self.unique_index(&index);
                }
            }
            () if are_words(&tokens, 0, &["alter", "table"]) => return self.alter_table(tokens),
            () if are_words(&tokens, 0, &["drop", "table"]) => self.drop_tables(&tokens),
            () => {}
        }
        Ok(())
    }

    fn parse(&self, tokens: Vec<TokenWithSpan>) -> Result<Statement, Unreadable> {
        let parser = Parser::new(grammar(self.dialect)).with_recursion_limit(MAX_DEPTH);
        let statement = parser.with_tokens_with_locations(without_sequences(tokens)).parse_statement();
        statement.map_err(|error| Unreadable { reason: error.to_string() })
    }

    /// A trigger or rule: its name behind `kind`, its table behind the next `before`.
    fn attached(&mut self, tokens: &[TokenWithSpan], kind: &str, before: &str) {
        let Some(at) = tokens.iter().position(|token| is_word(Some(token), kind)) else { return };
        let at = if are_words(tokens, at + 1, &["if", "not", "exists"]) { at + 4 } else { at + 1 };
        let name = self.name_at(tokens, at).name;
        let rest = tokens.iter().enumerate().skip(at);
        // `UPDATE OF on_hand ON stock`, `AS ON INSERT TO stock`: a rule's table stands behind TO.
        let Some(place) = rest.filter(|(_, token)| is_word(Some(token), before)).map(|(at, _)| at).next() else {
            return;
        };
        let table = self.name_at(tokens, place + 1);
        if let Some(mut table) = self.table(&table) {
            let list = if kind == "rule" { &mut table.rules } else { &mut table.triggers };
            list.push(name);
            self.schema.insert(table);
        }
    }

    fn drop_tables(&mut self, tokens: &[TokenWithSpan]) {
        let mut at = if are_words(tokens, 2, &["if", "exists"]) { 4 } else { 2 };
        while at < tokens.len() {
            let name = self.name_at(tokens, at);
            if let Some(table) = self.table(&name) {
                self.schema.remove(&table.name);
            }
            let comma = tokens.iter().enumerate().skip(at).find(|(_, token)| token.token == Token::Comma);
            at = comma.map_or(tokens.len(), |(at, _)| at + 1);
        }
    }

    fn name_at(&self, tokens: &[TokenWithSpan], at: usize) -> TableName {
        self.full(name::written(tokens, at, self.dialect).0)
    }

    /// A name with the schema that it gets when it is written without one.
    fn full(&self, name: TableName) -> TableName {
        match self.dialect {
            Dialect::Postgres if name.schema.is_none() => {
                TableName { schema: self.schema.search_path.first().cloned(), ..name }
            }
            _ => name,
        }
    }

    fn table(&self, name: &TableName) -> Option<Table> {
        name::find(self.schema, name, self.dialect).cloned()
    }
}

/// Leaves out what stands in parentheses behind IDENTITY: pg_dump writes there what the parser does not know.
fn without_sequences(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut depth = 0_usize;
    for token in tokens {
        match token.token {
            Token::LParen if depth > 0 || is_word(kept.last(), "identity") => depth += 1,
            Token::RParen if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            _ => kept.push(token),
        }
    }
    kept
}
