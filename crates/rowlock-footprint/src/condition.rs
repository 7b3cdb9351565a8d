//! Conditions: which values a `WHERE` allows for the columns of a key.
//!
//! A condition is turned into a list of [`Alternative`]s: every row that meets it agrees with at least one of them.
//! `a = 1` is one alternative with one value; `IN` and `OR` make several, `AND` pairs each with each, and whatever else
//! there is says nothing, which is one alternative without values. So the result may allow too much, never too little.

use sqlparser::ast::{BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, InTarget};

use crate::{
    Dialect, Literal, Value,
    analyze::Outputs,
    function,
    scope::{ColumnRef, Level, Source, Test},
    value,
};

/// Values of some columns.
pub(crate) type Alternative = Vec<(ColumnRef, Value)>;

/// Most alternatives that `AND` may make by pairing; beyond it the right side is left out.
const MAX_PAIRS: usize = 1 << 14;

/// The alternatives for the rows of `target`; without one: for the rows of the whole join.
pub(crate) fn alternatives(level: &Level<'_, '_>, target: Option<usize>, outputs: &Outputs) -> Vec<Alternative> {
    let (equal, rest) = conjuncts(level, target);
    let solver = Solver { level, outputs, equal: &equal, all: target.is_none() };
    let mut found: Vec<Alternative> = vec![Vec::new()];
    for expr in rest {
        found = pair(found, solver.of(expr));
    }
    for (at, relation) in level.relations.iter().enumerate() {
        if let Source::Rows(output) = &relation.source
            && !output.rows.is_empty()
            && !(target.is_some_and(|target| scans_first(level, target, at)) && output.rows.len() > 1)
            && (target.is_none() || equal.iter().any(|(a, b)| a.0 == at || b.0 == at))
        {
            let rows = output.rows.iter().map(|row| {
                let known = output.columns.iter().zip(row);
                known.filter_map(|(c, v)| Some(((at, c.clone()), v.clone()?))).collect()
            });
            found = pair(found, rows.collect());
        }
    }
    for alternative in &mut found {
        spread(alternative, &equal);
    }
    found
}

/// MariaDB scans a small table and looks up its rows in the list that it is joined with, rather than the other way round;
/// what it scans it locks. `STRAIGHT_JOIN` with the list first forbids that.
fn scans_first(level: &Level<'_, '_>, table: usize, list: usize) -> bool {
    level.dialect == Dialect::MariaDb && !(level.straight && list < table)
}

/// What must hold of the rows of `target`: columns that are equal, and the rest.
fn conjuncts<'q>(level: &Level<'_, 'q>, target: Option<usize>) -> (Vec<(ColumnRef, ColumnRef)>, Vec<&'q Expr>) {
    let mut conjuncts = Vec::new();
    let mut equal: Vec<(ColumnRef, ColumnRef)> = Vec::new();
    for condition in level.conditions.iter().filter(|c| c.holds_for(target)) {
        match &condition.test {
            Test::Equal(a, b) => equal.push((a.clone(), b.clone())),
            Test::Expr(expr) => flatten(expr, &BinaryOperator::And, &mut conjuncts),
        }
    }
    let mut rest = Vec::new();
    for expr in conjuncts {
        match column_equality(level, expr) {
            Some(pair) => equal.push(pair),
            None => rest.push(expr),
        }
    }
    (equal, rest)
}

/// The pairs of columns that must be equal in the rows of `target`.
pub(crate) fn equal_columns(level: &Level<'_, '_>, target: usize) -> Vec<(ColumnRef, ColumnRef)> {
    conjuncts(level, Some(target)).0
}

/// The operands of a chain of one operator, without recursion into the chain.
fn flatten<'q>(expr: &'q Expr, operator: &BinaryOperator, into: &mut Vec<&'q Expr>) {
    let mut todo = vec![expr];
    while let Some(expr) = todo.pop() {
        match expr {
            Expr::Nested(inner) => todo.push(inner),
            Expr::BinaryOp { left, op, right } if same_operator(op, operator) => {
                todo.push(right);
                todo.push(left);
            }
            other => into.push(other),
        }
    }
}

fn same_operator(op: &BinaryOperator, wanted: &BinaryOperator) -> bool {
    // MySQL's && is AND.
    op == wanted || (*wanted == BinaryOperator::And && *op == BinaryOperator::PGOverlap)
}

