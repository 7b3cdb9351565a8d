//! `SELECT`: its levels, its CTEs, its locking clauses, and what it gives to the query around it.

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Join, JoinConstraint, JoinOperator, ObjectName, Query,
    Select, SelectItem, SetExpr, SetOperator, TableAlias, TableFactor, TableWithJoins,
};

use crate::{
    Cause, Dialect, Strength, TableName, Value, Verb, Wait,
    analyze::Analysis,
    condition::{self, Alternative, get},
    locking::{self, Clause},
    name,
    rows::rows,
    scope::{Condition, Level, Output, Relation, Source, Test},
    value,
};

/// A common table expression that can be seen.
pub(crate) struct Cte {
    name: String,
    output: Output,
}

impl<'s> Analysis<'s> {
    /// Goes through a query on which the locking clauses `from_outside` lie as well as its own.
    pub(crate) fn query(&mut self, query: &Query, from_outside: &[Clause]) -> Output {
        let seen = self.ctes.len();
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                let name = name::fold(&cte.alias.name, self.dialect);
                if with.recursive {
                    self.ctes.push(Cte { name: name.clone(), output: Output::unknown() });
                }
                // A locking clause does not reach into a CTE: PostgreSQL, SELECT, "The Locking Clause".
                let output = self.query(&cte.query, &[]).rename(alias_columns(&cte.alias, self.dialect));
                if with.recursive {
                    self.ctes.pop();
                }
                // A recursive one gives more rows than its first part.
                let output = if with.recursive { Output::unknown() } else { output };
                self.ctes.push(Cte { name, output });
            }
        }
        let mut clauses = from_outside.to_vec();
        for lock in &query.locks {
            let mark = lock.of.as_ref().and_then(|of| name::parts(of, self.dialect).pop());
            clauses.extend(mark.and_then(|mark| locking::marked(&self.clauses, &mark)).cloned());
        }
        let output = self.body(&query.body, &clauses);
        self.subqueries(&query.order_by);
        self.subqueries(&query.limit_clause);
        self.ctes.truncate(seen);
        output
    }

    fn body(&mut self, body: &SetExpr, clauses: &[Clause]) -> Output {
        // A chain of UNION leans to the left: go down it without recursion.
        let mut right_sides = Vec::new();
        let mut leftmost = body;
        while let SetExpr::SetOperation { left, op, right, .. } = leftmost {
            right_sides.push((op, right));
            leftmost = left;
        }
        let mut output = self.operand(leftmost, clauses);
        for (operator, right) in right_sides.into_iter().rev() {
            let right = self.operand(right, clauses);
            // EXCEPT and INTERSECT give rows of their left side only.
            if *operator == SetOperator::Union {
                output = union(output, right);
            }
        }
        output
    }

    fn operand(&mut self, body: &SetExpr, clauses: &[Clause]) -> Output {
        match body {
            SetExpr::Select(select) => self.select(select, clauses),
            SetExpr::Query(query) => self.query(query, clauses),
            SetExpr::SetOperation { .. } => self.body(body, clauses),
            SetExpr::Values(values) => {
                self.subqueries(values);
                let value = |expr: &Expr| Some(value::constant(expr, self.dialect).unwrap_or(Value::Unknown));
                let rows: Vec<Vec<_>> = values.rows.iter().map(|row| row.content.iter().map(value).collect()).collect();
                let width = rows.first().map_or(0, Vec::len);
                if rows.iter().any(|r| r.len() != width) {
                    return Output::unknown();
                }
                let columns = (0..width).map(|i| values_column(i, self.dialect)).collect();
                Output { columns, complete: true, rows }
            }
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement)
            | SetExpr::Merge(statement) => {
                // The parser makes nothing else of these.
                self.statement(statement).unwrap_or_else(|_| Output::unknown())
            }
            SetExpr::Table(table) => {
                let parts = table.schema_name.iter().chain(&table.table_name).cloned().collect::<Vec<_>>();
                let mut level = Level::new(self.dialect);
                self.add_table(&mut level, &ObjectName::from(parts), None);
                self.lock_level(&level, clauses);
                Output::unknown()
            }
        }
    }

    fn select(&mut self, select: &Select, clauses: &[Clause]) -> Output {
        let mut level = Level::new(self.dialect);
        for table in &select.from {
            self.add_joined(&mut level, table, clauses);
        }
        level.require(select.selection.as_ref());
        self.subqueries(&select.projection);
        self.subqueries(&select.selection);
        self.subqueries(&select.group_by);
        self.subqueries(&select.having);
        self.subqueries(&select.distinct);
        self.lock_level(&level, clauses);
        if select.into.is_some() && !self.dialect.is_innodb() {
            // It makes a table.
            self.verb(Verb::TableLock);
        }
        self.output(&level, select)
    }

    /// The locks that the clauses put on the tables of one level; and those of reading, where reading locks.
    fn lock_level(&mut self, level: &Level<'s, '_>, clauses: &[Clause]) {
        for (at, relation) in level.relations.iter().enumerate() {
            let Source::Table(name, table) = &relation.source else { continue };
            let of = combined(clauses, &relation.alias, self.dialect);
            let (strength, wait, cause) = match of {
                Some((strength, wait)) => (strength, wait, Cause::LockingClause),
                None if self.shares_reads => (Strength::Share, Wait::Wait, Cause::Read),
                None => continue,
            };
            if self.is_view(*table) {
                continue;
            }
            let alternatives = condition::alternatives(level, Some(at), &self.outputs);
            self.lock_waiting(name, strength, rows(level, at, &alternatives), cause, wait);
        }
    }

    /// What the query around this one can know of its rows.
    fn output(&self, level: &Level<'s, '_>, select: &Select) -> Output {
        let alternatives = condition::alternatives(level, None, &self.outputs);
        let mut output = Output { columns: Vec::new(), complete: true, rows: vec![Vec::new(); alternatives.len()] };
        for item in &select.projection {
            let (expr, alias) = match item {
                SelectItem::UnnamedExpr(expr) => (expr, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(name::fold(alias, self.dialect))),
                _ => return Output::unknown(),
            };
            let unnested = unnested(expr, self.dialect);
            for (alternative, row) in alternatives.iter().zip(&mut output.rows) {
                row.push(unnested.clone().or_else(|| value_of(expr, level, alternative)));
            }
            output.columns.push(alias.unwrap_or_else(|| natural_name(expr, self.dialect)));
        }
        output
    }

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
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => self.add_table(level, name, alias.as_ref()),
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                self.subqueries(&args.args);
                let known = args.args.iter().map(argument).collect::<Option<Vec<_>>>();
                let is_unnest = name.to_string().eq_ignore_ascii_case("unnest");
                let arrays = known.filter(|_| is_unnest).unwrap_or_default();
                self.add_arrays(level, &arrays, alias.as_ref());
            }
            TableFactor::UNNEST { alias, array_exprs, .. } => {
                self.subqueries(array_exprs);
                self.add_arrays(level, &array_exprs.iter().collect::<Vec<_>>(), alias.as_ref());
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
                self.add_arrays(level, &[], alias.as_ref());
            }
            other => {
                self.subqueries(other);
                self.add_arrays(level, &[], None);
            }
        }
    }

    fn add_table(&mut self, level: &mut Level<'s, '_>, written: &ObjectName, alias: Option<&TableAlias>) {
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
    fn add_arrays(&mut self, level: &mut Level<'s, '_>, arrays: &[&Expr], alias: Option<&TableAlias>) {
        let alias_name = alias.map(|a| name::fold(&a.name, self.dialect)).unwrap_or_default();
        let values: Option<Vec<Vec<Value>>> = arrays.iter().map(|a| value::elements(a, self.dialect)).collect();
        let output = match values {
            Some(values) if !values.is_empty() => {
                let length = values.iter().map(Vec::len).max().unwrap_or(0);
                let even = values.iter().all(|v| v.len() == length);
                let row = |at: usize| values.iter().map(|v| v.get(at).cloned().filter(|_| even)).collect();
                let mut columns = alias.map(|a| alias_columns(a, self.dialect)).unwrap_or_default();
                // PostgreSQL names the column of a function that gives one by the function's alias.
                if columns.is_empty() && values.len() == 1 {
                    columns
                        .push(Some(&alias_name).filter(|a| !a.is_empty()).cloned().unwrap_or_else(|| "unnest".into()));
                }
                let mut rows: Vec<Vec<Option<Value>>> = (0..length).map(row).collect();
                // WITH ORDINALITY adds a column of which nothing need be known.
                rows.iter_mut().for_each(|r| r.resize(columns.len(), None));
                Output { columns, complete: true, rows }
            }
            _ => Output::unknown(),
        };
        level.relations.push(Relation { alias: alias_name, source: Source::Rows(output) });
    }
}

