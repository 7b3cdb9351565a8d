//! The creation guard: who may make the row of a key that has none yet.
//!
//! A row that is not there cannot be locked, and on InnoDB under REPEATABLE READ the attempt locks the gap where it would
//! stand. So creation has a lock of its own, with a place in the order like a row: before the rows of its resource, by
//! slot. A slot is a hash of the key, so two keys may share one, and the order is that of the slots, never of the keys:
//! in the order of keys, a < b < c with a and c in one slot would be locked in opposite orders by two transactions.
//!
//! PostgreSQL: advisory locks of the transaction. MySQL and MariaDB: guard rows of rowlock's own table. SQLite: the
//! transaction has the whole file.

use std::time::Duration;

use rowlock_footprint::{Dialect, TableName, Wait};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::{
    KeyValue, acquire::Ask, count::Event, deadline, engine::Engine, error::Error, failure::Failure, inner::Inner,
    plan::Step,
};

/// Guard rows for each resource, where slots are rows.
pub(crate) const SLOTS: u32 = 256;

/// The number that tells the resources' guards apart: a hash of the table's name as it is stored, so that all who mean one
/// table have one number, whatever name they declare. On MySQL and MariaDB the guards stand in the table's own database, and
/// its name there is enough; `folded`: names that differ in case alone are one table's.
pub(crate) fn class(dialect: Dialect, table: &TableName, folded: bool) -> i64 {
    let name = if folded { table.name.to_ascii_lowercase() } else { table.name.clone() };
    let schema = table.schema.as_deref().filter(|_| !dialect.is_innodb()).unwrap_or_default();
    signed(fnv1a_64(FNV_64, schema.bytes().chain([0]).chain(name.bytes())))
}

/// The number of the advisory lock of a slot: 64 bits for both, so that two tables do not meet in some slots, each of which
/// then had two places in the order.
pub(crate) fn advisory(class: i64, slot: i64) -> i64 {
    signed(fnv1a_64(FNV_64, class.to_le_bytes().into_iter().chain(slot.to_le_bytes())))
}

/// The slot of a key.
pub(crate) fn slot(dialect: Dialect, key: &KeyValue) -> i64 {
    let mut bytes = Vec::new();
    spell(key, &mut bytes);
    let hash = fnv1a(bytes.into_iter());
    if dialect.is_innodb() { i64::from(hash % SLOTS) } else { i64::from(i32::from_ne_bytes(hash.to_ne_bytes())) }
}

/// The bytes that stand for a key. (Not its `Display`, which escapes text as the standard library of the day does.)
fn spell(key: &KeyValue, out: &mut Vec<u8>) {
    match key {
        KeyValue::Integer(n) => out.extend(n.to_string().bytes()),
        KeyValue::Uuid(u) => out.extend(u.as_bytes()),
        KeyValue::Text(t) => out.extend(t.bytes()),
        KeyValue::Bytes(b) => out.extend(b.iter()),
        KeyValue::Tuple(columns) => columns.iter().for_each(|column| {
            spell(column, out);
            out.push(0);
        }),
    }
}

