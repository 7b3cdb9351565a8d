//! `DELETE`: from one table, with `USING`, or MySQL's from several.

use sqlparser::ast::{Delete, FromTable};

use crate::{
    Cause, Strength, Verb,
    analyze::Analysis,
    condition, name,
    rows::rows,
    scope::{Level, Source},
};

impl<'s> Analysis<'s> {
    pub(crate) fn delete(&mut self, delete: &Delete) {
        self.verb(Verb::Write);
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let mut level = Level::new(self.dialect);
        let mut targets: Vec<String> = delete.tables.iter().map(|t| name::table_name(t, self.dialect).name).collect();
        match &delete.using {
            // MySQL: `DELETE FROM a, b USING a JOIN b`: FROM only names relations of USING.
            Some(using) if self.dialect.is_innodb() => {
                for table in from {
                    if let sqlparser::ast::TableFactor::Table { name, .. } = &table.relation {
                        targets.push(name::table_name(name, self.dialect).name);
                    }
                }
                for table in using {
                    self.add_joined(&mut level, table, &[]);
                }
            }
            using => {
                for table in from.iter().chain(using.iter().flatten()) {
                    self.add_joined(&mut level, table, &[]);
                }
            }
        }
        level.require(delete.selection.as_ref());
        self.subqueries(&delete.selection);
        self.subqueries(&delete.returning);
        self.subqueries(&delete.limit);

        for relation in 0..level.relations.len() {
            let is_target = match targets.is_empty() {
                true => relation == 0,
                false => targets.iter().any(|t| level.relation(t) == Some(relation)),
            };
            if is_target {
                self.delete_relation(&level, relation, Cause::Delete);
            } else {
                self.read_relation(&level, relation);
            }
        }
    }

    pub(crate) fn delete_relation(&mut self, level: &Level<'s, '_>, relation: usize, cause: Cause) {
        let Source::Table(name, table) = &level.relations[relation].source else { return };
        if self.is_view(*table) {
            return;
        }
        let alternatives = condition::alternatives(level, Some(relation), &self.outputs);
        let rows = rows(level, relation, &alternatives);
        self.lock(name, Strength::Update, rows.clone(), cause);
        self.fires(*table);
        if let Some(table) = table {
            self.children_of(table, &rows, None);
        }
    }
}
