//! What a statement says of the one table that it is about: by which columns it finds rows, what it returns of them, and
//! what it gives them. Not what it locks; what one can tell from it about the intent.

use std::ops::ControlFlow;

use sqlparser::{
    ast::{
        AssignmentTarget, BinaryOperator, Expr, FromTable, Insert, LimitClause, OrderByExpr, OrderByKind, Query,
        Select, SelectItem, SetExpr, Statement, TableFactor, TableObject, TableWithJoins, visit_expressions,
    },
    parser::Parser,
};

use crate::{
    Dialect, TableName, Value, locking, name,
    simplify::simplify,
    statement::MAX_DEPTH,
    text::{Text, grammar},
    value,
};

/// Most ways to meet a condition that are told apart.
const MOST_WAYS: usize = 64;

/// A statement about one table, in outline.
///
/// ```
/// use rowlock_footprint::{Dialect, Given, Outline, Value};
///
/// let sql = "UPDATE stock SET n = $1, note = upper(note) WHERE id = $2 AND n > 0";
/// let outline = Outline::of(sql, Dialect::Postgres).expect("it is about one table");
/// assert_eq!(outline.table.name, "stock");
/// assert_eq!(outline.sets[0], ("n".to_owned(), Given::Value(Value::Parameter(0))));
/// assert_eq!(outline.sets[1].1, Given::Computed);
/// assert_eq!(outline.finds.equal, [("id".to_owned(), Value::Parameter(1))]);
/// assert!(!outline.finds.only_equal);
/// assert_eq!(outline.finds.ways.unwrap(), [["id", "n"]]);
/// assert_eq!(Outline::of("SELECT 1 FROM a, b", Dialect::Postgres), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The table, as it is written (folded).
    pub table: TableName,
    /// The columns whose values a SELECT returns.
    pub returns: Returns,
    /// Its WHERE.
    pub finds: Finds,
    /// The columns by which it sorts; an expression stands as an empty name.
    pub sorted_by: Vec<String>,
    /// It takes so many rows at most.
    pub limited: bool,
    /// What UPDATE gives the columns, and what an INSERT of one row does.
    pub sets: Vec<(String, Given)>,
}

/// What a SELECT returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returns {
    /// All columns.
    All,
    /// These columns as they are, or nothing of the table (`SELECT 1`, `count(*)`).
    Columns(Vec<String>),
}

/// What a column is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// A literal or a bound value: it comes from who sent the statement.
    Value(Value),
    /// The server works it out: `n - 1`, `now()`, `DEFAULT`.
    Computed,
}

/// How a statement finds its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finds {
    /// Columns that must equal one value each.
    pub equal: Vec<(String, Value)>,
    /// The whole condition is that.
    pub only_equal: bool,
    /// The columns that are compared, for each way to meet the condition (`OR`): by an index on one of them its rows could
    /// be found. None: there is more in it than comparisons of columns (a function of a column, say). No way: no condition.
    pub ways: Option<Vec<Vec<String>>>,
}

impl Outline {
    /// That of a single SELECT, UPDATE, DELETE, or INSERT of one row, about one table by its name; none of any other
    /// statement.
    pub fn of(sql: &str, dialect: Dialect) -> Option<Outline> {
        let mut statements = Text::read(sql, dialect).ok()?.statements;
        let (tokens, nesting) = statements.pop().filter(|_| statements.is_empty())?;
        nesting.with_stack(|| {
            let (tokens, _) = locking::take_clauses(simplify(tokens, dialect), dialect);
            let parser = Parser::new(grammar(dialect)).with_recursion_limit(MAX_DEPTH);
            let statement = parser.with_tokens_with_locations(tokens).parse_statement().ok()?;
            Reader { dialect }.statement(&statement)
        })
    }
}

struct Reader {
    dialect: Dialect,
}