/// The strongest strength and the strictest wait that the clauses put on the relation of that name.
fn combined(clauses: &[Clause], alias: &str, dialect: Dialect) -> Option<(Strength, Wait)> {
    // PostgreSQL: the strongest, and NOWAIT before SKIP LOCKED before waiting.
    let rank = |wait: Wait| match wait {
        Wait::Wait => 0,
        Wait::SkipLocked => 1,
        Wait::NoWait => 2,
    };
    clauses
        .iter()
        .filter(|c| c.of.is_empty() || c.of.iter().any(|of| name::same(of, alias, dialect)))
        .map(|c| (c.strength, c.wait))
        .reduce(|a, b| (a.0.max(b.0), if rank(b.1) > rank(a.1) { b.1 } else { a.1 }))
}

/// The value of a result's column or of an inserted expression in the rows that agree with `alternative`.
/// `None`: any, and perhaps several.
pub(crate) fn value_of(expr: &Expr, level: &Level<'_, '_>, alternative: &Alternative) -> Option<Value> {
    if let Some(value) = value::constant(expr, level.dialect) {
        return Some(value);
    }
    match level.column(expr) {
        Some(column) => get(alternative, &column).cloned(),
        // Without a FROM there is one row, whatever the expression.
        None if level.relations.is_empty() => Some(Value::Unknown),
        None => None,
    }
}

