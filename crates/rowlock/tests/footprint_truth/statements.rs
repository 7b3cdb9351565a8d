//! The statements, made from patterns: each pattern with several choices of rows.

use rowlock_testing::{Engine, Family};

pub(crate) struct Statement {
    pub(crate) pattern: &'static str,
    pub(crate) sql: String,
    /// It has conditions beside the key: rows that it names may turn out not to meet them, and are then let go.
    pub(crate) filters: bool,
}

/// `{a}` and `{b}` become rows that are there (orders and items 1 to 3), `{x}` and `{y}` new keys, `{share}` the engine's
/// words. A `?` in front: there are conditions beside the key.
const EVERYWHERE: &[&str] = &[
    "select * from items where id = {a}",
    "select * from items where id = {a} for update",
    "select * from items where {a} = id for update",
    "select * from items where id = '{a}' for update",
    "select * from items where id = {x} for update",
    "select * from items where id in ({a}, {b}) for update",
    "select * from items where id = {a} or id = {b} for update",
    "select * from items where id in ({b}, {a}) {share}",
    "select * from items where sku = 's{a}' for update",
    "select * from items where sku in ('s{a}', 's{b}') {share}",
    "select * from items where id = {a} and sku = 's{a}' for update",
    "? select * from items where id = {a} and sku = 's{b}' for update",
    "? select * from items where id = {a} and stock > 1 for update",
    "? select * from items where id = {a} and id = {b} for update",
    "? select * from items where id in (1, 2, {b}) and id in ({a}, 4) for update",
    "? select * from items where id in ({a}, {b}) and not stock = 2 for update",
    "select * from items where id between {a} and 3 for update",
    "select * from items where stock >= {a} for update",
    "select * from items order by id limit {a} for update",
    "select * from items where id = {a} + 1 for update",
    "select * from order_lines where order_id = {a} and line = 1 for update",
    "select * from order_lines where (order_id, line) in (({a}, 1), ({b}, 1)) for update",
    "select * from order_lines where order_id = {a} and line in (1, 2) for update",
    "select * from order_lines where order_id = {a} for update",
    "select * from order_lines where (order_id = {a} and line = 1) or (order_id = {b} and line = 1) {share}",
    "select o.* from orders o join customers c on c.id = o.customer where o.id = {a} for update",
    "select o.* from orders o join customers c on c.id = o.customer where o.id = {a} and c.id = {a} {share}",
    "select * from orders where customer in (select id from customers where id = {a}) for update",
    "? select * from orders o where exists (select 1 from order_lines l where l.order_id = o.id and l.item = {b}) and o.id = {a} for update",
    "select * from (select * from items where id = {a}) i for update",
    "update items set stock = stock - 1 where id = {a}",
    "update items set stock = 7 where id in ({b}, {a})",
    "update items set stock = 7 where sku = 's{a}'",
    "update items set sku = 'new{a}' where id = {a}",
    "update items set sku = 's{a}' where id = {a}",
    "update items set stock = 7 where stock >= {a}",
    "? update items set stock = 7 where id = {a} and stock > 1",
    "update items set id = {x} where id = 5",
    "update customers set n = n + 1 where email = 'c{a}' or id = {b}",
    "update orders set n = n + 1 where id = {a}",
    "update orders set customer = {b} where id = {a}",
    "update orders set customer = customer where id = {a}",
    "update orders set n = (select stock from items where id = {a}) where id = {b}",
    "? update orders set n = 1 where id = {a} and customer in (select id from customers where id = {b})",
    "update order_lines set item = null where order_id = {a} and line = 1",
    "update order_lines set item = {b} where order_id = {a} and line = 1",
    "update order_lines set n = 2 where order_id = {a}",
    "delete from notes where id = {a}",
    "delete from notes where id in ({a}, {b})",
    "delete from notes where item = 4",
    "delete from order_lines where order_id = {a} and line = 1",
    "delete from order_lines where order_id = {a}",
    "delete from orders where id = {a}",
    "delete from orders where id in ({b}, {a})",
    "delete from items where id = 4",
    "delete from items where sku = 's5'",
    "delete from customers where id = 5",
    "delete from profiles where customer = {a}",
    "insert into items (id, sku, stock) values ({x}, 'x{x}', 1)",
    "insert into items (id, sku, stock) values ({x}, 'x{x}', 1), ({y}, 'x{y}', 1)",
    "insert into orders (id, customer, n) values ({x}, {a}, 1)",
    "insert into orders (id, customer, n) values ({x}, {a}, 1), ({y}, {b}, 1)",
    "insert into order_lines (order_id, line, item, n) values ({a}, 9, {b}, 1)",
    "insert into order_lines (order_id, line, item, n) values ({a}, 9, null, 1)",
    "insert into order_lines (order_id, line, n) values ({a}, 9, 1)",
    "insert into order_lines (order_id, line, item, n) select id, 8, {b}, 1 from orders where id = {a}",
    "insert into orders (id, customer, n) select {x}, id, 1 from customers where id = {a}",
    "insert into profiles (customer, bio) values (4, 'b')",
];