impl Reader {
    fn statement(&self, statement: &Statement) -> Option<Outline> {
        match statement {
            Statement::Query(query) => self.query(query),
            Statement::Update(update) if update.from.is_none() => {
                let sets = update.assignments.iter().map(|assignment| match &assignment.target {
                    AssignmentTarget::ColumnName(name) => {
                        Some((self.last(name::parts(name, self.dialect)), self.given(&assignment.value)))
                    }
                    AssignmentTarget::Tuple(_) => None,
                });
                Some(Outline {
                    sets: sets.collect::<Option<_>>()?,
                    limited: update.limit.is_some(),
                    sorted_by: self.sorted_by(&update.order_by),
                    ..self.about(&update.table, update.selection.as_ref())?
                })
            }
            Statement::Delete(delete) if delete.using.is_none() && delete.tables.is_empty() => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                let [table] = from.as_slice() else { return None };
                Some(Outline {
                    limited: delete.limit.is_some(),
                    sorted_by: self.sorted_by(&delete.order_by),
                    ..self.about(table, delete.selection.as_ref())?
                })
            }
            Statement::Insert(insert) => self.insert(insert),
            _ => None,
        }
    }

    fn query(&self, query: &Query) -> Option<Outline> {
        let SetExpr::Select(select) = &*query.body else { return None };
        let [table] = select.from.as_slice() else { return None };
        if query.with.is_some() {
            return None;
        }
        let sorted_by = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(list)) => self.sorted_by(list),
            Some(OrderByKind::All(_)) => vec![String::new()],
            None => Vec::new(),
        };
        let limit = matches!(
            &query.limit_clause,
            Some(LimitClause::LimitOffset { limit: Some(_), .. } | LimitClause::OffsetCommaLimit { .. })
        );
        Some(Outline {
            returns: self.returns(select),
            sorted_by,
            limited: limit || query.fetch.is_some(),
            ..self.about(table, select.selection.as_ref())?
        })
    }

    fn insert(&self, insert: &Insert) -> Option<Outline> {
        let TableObject::TableName(written) = &insert.table else { return None };
        let table = name::table_name(written, self.dialect);
        let source = insert.source.as_ref()?;
        let SetExpr::Values(values) = &*source.body else { return None };
        let [row] = values.rows.as_slice() else { return None };
        let columns = insert.columns.iter().map(|column| self.last(name::parts(column, self.dialect)));
        let sets = columns.zip(row.content.iter().map(|value| self.given(value))).collect();
        Some(Outline { sets, ..Outline::about_table(table) })
    }

    fn about(&self, table: &TableWithJoins, selection: Option<&Expr>) -> Option<Outline> {
        let TableFactor::Table { name, args: None, .. } = &table.relation else { return None };
        if !table.joins.is_empty() {
            return None;
        }
        Some(Outline { finds: self.finds(selection), ..Outline::about_table(name::table_name(name, self.dialect)) })
    }

    fn returns(&self, select: &Select) -> Returns {
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => return Returns::All,
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    columns.extend(self.column(expr));
                }
                SelectItem::ExprWithAliases { .. } => {}
            }
        }
        Returns::Columns(columns)
    }

    fn given(&self, expr: &Expr) -> Given {
        value::constant(expr, self.dialect).map_or(Given::Computed, Given::Value)
    }

    fn sorted_by(&self, list: &[OrderByExpr]) -> Vec<String> {
        list.iter().map(|order| self.column(&order.expr).unwrap_or_default()).collect()
    }

    fn column(&self, expr: &Expr) -> Option<String> {
        let parts = match expr {
            Expr::Nested(inner) => return self.column(inner),
            Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.starts_with('@') => return None,
            Expr::Identifier(ident) => vec![name::fold(ident, self.dialect)],
            Expr::CompoundIdentifier(idents) => idents.iter().map(|ident| name::fold(ident, self.dialect)).collect(),
            _ => return None,
        };
        Some(self.last(parts))
    }

    /// The column's own name. Where the server ignores its case, so does who compares them.
    fn last(&self, mut parts: Vec<String>) -> String {
        let column = parts.pop().unwrap_or_default();
        if self.dialect == Dialect::Postgres { column } else { column.to_ascii_lowercase() }
    }

    fn finds(&self, selection: Option<&Expr>) -> Finds {
        let mut finds = Finds { only_equal: true, ..Finds::default() };
        let Some(condition) = selection else {
            return Finds { ways: Some(Vec::new()), ..finds };
        };
        let mut rest = vec![condition];
        while let Some(expr) = rest.pop() {
            match expr {
                Expr::Nested(inner) => rest.push(inner),
                Expr::BinaryOp { left, op: BinaryOperator::And, right } => rest.extend([&**right, &**left]),
                Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => match self.equal(left, right) {
                    Some(pair) => finds.equal.push(pair),
                    None => finds.only_equal = false,
                },
                _ => finds.only_equal = false,
            }
        }
        finds.ways = self.ways(condition);
        finds
    }

    fn equal(&self, left: &Expr, right: &Expr) -> Option<(String, Value)> {
        let pair = |column, other| Some((self.column(column)?, value::constant(other, self.dialect)?));
        pair(left, right).or_else(|| pair(right, left))
    }

    fn ways(&self, expr: &Expr) -> Option<Vec<Vec<String>>> {
        let compared = |expr: &Expr| Some(vec![vec![self.column(expr)?]]);
        let ways = match expr {
            Expr::Nested(inner) => self.ways(inner)?,
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                let (left, right) = (self.ways(left)?, self.ways(right)?);
                let both = |a: &Vec<String>| right.iter().map(|b| [a.as_slice(), b].concat()).collect::<Vec<_>>();
                left.iter().flat_map(both).collect()
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => [self.ways(left)?, self.ways(right)?].concat(),
            Expr::BinaryOp { left, op, right } if compares(op) => match (compared(left), compared(right)) {
                (Some(ways), None) if self.is_free(right) => ways,
                (None, Some(ways)) if self.is_free(left) => ways,
                _ => return None,
            },
            Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsNotFalse(inner)
            | Expr::UnaryOp { expr: inner, .. } => compared(inner)?,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => compared(expr)?,
            Expr::In { expr, .. }
            | Expr::Between { expr, .. }
            | Expr::Like { expr, .. }
            | Expr::ILike { expr, .. }
            | Expr::AnyOp { left: expr, .. } => compared(expr)?,
            _ => return None,
        };
        (ways.len() <= MOST_WAYS).then_some(ways)
    }

    /// Whether an expression is one value for all rows: it names no column of theirs.
    fn is_free(&self, expr: &Expr) -> bool {
        if let Expr::Subquery(_) = expr {
            return true;
        }
        let named = visit_expressions(expr, |expr| match self.column(expr) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        });
        named.is_continue()
    }
}

