//! `ALTER TABLE`: what it adds to a table of the schema, and what it takes away.

use sqlparser::{
    ast::{AlterColumnOperation, AlterTableOperation, Ident, RenameTableNameKind, Statement},
    tokenizer::TokenWithSpan,
};

use super::{Definition, table::makes_a_key};
use crate::{
    Table, Unreadable,
    name::{self, fold},
    text::is_word,
};

impl Definition<'_> {
    pub(super) fn alter_table(&mut self, tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        // Most of what pg_dump alters (owners, defaults, clusters) says nothing of locks, and not all of it can be read.
        const TELLING: [&str; 9] =
            ["add", "drop", "rename", "identity", "generated", "nextval", "security", "partition", "auto_increment"];
        let telling = |token: &TokenWithSpan| TELLING.iter().any(|word| is_word(Some(token), word));
        if !tokens.iter().any(telling) {
            return Ok(());
        }
        if let Some(at) = tokens.iter().position(|token| is_word(Some(token), "attach")) {
            let name = self.name_at(&tokens, at + 2);
            if let Some(table) = self.table(&name) {
                self.schema.insert(Table { partitioned: true, ..table });
            }
            return Ok(());
        }
        let Statement::AlterTable(alter) = self.parse(tokens)? else { return Ok(()) };
        let Some(mut table) = self.table(&name::table_name(&alter.name, self.dialect)) else { return Ok(()) };
        for operation in &alter.operations {
            self.alter(&mut table, operation);
        }
        self.schema.insert(table);
        Ok(())
    }

    fn alter(&mut self, table: &mut Table, operation: &AlterTableOperation) {
        use AlterTableOperation as Operation;
        let folded = |ident: &Ident| fold(ident, self.dialect);
        match operation {
            Operation::AddConstraint { constraint, .. } => self.constraint(table, constraint),
            Operation::AddColumn { column_def, .. } => self.column(table, column_def),
            Operation::DropPrimaryKey { .. } => {
                let key = std::mem::take(&mut table.primary_key);
                table.unique_keys.retain(|unique| unique.columns != key);
            }
            Operation::DropForeignKey { name, .. } => {
                let name = folded(name);
                table.foreign_keys.retain(|key| key.name != name);
            }
            Operation::DropConstraint { name, .. } => {
                let name = folded(name);
                table.foreign_keys.retain(|key| key.name != name);
                let gone = table.unique_keys.iter().find(|key| key.name == name).map(|key| key.columns.clone());
                table.unique_keys.retain(|key| key.name != name);
                if gone.as_ref() == Some(&table.primary_key) {
                    table.primary_key.clear();
                }
            }
            Operation::DropColumn { column_names, .. } => {
                let gone: Vec<String> = column_names.iter().map(folded).collect();
                let stays = |columns: &[String]| !columns.iter().any(|column| gone.contains(column));
                table.columns.retain(|column| !gone.contains(&column.name));
                table.unique_keys.retain(|key| stays(&key.columns));
                table.foreign_keys.retain(|key| stays(&key.columns));
                if !stays(&table.primary_key) {
                    table.primary_key.clear();
                }
            }
            Operation::RenameTable { table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name) } => {
                let mut name = name::table_name(name, self.dialect);
                name.schema = name.schema.or_else(|| table.name.schema.clone());
                self.schema.remove(&table.name);
                table.name = name;
            }
            Operation::AlterColumn { column_name, op } => {
                let name = folded(column_name);
                let generated = match op {
                    AlterColumnOperation::AddGenerated { .. } => true,
                    AlterColumnOperation::SetDefault { value } => makes_a_key(value),
                    _ => false,
                };
                let column = table.columns.iter_mut().find(|column| column.name == name);
                if let (Some(column), true) = (column, generated) {
                    column.generated = true;
                }
            }
            Operation::EnableRowLevelSecurity => table.row_security = true,
            Operation::DisableRowLevelSecurity => table.row_security = false,
            _ => {}
        }
    }
}