fn column_equality(level: &Level<'_, '_>, expr: &Expr) -> Option<(ColumnRef, ColumnRef)> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => Some((level.column(left)?, level.column(right)?)),
        _ => None,
    }
}

/// Gives a column the value of those that equal it.
fn spread(alternative: &mut Alternative, equal: &[(ColumnRef, ColumnRef)]) {
    loop {
        let before = alternative.len();
        for (a, b) in equal {
            for (from, to) in [(a, b), (b, a)] {
                if get(alternative, to).is_none()
                    && let Some(value) = get(alternative, from).cloned()
                {
                    alternative.push((to.clone(), value));
                }
            }
        }
        if alternative.len() == before {
            return;
        }
    }
}

pub(crate) fn get<'a>(alternative: &'a Alternative, column: &ColumnRef) -> Option<&'a Value> {
    alternative.iter().find(|(c, _)| c == column).map(|(_, v)| v)
}

/// Each of `left` with each of `right`.
fn pair(left: Vec<Alternative>, right: Vec<Alternative>) -> Vec<Alternative> {
    if right.iter().any(Vec::is_empty) {
        return left;
    }
    if left.iter().any(Vec::is_empty) {
        return right;
    }
    if left.len().saturating_mul(right.len()) > MAX_PAIRS {
        // Either alone is true of all rows.
        return left;
    }
    let mut pairs = Vec::with_capacity(left.len() * right.len());
    for l in &left {
        for r in &right {
            let mut both = l.clone();
            both.extend(r.iter().filter(|(column, _)| get(l, column).is_none()).cloned());
            pairs.push(both);
        }
    }
    pairs
}

struct Solver<'a, 's, 'q> {
    level: &'a Level<'s, 'q>,
    outputs: &'a Outputs,
    equal: &'a [(ColumnRef, ColumnRef)],
    /// Every column is of interest, not only those of keys.
    all: bool,
}

