//! `FROM`: the relations of a level, its joins and what they say, subqueries and arrays.

use sqlparser::ast::{Expr, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor, TableWithJoins};

use crate::{
    TableName, Value,
    analyze::{Analysis, MAX_RELATIONS},
    locking::Clause,
    name,
    query::{alias_columns, argument, combined},
    scope::{Condition, Level, Output, Relation, Source, Test},
    value,
};

impl<'s> Analysis<'s> {
    /// Adds a `FROM` item with its joins to the level.
    pub(crate) fn add_joined<'q>(&mut self, level: &mut Level<'s, 'q>, table: &'q TableWithJoins, clauses: &[Clause]) {
        let first = level.relations.len();
        self.add_factor(level, &table.relation, clauses);
        for join in &table.joins {
            let middle = level.relations.len();
            self.add_factor(level, &join.relation, clauses);
            self.add_join(level, join, first, middle);
        }
    }

    fn add_join<'q>(&mut self, level: &mut Level<'s, 'q>, join: &'q Join, first: usize, middle: usize) {
        use JoinOperator as J;
        level.straight |= matches!(join.join_operator, J::StraightJoin(_));
        let end = level.relations.len();
        let (constraint, only) = match &join.join_operator {
            J::Join(c) | J::Inner(c) | J::CrossJoin(c) | J::StraightJoin(c) => (c, None),
            J::Left(c) | J::LeftOuter(c) => (c, Some(middle..end)),
            J::Right(c) | J::RightOuter(c) => (c, Some(first..middle)),
            // Either side may be absent; of other joins nothing is known.
            J::FullOuter(c)
            | J::Semi(c)
            | J::LeftSemi(c)
            | J::RightSemi(c)
            | J::Anti(c)
            | J::LeftAnti(c)
            | J::RightAnti(c) => (c, Some(0..0)),
            _ => return,
        };
        match constraint {
            JoinConstraint::On(expr) => {
                self.subqueries(expr);
                level.conditions.push(Condition { test: Test::Expr(expr), only });
            }
            JoinConstraint::Using(columns) | JoinConstraint::UsingAlias(columns, _) => {
                for column in columns.iter().filter_map(|c| name::parts(c, self.dialect).pop()) {
                    let right = (middle, name::column(level.table(middle), &column, self.dialect));
                    for left in first..middle {
                        let has = match &level.relations[left].source {
                            Source::Table(_, Some(t)) => {
                                t.columns.iter().any(|c| name::same(&c.name, &column, self.dialect))
                            }
                            Source::Table(_, None) => middle - first == 1,
                            Source::Rows(output) => output.position(&column, self.dialect).is_some(),
                        };
                        if has {
                            let left = (left, name::column(level.table(left), &column, self.dialect));
                            let test = Test::Equal(left, right.clone());
                            level.conditions.push(Condition { test, only: only.clone() });
                        }
                    }
                }
            }
            JoinConstraint::Natural | JoinConstraint::None => {}
        }
    }

    pub(crate) fn add_factor<'q>(&mut self, level: &mut Level<'s, 'q>, factor: &'q TableFactor, clauses: &[Clause]) {
        if level.relations.len() >= MAX_RELATIONS {
            self.too_many = Some("tables");
            return;
        }
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => self.add_table(level, name, alias.as_ref()),
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                self.subqueries(&args.args);
                let known = args.args.iter().map(argument).collect::<Option<Vec<_>>>();
                let is_unnest = name.to_string().eq_ignore_ascii_case("unnest");
                let arrays = known.filter(|_| is_unnest).unwrap_or_default();
                self.add_arrays(level, &arrays, *with_ordinality, alias.as_ref());
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                self.subqueries(array_exprs);
                self.add_arrays(level, &array_exprs.iter().collect::<Vec<_>>(), *with_ordinality, alias.as_ref());
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let alias_name = alias.as_ref().map(|a| name::fold(&a.name, self.dialect)).unwrap_or_default();
                // PostgreSQL: "If a locking clause is applied to a view or sub-query, it affects all tables used in the
                // view or sub-query." InnoDB: only the clause's own level.
                let inside = match combined(clauses, &alias_name, self.dialect) {
                    Some((strength, wait)) if !self.dialect.is_innodb() => {
                        vec![Clause { strength, wait, of: Vec::new() }]
                    }
                    _ => Vec::new(),
                };
                let mut output = self.query(subquery, &inside);
                if let Some(alias) = alias {
                    output = output.rename(alias_columns(alias, self.dialect));
                }
                level.relations.push(Relation { alias: alias_name, source: Source::Rows(output) });
            }
            TableFactor::NestedJoin { table_with_joins, .. } => self.add_joined(level, table_with_joins, clauses),
            TableFactor::Function { args, alias, .. } => {
                self.subqueries(args);
                self.add_arrays(level, &[], false, alias.as_ref());
            }
            other => {
                self.subqueries(other);
                self.add_arrays(level, &[], false, None);
            }
        }
    }

    pub(crate) fn add_table(&mut self, level: &mut Level<'s, '_>, written: &ObjectName, alias: Option<&TableAlias>) {
        let written = name::table_name(written, self.dialect);
        let alias_name = alias.map_or_else(|| written.name.clone(), |a| name::fold(&a.name, self.dialect));
        let source = match self.cte(&written) {
            Some(output) => {
                let columns = alias.map(|a| alias_columns(a, self.dialect)).unwrap_or_default();
                Source::Rows(output.clone().rename(columns))
            }
            None => {
                let (name, table) = self.find(written);
                Source::Table(name, table)
            }
        };
        level.relations.push(Relation { alias: alias_name, source });
    }

    fn cte(&self, name: &TableName) -> Option<&Output> {
        if name.schema.is_some() {
            return None;
        }
        self.ctes.iter().rev().find(|c| name::same(&c.name, &name.name, self.dialect)).map(|c| &c.output)
    }

    /// The rows of `unnest(..)`; of any other function nothing is known, which no arrays stand for.
    fn add_arrays(&mut self, level: &mut Level<'s, '_>, arrays: &[&Expr], numbered: bool, alias: Option<&TableAlias>) {
        let alias_name = alias.map(|a| name::fold(&a.name, self.dialect)).unwrap_or_default();
        let values: Option<Vec<Vec<Value>>> = arrays.iter().map(|a| value::elements(a, self.dialect)).collect();
        let output = match values {
            Some(values) if !values.is_empty() => {
                let length = values.iter().map(Vec::len).max().unwrap_or(0);
                let even = values.iter().all(|v| v.len() == length);
                let row = |at: usize| values.iter().map(|v| v.get(at).cloned().filter(|_| even)).collect();
                let mut columns = alias.map(|a| alias_columns(a, self.dialect)).unwrap_or_default();
                // PostgreSQL names the column of a function that gives one by the function's alias.
                if columns.is_empty() && values.len() == 1 && !alias_name.is_empty() {
                    columns.push(alias_name.clone());
                }
                columns.extend((columns.len()..values.len()).map(|_| "unnest".to_owned()));
                if numbered && columns.len() == values.len() {
                    columns.push("ordinality".into());
                }
                let mut rows: Vec<Vec<Option<Value>>> = (0..length).map(row).collect();
                rows.iter_mut().for_each(|r| r.resize(columns.len(), None));
                Output { columns, complete: true, rows }
            }
            _ => Output::unknown(),
        };
        level.relations.push(Relation { alias: alias_name, source: Source::Rows(output) });
    }
}
