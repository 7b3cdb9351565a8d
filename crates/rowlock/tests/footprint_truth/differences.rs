//! Where the model and a server differ, and why that may stay.

use rowlock_testing::Engine;

use crate::compare::Difference;

#[derive(Debug)]
pub(crate) struct Known {
    engines: &'static [Engine],
    /// As in `statements.rs`.
    pattern: &'static str,
    /// Which kind, by `Difference::word`.
    difference: &'static str,
    #[allow(dead_code, reason = "read by people, and printed when it no longer holds")]
    reason: &'static str,
}

const PG15: Engine = Engine::Pg15;
const PG18: Engine = Engine::Pg18;
const MARIADB: Engine = Engine::MariaDb;
const MYSQL: Engine = Engine::MySql;

pub(crate) const KNOWN: &[Known] = &[
    Known {
        engines: &[PG15, PG18],
        pattern: "update items set sku = 's{a}' where id = {a}",
        difference: "too strong",
        reason: "the server compares the new value with the old one, which the text does not tell; and it does not when \
                 the row was changed while it waited",
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "insert into items (id, sku, stock) values ({a}, 'x{x}', 1) on conflict (id) do update set stock = excluded.stock",
        difference: "too strong",
        reason: INSERTS,
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "insert into items (id, sku, stock) values ({x}, 's{a}', 1) on conflict (sku) do update set stock = excluded.stock",
        difference: "too strong",
        reason: INSERTS,
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "insert into orders (id, customer, n) values ({a}, {b}, 1) on conflict (id) do update set n = 5",
        difference: "too strong",
        reason: INSERTS,
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "insert into orders (id, customer, n) values ({a}, {b}, 1) on conflict (id) do update set n = 5",
        difference: "not locked",
        reason: "the parent: as it is when the row is new",
    },
    Known {
        engines: &[MARIADB],
        pattern: "insert into orders (id, customer, n) values ({a}, {b}, 1) on duplicate key update n = 9",
        difference: "not locked",
        reason: "the parent: as it is when the row is new; MySQL locks it in any case",
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "insert into items (id, sku, stock) values ({a}, 's{a}', 1) on conflict do nothing",
        difference: "not locked",
        reason: "nothing is done when the row is there; whether it is, the text does not tell, and while its maker is under \
                 way it is waited for",
    },
    Known {
        engines: &[MARIADB, MYSQL],
        pattern: "insert ignore into items (id, sku, stock) values ({a}, 's{a}', 1)",
        difference: "too strong",
        reason: "shared when the row is there, exclusive when it is new",
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "merge into items i using (values ({a}, 5)) v (id, stock) on i.id = v.id when matched then update set stock = v.stock \
                  when not matched then insert (id, sku, stock) values (v.id, 'm', v.stock)",
        difference: "too strong",
        reason: INSERTS,
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "insert into items (id, sku, stock) values ({x}, 'x{x}', 1), ({a}, 'q', 1) on conflict (id) do update set stock = 0",
        difference: "too strong",
        reason: INSERTS,
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "insert into items (id, sku, stock) values ({a}, 'zz', 1) on conflict (id) do update set stock = 0 where items.stock > 100",
        difference: "too strong",
        reason: INSERTS,
    },
    Known {
        engines: &[PG15, PG18],
        pattern: "update refs set sku = 's{b}' where id = 1",
        difference: "not locked",
        reason: "the parent is not checked where the value stays as it was (once in three here), which the text does not tell",
    },
    Known {
        engines: &[MARIADB, MYSQL],
        pattern: "update refs set sku = 's{b}' where id = 1",
        difference: "not locked",
        reason: ENTRY,
    },
    Known {
        engines: &[MARIADB, MYSQL],
        pattern: "insert into refs (id, sku) values ({x}, 's{a}')",
        difference: "not locked",
        reason: ENTRY,
    },
    Known {
        engines: &[MARIADB, MYSQL],
        pattern: "select * from codes where b = {a} and a = 1 {share}",
        difference: "not locked",
        reason: "read shared by an index that has all the columns in it: only that entry is locked",
    },
    Known {
        engines: &[MARIADB],
        pattern: "insert into notes (id, item) values ({a}, {b}) on duplicate key update item = 3",
        difference: "not locked",
        reason: "the parent: as it is when the row is new; MySQL locks it in any case",
    },
    Known {
        engines: &[MARIADB],
        pattern: "update items i left join orders o on o.id = i.id set i.stock = 1 where i.id = {a}",
        difference: "not locked",
        reason: "a table that is joined for nothing is left out of the plan; MySQL reads it",
    },
];

/// Of InnoDB's foreign keys that point at another unique key than the primary.
const ENTRY: &str = "the check locks the entry of the unique index that it reads and not the row: who deletes the row or \
                     changes that column waits, who changes another does not";

const INSERTS: &str = "a new row is held as strongly as can be; whether it is new, the text does not tell";

/// The entry that knows this difference.
pub(crate) fn known(engine: Engine, pattern: &str, difference: &Difference) -> Option<usize> {
    of(engine).find(|&at| KNOWN[at].pattern == pattern && KNOWN[at].difference == difference.word())
}

/// The entries of an engine.
pub(crate) fn of(engine: Engine) -> impl Iterator<Item = usize> {
    (0..KNOWN.len()).filter(move |&at| KNOWN[at].engines.contains(&engine))
}
