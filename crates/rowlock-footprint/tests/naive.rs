//! Held against the naive: conditions made at random are tried on every row of a small table, and a row that meets one
//! must be among those that the model names.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use proptest::{collection::vec, prelude::*, sample::select};
use rowlock_footprint::{Dialect, Literal, Rows, Schema, Value, analyze};

/// Values of a column: two, so that conditions are often met.
const VALUES: [i64; 3] = [0, 1, 2];

/// Columns of the two tables: `p` has the primary key (a, b) and the unique key (c); `q` has the primary key (d).
const COLUMNS: [&str; 4] = ["p.a", "p.b", "p.c", "q.d"];

/// A row of the join; `None`: the outer join found no `q`.
type Row = [Option<i64>; 4];

#[derive(Clone, Debug)]
enum Condition {
    /// Column = value.
    Is(usize, i64),
    In(usize, Vec<i64>),
    /// (a, b) in (..)
    Pair(Vec<(i64, i64)>),
    Same(usize, usize),
    Less(usize, i64),
    Parameter(usize),
    Any(usize),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

/// The values that are bound to $1 and $2; $2 is an array.
const BOUND: i64 = 1;
const BOUND_ARRAY: [i64; 2] = [0, 2];

impl Condition {
    fn sql(&self) -> String {
        let list = |values: &[i64]| values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Condition::Is(c, v) => format!("{} = {v}", COLUMNS[*c]),
            Condition::In(c, v) => format!("{} in ({})", COLUMNS[*c], list(v)),
            Condition::Pair(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("({a}, {b})")).collect();
                format!("(p.a, p.b) in ({})", pairs.join(", "))
            }
            Condition::Same(c, d) => format!("{} = {}", COLUMNS[*c], COLUMNS[*d]),
            Condition::Less(c, v) => format!("{} < {v}", COLUMNS[*c]),
            Condition::Parameter(c) => format!("$1 = {}", COLUMNS[*c]),
            Condition::Any(c) => format!("{} = any($2)", COLUMNS[*c]),
            Condition::Not(c) => format!("not ({})", c.sql()),
            Condition::And(c, d) => format!("({} and {})", c.sql(), d.sql()),
            Condition::Or(c, d) => format!("({} or {})", c.sql(), d.sql()),
        }
    }

    /// As SQL: `None` is unknown.
    fn holds(&self, row: &Row) -> Option<bool> {
        match self {
            Condition::Is(c, v) => row[*c].map(|x| x == *v),
            Condition::In(c, v) => row[*c].map(|x| v.contains(&x)),
            Condition::Pair(pairs) => Some(pairs.contains(&(row[0]?, row[1]?))),
            Condition::Same(c, d) => Some(row[*c]? == row[*d]?),
            Condition::Less(c, v) => row[*c].map(|x| x < *v),
            Condition::Parameter(c) => row[*c].map(|x| x == BOUND),
            Condition::Any(c) => row[*c].map(|x| BOUND_ARRAY.contains(&x)),
            Condition::Not(c) => c.holds(row).map(|x| !x),
            Condition::And(c, d) => match (c.holds(row), d.holds(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Condition::Or(c, d) => match (c.holds(row), d.holds(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }
}

fn condition() -> impl Strategy<Value = Condition> {
    let column = || 0..COLUMNS.len();
    let value = || select(&VALUES[..]);
    let leaf = prop_oneof![
        4 => (column(), value()).prop_map(|(c, v)| Condition::Is(c, v)),
        2 => (column(), vec(value(), 1..3)).prop_map(|(c, v)| Condition::In(c, v)),
        1 => vec((value(), value()), 1..3).prop_map(Condition::Pair),
        2 => (column(), column()).prop_map(|(c, d)| Condition::Same(c, d)),
        1 => (column(), value()).prop_map(|(c, v)| Condition::Less(c, v)),
        1 => column().prop_map(Condition::Parameter),
        1 => column().prop_map(Condition::Any),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let two = || (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            1 => inner.clone().prop_map(|c| Condition::Not(Box::new(c))),
            4 => two().prop_map(|(c, d)| Condition::And(c, d)),
            2 => two().prop_map(|(c, d)| Condition::Or(c, d)),
        ]
    })
}

fn schema() -> Schema {
    let mut schema = Schema::default();
    let p = support::Build::new("p").column("a", "int").column("b", "int").column("c", "int").key(&["a", "b"]);
    schema.insert(p.unique("p_c_key", &["c"]).0);
    schema.insert(support::Build::new("q").column("d", "int").key(&["d"]).0);
    schema
}

/// Every row that `p` and `q` could have between them. (Which of them exist at once does not matter: each alone could.)
fn all_rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for a in VALUES {
        for b in VALUES {
            for c in VALUES {
                for d in VALUES {
                    rows.push([Some(a), Some(b), Some(c), Some(d)]);
                }
            }
        }
    }
    rows
}

fn named(rows: &Rows, columns: &[&str], row: &[i64]) -> bool {
    let Rows::Keys { columns: key, keys } = rows else { return true };
    let value_of = |column: &String| row[columns.iter().position(|c| c == column).unwrap()];
    keys.iter().any(|tuple| {
        tuple.iter().zip(key).all(|(value, column)| match value {
            Value::Literal(Literal::Integer(n)) => *n == i128::from(value_of(column)),
            Value::Parameter(0) => value_of(column) == BOUND,
            Value::ParameterArray(1) => BOUND_ARRAY.contains(&value_of(column)),
            other => panic!("a value that no condition has: {other:?}"),
        })
    })
}

/// The rows of `p` and of `q` that the statement locks, as the model has them. None at all: the model knows that no row
/// can meet the condition.
fn modelled(sql: &str, schema: &Schema, table: &str) -> Rows {
    let footprint = analyze(sql, Dialect::Postgres, schema).unwrap();
    let lock = footprint.locks.into_iter().find(|l| l.table.name == table);
    lock.map_or(Rows::Keys { columns: Vec::new(), keys: Vec::new() }, |l| l.rows)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_that_meet_a_condition_are_named(on in condition(), filter in condition()) {
        let schema = schema();
        let sql = format!("select * from p join q on {} where {} for update", on.sql(), filter.sql());
        let (of_p, of_q) = (modelled(&sql, &schema, "p"), modelled(&sql, &schema, "q"));
        for row in all_rows() {
            if on.holds(&row) == Some(true) && filter.holds(&row) == Some(true) {
                let row = row.map(Option::unwrap);
                prop_assert!(named(&of_p, &["a", "b", "c"], &row[..3]), "{sql}: {row:?} in {of_p:?}");
                prop_assert!(named(&of_q, &["d"], &row[3..]), "{sql}: {row:?} in {of_q:?}");
            }
        }
    }

    #[test]
    fn rows_of_an_outer_join_are_named(on in condition(), filter in condition(), q in vec(select(&VALUES[..]), 0..3)) {
        let schema = schema();
        let sql = format!("select * from p left join q on {} where {} for update of p", on.sql(), filter.sql());
        let of_p = modelled(&sql, &schema, "p");
        for row in all_rows() {
            // The rows of the join that this row of p has a part in, with these rows in q.
            let matches: Vec<Row> = q.iter().map(|&d| [row[0], row[1], row[2], Some(d)]).filter(|r| on.holds(r) == Some(true)).collect();
            let joined = if matches.is_empty() { vec![[row[0], row[1], row[2], None]] } else { matches };
            if joined.iter().any(|r| filter.holds(r) == Some(true)) {
                let row = [row[0], row[1], row[2]].map(Option::unwrap);
                prop_assert!(named(&of_p, &["a", "b", "c"], &row), "{sql}: {row:?} in {of_p:?}");
            }
        }
    }

    /// An UPDATE names the same rows as a SELECT, on every dialect with its own parameters.
    #[test]
    fn statements_agree(filter in condition()) {
        let schema = schema();
        let filter = filter.sql().replace("q.d", "p.a");
        let of_select = modelled(&format!("select * from p where {filter} for update"), &schema, "p");
        let of_update = modelled(&format!("update p set c = 1 where {filter}"), &schema, "p");
        let of_delete = modelled(&format!("delete from p where {filter}"), &schema, "p");
        prop_assert_eq!(&of_select, &of_update);
        prop_assert_eq!(&of_select, &of_delete);
    }
}