/// `unnest($1)` as a column of the result.
fn unnested(expr: &Expr, dialect: Dialect) -> Option<Value> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [only] if function.name.to_string().eq_ignore_ascii_case("unnest") => {
            match value::elements(argument(only)?, dialect)?.as_slice() {
                [array @ Value::ParameterArray(_)] => Some(array.clone()),
                _ => None,
            }
        }
        _ => None,
    }
}

fn argument(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn union(mut left: Output, right: Output) -> Output {
    if !left.complete || !right.complete || left.columns.len() != right.columns.len() {
        return Output::unknown();
    }
    left.rows.extend(right.rows);
    left
}

fn alias_columns(alias: &TableAlias, dialect: Dialect) -> Vec<String> {
    alias.columns.iter().map(|c| name::fold(&c.name, dialect)).collect()
}

/// What a result's column is called without an alias; a name that cannot be written when it has none.
fn natural_name(expr: &Expr, dialect: Dialect) -> String {
    match expr {
        Expr::Identifier(ident) => name::fold(ident, dialect),
        Expr::CompoundIdentifier(idents) => idents.last().map(|i| name::fold(i, dialect)).unwrap_or_default(),
        Expr::Function(function) => name::parts(&function.name, dialect).pop().unwrap_or_default(),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => natural_name(inner, dialect),
        _ => String::new(),
    }
}

fn values_column(at: usize, dialect: Dialect) -> String {
    if dialect.is_innodb() { format!("column_{at}") } else { format!("column{}", at + 1) }
}