/// FNV-1a, 32 bits (Fowler, Noll, Vo; draft-eastlake-fnv): the same in every process and version, which `std`'s hasher
/// is not.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The same with 64 bits.
fn fnv1a_64(from: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(from, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

const FNV_64: u64 = 0xcbf2_9ce4_8422_2325;

fn signed(hash: u64) -> i64 {
    i64::from_ne_bytes(hash.to_ne_bytes())
}

/// Takes the guards of `step` in order; a late one without waiting.
pub(crate) async fn acquire<E: Engine>(inner: &mut Inner<E>, step: &Step, ask: Ask) -> Result<(), Error> {
    inner.hold.start();
    let ask = ask.at_once();
    if inner.dialect().is_innodb() {
        inner.shared.require_creation_rows().await?;
    }
    let rest = match ask.wait {
        Wait::Wait => step.without(&inner.admit_step(step, None).await?.keys),
        Wait::NoWait | Wait::SkipLocked => {
            inner.hold_step(step);
            step.clone()
        }
    };
    if rest.keys.is_empty() {
        return Ok(());
    }
    let taken = take(inner, &rest, ask.wait, ask.limit).await;
    if taken.is_err() {
        inner.doubt(&rest);
    }
    taken
}

/// Sends the statement. No check of the order is made here.
pub(crate) async fn take<E: Engine>(
    inner: &mut Inner<E>,
    step: &Step,
    wait: Wait,
    limit: Duration,
) -> Result<(), Error> {
    let dialect = inner.dialect();
    if dialect == Dialect::Sqlite {
        return Ok(());
    }
    let resource = inner.resource(step.rank);
    let slots: Vec<i64> = step
        .keys
        .iter()
        .map(|key| match key {
            KeyValue::Integer(slot) => i64::try_from(*slot).unwrap_or_default(),
            _ => 0,
        })
        .collect();
    let text =
        E::creation_text(&inner.model.targets[usize::from(step.rank)], inner.model.class(step.rank), &slots, wait);
    inner.sending()?;
    let session = inner.connection.session;
    let shared = inner.shared.clone();
    let batch = E::batch(inner.connection.get(), AssertSqlSafe(text).into_sql_str());
    let until = deadline::of_lock(wait, limit, slots.len());
    let (result, cancelled) = deadline::within(&shared, session, until, batch).await;
    if cancelled {
        inner.count(Event::Cancelled);
    }
    let Some(result) = result else { return Err(inner.no_answer()) };
    inner.pace.answered();
    let busy = || {
        inner.count(Event::Busy);
        let (kind, resource, keys) = (inner.kind.clone(), resource.name, step.keys.clone());
        let waited = (wait == Wait::Wait).then_some(limit);
        Error::Busy { kind, resource, keys, waited, turned_away: false }
    };
    match result {
        // PostgreSQL, without waiting: how many were not had.
        Ok(Some(refused)) if dialect == Dialect::Postgres && wait != Wait::Wait && refused > 0 => Err(busy()),
        Ok(_) => Ok(()),
        Err(error) => {
            let failure = Failure::of::<E>(dialect, &error);
            if failure == Failure::Busy || (cancelled && failure == Failure::Cancelled) {
                let busy = busy();
                inner.split().1.failed(&error.to_string());
                return Err(busy);
            }
            inner.note(&error);
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_the_same_in_every_process() {
        // Pinned: two processes of different versions must agree, or they guard nothing.
        assert_eq!(fnv1a("".bytes()), 0x811c_9dc5);
        assert_eq!(fnv1a("foobar".bytes()), 0xbf9c_f968);
        assert_eq!(
            slot(Dialect::MySql, &KeyValue::Text("a@b.c".into())),
            slot(Dialect::MariaDb, &KeyValue::Text("a@b.c".into()))
        );
        assert!(slot(Dialect::MySql, &KeyValue::Integer(7)) < i64::from(SLOTS));
        let foobar = i64::from(0xbf9c_f968_u32 as i32);
        assert_eq!(slot(Dialect::Postgres, &KeyValue::Text("foobar".into())), foobar);
        assert_eq!(slot(Dialect::Postgres, &KeyValue::Bytes(b"foobar".as_slice().into())), foobar);
        assert_eq!(fnv1a_64(FNV_64, "foobar".bytes()), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_table_has_one_class_whatever_it_is_called() {
        let of = |dialect, name, folded| class(dialect, &TableName::parse(name), folded);
        assert_eq!(of(Dialect::MySql, "shop.orders", false), of(Dialect::MariaDb, "orders", false));
        assert_eq!(of(Dialect::MySql, "Orders", true), of(Dialect::MySql, "orders", false));
        assert_ne!(of(Dialect::MySql, "Orders", false), of(Dialect::MySql, "orders", false));
        assert_ne!(of(Dialect::Postgres, "a.orders", false), of(Dialect::Postgres, "b.orders", false));
        // In 32 bits these two are one.
        assert_eq!(fnv1a("notes_23033".bytes()), fnv1a("bills_20510".bytes()));
        assert_ne!(of(Dialect::MySql, "notes_23033", false), of(Dialect::MySql, "bills_20510", false));
    }
}