impl Solver<'_, '_, '_> {
    fn dialect(&self) -> Dialect {
        self.level.dialect
    }

    fn of(&self, expr: &Expr) -> Vec<Alternative> {
        match expr {
            Expr::Nested(inner) => self.of(inner),
            Expr::BinaryOp { op, .. } if same_operator(op, &BinaryOperator::And) => {
                let mut operands = Vec::new();
                flatten(expr, &BinaryOperator::And, &mut operands);
                operands.into_iter().fold(nothing(), |found, operand| pair(found, self.of(operand)))
            }
            Expr::BinaryOp { op: BinaryOperator::Or, .. } => {
                let mut operands = Vec::new();
                flatten(expr, &BinaryOperator::Or, &mut operands);
                let mut found = Vec::new();
                for operand in operands {
                    let branch = self.of(operand);
                    if branch.iter().any(Vec::is_empty) {
                        return nothing();
                    }
                    found.extend(branch);
                }
                found
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => self.equal(left, right, false),
            Expr::BinaryOp { left, op: BinaryOperator::Spaceship, right } => self.equal(left, right, true),
            // SQLite's IS compares like =, and NULL with NULL.
            Expr::BinaryOp { left, op: BinaryOperator::Is, right } => self.equal(left, right, true),
            Expr::IsNotDistinctFrom(left, right) => self.equal(left, right, true),
            Expr::In { expr, target, negated: false, .. } => self.within(expr, target),
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => match &**right {
                Expr::Subquery(query) => self.within_query(left, query),
                array => match (self.level.column(left), value::elements(array, self.dialect())) {
                    (Some(column), Some(values)) => {
                        values.into_iter().flat_map(|v| self.bind(&column, v, false)).collect()
                    }
                    _ => nothing(),
                },
            },
            _ => nothing(),
        }
    }

    fn equal(&self, left: &Expr, right: &Expr, null_safe: bool) -> Vec<Alternative> {
        if let (Some(left), Some(right)) = (tuple(left), tuple(right)) {
            if left.len() != right.len() {
                return nothing();
            }
            return left
                .into_iter()
                .zip(right)
                .fold(nothing(), |found, (l, r)| pair(found, self.equal(l, r, null_safe)));
        }
        for (column, other) in [(left, right), (right, left)] {
            if let (Some(column), Some(value)) = (self.level.column(column), self.single(other)) {
                return self.bind(&column, value, null_safe);
            }
        }
        nothing()
    }

    fn within(&self, expr: &Expr, target: &InTarget) -> Vec<Alternative> {
        match target {
            InTarget::List(items) => items.iter().flat_map(|item| self.equal(expr, item, false)).collect(),
            InTarget::Subquery(query) => self.within_query(expr, query),
            _ => nothing(),
        }
    }

    fn within_query(&self, expr: &Expr, query: &sqlparser::ast::Query) -> Vec<Alternative> {
        let columns: Option<Vec<ColumnRef>> = match tuple(expr) {
            Some(items) => items.into_iter().map(|i| self.level.column(i)).collect(),
            None => self.level.column(expr).map(|c| vec![c]),
        };
        let (Some(columns), Some(output)) = (columns, self.outputs.get(query)) else {
            return nothing();
        };
        if !output.complete || output.columns.len() != columns.len() || output.rows.is_empty() {
            return nothing();
        }
        let mut found = Vec::new();
        for row in &output.rows {
            let bound = columns.iter().zip(row).map(|(column, value)| match value {
                Some(value) => self.bind(column, value.clone(), false),
                None => nothing(),
            });
            found.extend(bound.fold(nothing(), pair));
        }
        found
    }

    /// One value for all rows: a constant, or an expression that names no column.
    fn single(&self, expr: &Expr) -> Option<Value> {
        if let Some(value) = value::constant(expr, self.dialect()) {
            return Some(value);
        }
        match expr {
            Expr::Nested(inner) => self.single(inner),
            Expr::Subquery(query) => {
                let output = self.outputs.get(query)?;
                match output.rows.as_slice() {
                    [row] if output.complete && row.len() == 1 => row[0].clone(),
                    _ => None,
                }
            }
            Expr::BinaryOp { left, right, .. } => self.single(left).and(self.single(right)).map(|_| Value::Unknown),
            Expr::Function(f) if function::is_stable(f, self.dialect()) => {
                let FunctionArguments::List(list) = &f.args else { return Some(Value::Unknown) };
                let all = list.args.iter().all(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => self.single(e).is_some(),
                    _ => false,
                });
                all.then_some(Value::Unknown)
            }
            _ => None,
        }
    }

    /// `column = value`.
    fn bind(&self, column: &ColumnRef, value: Value, null_safe: bool) -> Vec<Alternative> {
        let mut value = value;
        if let Some(table) = self.level.table(column.0) {
            let in_key = table.unique_keys.iter().any(|k| k.columns.contains(&column.1))
                || table.primary_key.contains(&column.1)
                || table.foreign_keys.iter().any(|k| k.columns.contains(&column.1));
            if !self.all && !in_key && !self.equal.iter().any(|(a, b)| a == column || b == column) {
                return nothing();
            }
            if let Some(stored) = table.column(&column.1) {
                if null_safe && stored.nullable {
                    return nothing();
                }
                // A number against text is compared as a number: '5', '05' and '5.0' are all equal to 5.
                let number = matches!(value, Value::Literal(Literal::Integer(_)));
                if number && self.dialect().is_innodb() && is_text(&stored.type_name) {
                    return nothing();
                }
                value = as_stored(value, &stored.type_name);
            }
        } else if null_safe {
            return nothing();
        }
        vec![vec![(column.clone(), value)]]
    }
}

/// Every row agrees with this.
fn nothing() -> Vec<Alternative> {
    vec![Vec::new()]
}

/// `(a, b)` or `ROW(a, b)`.
fn tuple(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Tuple(items) => Some(items.iter().collect()),
        Expr::Nested(inner) => tuple(inner),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string().eq_ignore_ascii_case("row") =>
        {
            let item = |argument| match argument {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref e)) => Some(e),
                _ => None,
            };
            list.args.iter().map(item).collect()
        }
        _ => None,
    }
}

/// A literal in quotes that is compared with an integer is one: `id = '5'`.
pub(crate) fn as_stored(value: Value, type_name: &str) -> Value {
    match value {
        Value::Literal(Literal::Text(text)) if is_integer(type_name) => match text.trim().parse() {
            Ok(n) => Value::Literal(Literal::Integer(n)),
            // An error on PostgreSQL; on MySQL '5abc' is equal to 5.
            Err(_) => Value::Unknown,
        },
        other => other,
    }
}

fn is_integer(type_name: &str) -> bool {
    let first = type_name.split([' ', '(']).next().unwrap_or_default();
    matches!(first, "bigint" | "int" | "integer" | "smallint" | "tinyint" | "mediumint" | "int2" | "int4" | "int8")
}

fn is_text(type_name: &str) -> bool {
    ["char", "text", "enum", "set("].iter().any(|t| type_name.contains(t))
}