const POSTGRES: &[&str] = &[
    "select * from items where id = {a} for key share",
    "select * from items where id = {a} for no key update",
    "select * from items where id = any(array[{a}, {b}]) for update",
    "select o.* from orders o join customers c on c.id = o.customer where o.id = {a} for update of o",
    "select o.* from orders o join customers c on c.id = o.customer where o.id = {a} for no key update of o for key share of c",
    "select o.* from orders o left join customers c on c.id = o.customer where o.id = {a} for update of o",
    "with i as (select * from items where id = {a} for update) select * from i",
    "update orders o set n = 1 from customers c where c.id = o.customer and o.id = {a}",
    "update orders o set n = c.n from customers c where c.id = o.customer and c.id = {a}",
    "with u as (update items set stock = 0 where id = {a} returning id) update customers set n = 0 where id = {b}",
    "with d as (delete from order_lines where order_id = {a} and line = 1 returning item) select * from d",
    "delete from order_lines l using orders o where o.id = l.order_id and o.id = {a} and l.line = 1",
    "insert into items (id, sku, stock) values ({x}, 'x{x}', 1) on conflict (id) do update set stock = excluded.stock",
    "insert into items (id, sku, stock) values ({a}, 'x{x}', 1) on conflict (id) do update set stock = excluded.stock",
    "insert into items (id, sku, stock) values ({x}, 's{a}', 1) on conflict (sku) do update set stock = excluded.stock",
    "insert into items (id, sku, stock) values ({a}, 's{a}', 1) on conflict do nothing",
    "insert into items (id, sku, stock) values ({x}, 'x{x}', 1) on conflict do nothing",
    "insert into orders (id, customer, n) values ({a}, {b}, 1) on conflict (id) do update set n = 5",
    "merge into items i using (values ({a}, 5)) v (id, stock) on i.id = v.id when matched then update set stock = v.stock",
    "merge into items i using (values ({a}, 5)) v (id, stock) on i.id = v.id when matched then update set stock = v.stock \
     when not matched then insert (id, sku, stock) values (v.id, 'm', v.stock)",
];

const INNODB: &[&str] = &[
    "update orders o join customers c on c.id = o.customer set o.n = 1 where o.id = {a}",
    "update orders o, customers c set o.n = 1, c.n = 1 where c.id = o.customer and o.id = {a} and c.id = {a}",
    "delete l from order_lines l join orders o on o.id = l.order_id where o.id = {a} and l.line = 1",
    "insert into items (id, sku, stock) values ({x}, 'x{x}', 1) on duplicate key update stock = 9",
    "insert into items (id, sku, stock) values ({a}, 'x{x}', 1) on duplicate key update stock = 9",
    "insert into items (id, sku, stock) values ({x}, 's{a}', 1) on duplicate key update stock = 9",
    "insert ignore into items (id, sku, stock) values ({a}, 's{a}', 1)",
    "insert ignore into items (id, sku, stock) values ({x}, 'x{x}', 1)",
    "insert into orders (id, customer, n) values ({a}, {b}, 1) on duplicate key update n = 9",
    "replace into items (id, sku, stock) values ({x}, 'x{x}', 1)",
    "replace into items (id, sku, stock) values (5, 's5', 1)",
    "replace into items (id, sku, stock) values ({x}, 's5', 1)",
    "replace into notes (id, item) values ({a}, {b})",
    "replace into order_lines (order_id, line, item, n) values ({a}, 1, {b}, 1)",
    "update items set stock = 9 where id = {a} limit 1",
    "update items set stock = 9 order by id limit {a}",
    "delete from notes where id = {a} limit 1",
];

/// Rows that are there, and new keys.
const CHOICES: [(i64, i64, i64, i64); 3] = [(1, 2, 101, 102), (2, 3, 104, 103), (3, 1, 6, 7)];

pub(crate) fn all(engine: Engine) -> Vec<Statement> {
    let own = if engine.family() == Family::Postgres { POSTGRES } else { INNODB };
    let share = if engine == Engine::MariaDb { "lock in share mode" } else { "for share" };
    let mut all: Vec<Statement> = Vec::new();
    for pattern in EVERYWHERE.iter().chain(own) {
        for (a, b, x, y) in CHOICES {
            let values = [("{a}", a), ("{b}", b), ("{x}", x), ("{y}", y)];
            let text = pattern.trim_start_matches("? ").replace("{share}", share);
            let sql = values.iter().fold(text, |sql, (name, value)| sql.replace(name, &value.to_string()));
            if all.last().is_none_or(|last| last.sql != sql) {
                all.push(Statement { pattern, sql, filters: pattern.starts_with('?') });
            }
        }
    }
    all
}
