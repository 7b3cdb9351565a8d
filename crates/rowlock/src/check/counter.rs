//! Whether a column can be counted with: whether its statement locks no more than the row, and no result is cut. Pure.

use rowlock_footprint::{Column, Table};

use super::target::{full_name, quote};
use crate::{
    Dialect,
    catalog::sqlite::{Affinity, affinity},
    tally::Interval,
};

/// A column that is counted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterColumn {
    /// Its name as stored.
    pub name: String,
    /// The same, quoted for SQL.
    pub quoted: String,
    /// What it can hold, as far as an `i64` can.
    pub(crate) range: Interval,
    /// It has no sign: it compares with numbers of its own kind only.
    pub unsigned: bool,
}

/// The column `name` of `table` as a counter, or what stands against it and the way out.
pub(crate) fn counter(dialect: Dialect, table: &Table, name: &str) -> Result<CounterColumn, String> {
    let same = |c: &&Column| match dialect {
        Dialect::Postgres => c.name == name,
        _ => c.name.eq_ignore_ascii_case(name),
    };
    let Some(column) = table.columns.iter().find(same) else {
        return Err(format!("`{}` has no such column", table.name));
    };
    let alter = format!("alter table {}", full_name(dialect, &table.name));
    let quoted = quote(dialect, &column.name);
    let kind = column.type_name.as_str();
    let Some((range, unsigned)) = range(dialect, kind) else {
        return Err(format!("it is `{kind}`, not an integer: an amount of money is counted in its smallest unit"));
    };
    let names = |columns: &[String]| columns.contains(&column.name);
    if names(&table.primary_key) || table.unique_keys.iter().any(|key| names(&key.columns)) {
        return Err("it is part of a unique key, and rows would wait for each other's values".into());
    }
    if table.foreign_keys.iter().any(|key| names(&key.columns)) {
        return Err("it refers to another table, whose row a change would lock out of order".into());
    }
    if column.generated {
        return Err("the database makes its values".into());
    }
    if column.nullable {
        let way_out = match dialect {
            Dialect::Postgres => format!("{alter} alter column {quoted} set not null"),
            Dialect::Sqlite => format!("make the table anew with `{quoted} {kind} not null`"),
            Dialect::MySql | Dialect::MariaDb => format!("{alter} modify {quoted} {kind} not null"),
        };
        return Err(format!("it may be NULL, from which nothing can be subtracted: {way_out}"));
    }
    Ok(CounterColumn { name: column.name.clone(), quoted, range, unsigned })
}

/// What a type holds, cut at `i64::MAX`, and whether it has no sign.
fn range(dialect: Dialect, kind: &str) -> Option<(Interval, bool)> {
    let bare = kind.split('(').next().unwrap_or_default().split(' ').next().unwrap_or_default();
    let unsigned = dialect.is_innodb() && kind.contains("unsigned");
    let bits = match (dialect, bare) {
        (Dialect::Sqlite, _) if affinity(kind) == Affinity::Integer => 64,
        (Dialect::Sqlite, _) => return None,
        (Dialect::Postgres, "smallint" | "integer" | "bigint") if bare != kind => return None,
        (Dialect::MySql | Dialect::MariaDb, "tinyint") => 8,
        (Dialect::MySql | Dialect::MariaDb, "mediumint") => 24,
        (Dialect::MySql | Dialect::MariaDb, "int") => 32,
        (_, "smallint") => 16,
        (Dialect::Postgres, "integer") => 32,
        (_, "bigint") => 64,
        _ => return None,
    };
    let whole = match unsigned {
        true => Interval { low: 0, high: (1 << bits) - 1 },
        false => Interval { low: -(1 << (bits - 1)), high: (1 << (bits - 1)) - 1 },
    };
    Some((whole.and(Interval { low: i64::MIN.into(), high: i64::MAX.into() }), unsigned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_types() {
        let of = |dialect, kind| range(dialect, kind).map(|(r, unsigned)| (r.low, r.high, unsigned));
        assert_eq!(of(Dialect::Postgres, "smallint"), Some((-32768, 32767, false)));
        assert_eq!(of(Dialect::Postgres, "bigint"), Some((i64::MIN.into(), i64::MAX.into(), false)));
        assert_eq!(of(Dialect::Postgres, "integer[]"), None);
        assert_eq!(of(Dialect::Postgres, "numeric(10,2)"), None);
        assert_eq!(of(Dialect::MySql, "tinyint(1)"), Some((-128, 127, false)));
        assert_eq!(of(Dialect::MySql, "mediumint unsigned"), Some((0, 16_777_215, true)));
        assert_eq!(of(Dialect::MariaDb, "int(11)"), Some((-2_147_483_648, 2_147_483_647, false)));
        assert_eq!(of(Dialect::MariaDb, "bigint(20) unsigned"), Some((0, i64::MAX.into(), true)));
        assert_eq!(of(Dialect::MySql, "decimal(10,2)"), None);
        assert_eq!(of(Dialect::Sqlite, "integer"), Some((i64::MIN.into(), i64::MAX.into(), false)));
        assert_eq!(of(Dialect::Sqlite, "real"), None);
    }
}