impl Outline {
    fn about_table(table: TableName) -> Outline {
        Outline {
            table,
            returns: Returns::Columns(Vec::new()),
            finds: Finds { ways: Some(Vec::new()), ..Finds::default() },
            sorted_by: Vec::new(),
            limited: false,
            sets: Vec::new(),
        }
    }
}

fn compares(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::Spaceship)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Outline {
        Outline::of(sql, Dialect::MySql).unwrap_or_else(|| panic!("no outline of {sql}"))
    }

    #[test]
    fn ways_to_find_rows() {
        let ways = |condition: &str| of(&format!("delete from t where {condition}")).finds.ways;
        let columns =
            |ways: &[&[&str]]| Some(ways.iter().map(|way| way.iter().map(|c| (*c).to_owned()).collect()).collect());
        for (condition, expected) in [
            ("a = 1 and b > now() - interval 1 day", columns(&[&["a", "b"]])),
            ("a = 1 or (b is null and t.C like 'x%')", columns(&[&["a"], &["b", "c"]])),
            ("a in (1, 2) and not b", columns(&[&["a", "b"]])),
            ("lower(a) = 'x'", None),
            ("a = b", None),
            ("exists (select 1)", None),
        ] {
            assert_eq!(ways(condition), expected, "{condition}");
        }
        assert_eq!(of("delete from t").finds.ways, Some(Vec::new()));
    }

    #[test]
    fn what_is_returned_and_given() {
        let select = of("select a, t.b as x, count(*) from t where id = 1 order by c, d + 1 limit 3 for update");
        assert_eq!(select.returns, Returns::Columns(vec!["a".into(), "b".into()]));
        assert_eq!(select.sorted_by, ["c", ""]);
        assert!(select.limited && select.finds.only_equal);
        assert_eq!(of("select t.* from t").returns, Returns::All);
        let insert = of("insert into t (a, b) values (?, now())");
        assert_eq!(insert.sets[0], ("a".into(), Given::Value(Value::Parameter(0))));
        assert_eq!(insert.sets[1].1, Given::Computed);
    }

    #[test]
    fn what_is_about_more_than_one_table_has_none() {
        for sql in [
            "select 1 from a join b on a.id = b.id",
            "update a, b set a.n = 1",
            "insert into t (a) values (1), (2)",
            "insert into t select 1",
            "select 1 union select 2",
            "select 1; select 2",
            "select",
            "",
        ] {
            assert_eq!(Outline::of(sql, Dialect::MySql), None, "{sql}");
        }
    }
}
