//! A lock in words, for messages: `orders: key share, id = $1, foreign key order_lines_order_id_fkey`.

use std::fmt::{self, Display, Formatter};

use crate::{Cause, Literal, Lock, Rows, Value, Verb, Wait};

/// Table, strength, rows, cause, and the wait when it is not the usual one.
impl Display for Lock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}, {}", self.table, self.strength, self.rows, self.cause)?;
        match self.wait {
            Wait::Wait => Ok(()),
            Wait::NoWait => f.write_str(", nowait"),
            Wait::SkipLocked => f.write_str(", skip locked"),
        }
    }
}

/// `id = 5`, `id = 5 | 7`, `(order_id, line) = ($1, 1)`, `no rows`, `some rows`, `a fresh row`.
impl Display for Rows {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Rows::Unknown => f.write_str("some rows"),
            Rows::Fresh => f.write_str("a fresh row"),
            Rows::Keys { keys, .. } if keys.is_empty() => f.write_str("no rows"),
            Rows::Keys { columns, keys } => {
                tuple(f, columns)?;
                for (at, key) in keys.iter().enumerate() {
                    f.write_str(if at == 0 { " = " } else { " | " })?;
                    tuple(f, key)?;
                }
                Ok(())
            }
        }
    }
}

fn tuple(f: &mut Formatter<'_>, items: &[impl Display]) -> fmt::Result {
    if let [only] = items {
        return write!(f, "{only}");
    }
    for (at, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if at == 0 { "(" } else { ", " })?;
    }
    f.write_str(")")
}

/// `$1` is the first parameter, `any of $1` an element of it, `?` what the text does not say.
impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Literal(literal) => write!(f, "{literal}"),
            Value::Parameter(n) => write!(f, "${}", n.saturating_add(1)),
            Value::ParameterArray(n) => write!(f, "any of ${}", n.saturating_add(1)),
            Value::Unknown => f.write_str("?"),
        }
    }
}

/// As SQL.
impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Integer(n) => write!(f, "{n}"),
            Literal::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Literal::Bytes(bytes) => {
                f.write_str("x'")?;
                bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
                f.write_str("'")
            }
            Literal::Null => f.write_str("NULL"),
        }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Cause::LockingClause => f.write_str("locking clause"),
            Cause::Update => f.write_str("UPDATE"),
            Cause::Delete => f.write_str("DELETE"),
            Cause::Insert => f.write_str("INSERT"),
            Cause::Upsert => f.write_str("upsert"),
            Cause::ForeignKey(name) => write!(f, "foreign key {name}"),
            Cause::Cascade(name) => write!(f, "cascade of {name}"),
            Cause::Read => f.write_str("read by a writing statement"),
        }
    }
}

impl Display for Verb {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::TransactionControl => "transaction control",
            Verb::TableLock => "table lock",
            Verb::Session => "session",
            Verb::Opaque => "opaque",
        })
    }
}
