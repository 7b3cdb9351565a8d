//! `MERGE` (PostgreSQL 15 and later): rows of the target that match are updated or deleted, for the others rows are made.

use sqlparser::ast::{Expr, Merge, MergeAction, MergeClauseKind, MergeInsertKind, MergeUpdateKind};

use crate::{
    Cause, Rows, Strength, Verb,
    analyze::Analysis,
    condition,
    insert::{Given, NewRows, given},
    name,
    query::value_of,
    rows::rows,
    scope::{Condition, Level, Source, Test},
    update::{assigned, update_strength},
};

impl<'s> Analysis<'s> {
    pub(crate) fn merge(&mut self, merge: &Merge) {
        self.verb(Verb::Write);
        let mut level = Level::new(self.dialect);
        self.add_factor(&mut level, &merge.table, &[]);
        self.add_factor(&mut level, &merge.source, &[]);
        // Rows of the source that do not match do not meet it.
        level.conditions.push(Condition { test: Test::Expr(&merge.on), only: Some(0..1) });
        self.subqueries(&merge.on);
        self.subqueries(&merge.clauses);
        let Source::Table(name, table) = &level.relations[0].source else { return };
        let (name, table) = (name.clone(), *table);
        if self.is_view(table) {
            return;
        }
        let alternatives = condition::alternatives(&level, Some(0), &self.outputs);
        let matched = rows(&level, 0, &alternatives);
        for clause in &merge.clauses {
            // A row that no source row matches can be any.
            let found = match clause.clause_kind {
                MergeClauseKind::NotMatchedBySource => Rows::Unknown,
                _ => matched.clone(),
            };
            match &clause.action {
                MergeAction::Delete { .. } => {
                    self.lock(&name, Strength::Update, found.clone(), Cause::Delete);
                    if let Some(table) = table {
                        self.children_of(table, &found, None);
                    }
                }
                MergeAction::Update(update) => {
                    let MergeUpdateKind::Set(assignments) = &update.kind else { continue };
                    let assigned = assigned(table, assignments, self.dialect);
                    self.lock(&name, update_strength(table, &assigned), found.clone(), Cause::Update);
                    if let Some(table) = table {
                        self.parents_of_update(table, &assigned);
                        self.children_of(table, &found, Some(&assigned));
                    }
                }
                MergeAction::Insert(insert) => {
                    let MergeInsertKind::Values(values) = &insert.kind else { continue };
                    let mut columns: Vec<String> = insert
                        .columns
                        .iter()
                        .filter_map(|c| name::parts(c, self.dialect).pop())
                        .map(|c| name::column(table, &c, self.dialect))
                        .collect();
                    if columns.is_empty() {
                        columns = table.map(|t| t.columns.iter().map(|c| c.name.clone()).collect()).unwrap_or_default();
                    }
                    let new =
                        self.merged_rows(&level, columns, values.rows.first().map_or(&[], |r| r.content.as_slice()));
                    self.insert_rows(&name, table, &new);
                    if let Some(table) = table {
                        self.parents_of_insert(table, &new);
                    }
                }
                MergeAction::DoNothing { .. } => {}
            }
        }
        self.fires(table);
    }

    /// The rows that `INSERT VALUES (..)` makes of the source's.
    fn merged_rows(&self, level: &Level<'s, '_>, columns: Vec<String>, values: &[Expr]) -> NewRows {
        let of_source = condition::alternatives(level, None, &self.outputs);
        let row = |alternative| {
            values
                .iter()
                .map(|expr| match given(expr, self.dialect) {
                    Given::Default => Some(Given::Default),
                    Given::Value(_) => value_of(expr, level, alternative).map(Given::Value),
                })
                .collect()
        };
        NewRows { columns, rows: of_source.iter().map(row).collect() }
    }
}
