//! What must hold whatever happened: exact, from the tables alone, in one moment's view of them.

use serde::{Deserialize, Serialize};
use sqlx::Pool;

use crate::error::Result;
use crate::sql::query;
use crate::store::{self, Store};

/// One thing that must hold.
struct Check {
    name: &'static str,
    /// What the id of a violation names.
    what: &'static str,
    /// The violations: id, what is there, what should be.
    sql: &'static str,
}

const CHECKS: &[Check] = &[
    // What a flash sale granted is out of stock at once, and reserved with its order.
    Check {
        name: "stock + reserved + sold + granted without an order yet = delivered",
        what: "item",
        sql: "select i.id, cast(i.stock + i.reserved + i.sold + coalesce(g.quantity, 0) as {int}), i.delivered \
              from inventories i left join (select l.place, sum(l.quantity) as quantity from flash_ledger l \
              left join orders o on o.request = l.request where l.outcome = 0 and o.id is null group by l.place) g \
              on g.place = concat('inventories ', i.id) \
              where i.stock + i.reserved + i.sold + coalesce(g.quantity, 0) <> i.delivered order by i.id limit 5",
    },
    Check {
        name: "a flash-sale order was granted",
        what: "order",
        sql: "select o.id, cast(coalesce(l.outcome, -1) as {int}), cast(0 as {int}) from orders o \
              left join flash_ledger l on l.request = o.request \
              where o.request is not null and coalesce(l.outcome, -1) <> 0 order by o.id limit 5",
    },
    Check {
        name: "reserved is what open orders hold",
        what: "item",
        sql: "select i.id, i.reserved, cast(coalesce(s.quantity, 0) as {int}) from inventories i left join \
              (select l.item, sum(l.quantity) as quantity from order_lines l join orders o on o.id = l.order_id \
              where o.status = 'open' group by l.item) s on s.item = i.id \
              where i.reserved <> coalesce(s.quantity, 0) order by i.id limit 5",
    },
    Check {
        name: "sold is what paid orders hold",
        what: "item",
        sql: "select i.id, i.sold, cast(coalesce(s.quantity, 0) as {int}) from inventories i left join \
              (select l.item, sum(l.quantity) as quantity from order_lines l join orders o on o.id = l.order_id \
              where o.status = 'paid' group by l.item) s on s.item = i.id \
              where i.sold <> coalesce(s.quantity, 0) order by i.id limit 5",
    },
    Check {
        name: "money is constant",
        what: "all accounts",
        sql: "select cast(0 as {int}), balance, funded from \
              (select cast(coalesce(sum(balance), 0) as {int}) as balance, cast(coalesce(sum(funded), 0) as {int}) as funded \
              from accounts) t where balance <> funded",
    },
    Check {
        name: "each balance is what payments and transfers make of it",
        what: "account",
        sql: "select id, balance, due from (select a.id, a.balance, cast(a.funded - coalesce(p.amount, 0) + coalesce(s.amount, 0) \
              + coalesce(i.amount, 0) - coalesce(o.amount, 0) as {int}) as due from accounts a \
              left join (select account, sum(amount) as amount from payments where status = 'captured' group by account) p \
              on p.account = a.id \
              left join (select v.seller, sum(l.quantity * l.price) as amount from order_lines l \
              join orders r on r.id = l.order_id join inventories v on v.id = l.item \
              where r.status = 'paid' group by v.seller) s on s.seller = a.id \
              left join (select payee, sum(amount) as amount from transfers group by payee) i on i.payee = a.id \
              left join (select payer, sum(amount) as amount from transfers group by payer) o on o.payer = a.id) t \
              where balance <> due order by id limit 5",
    },
    Check {
        name: "each event has its effect once",
        what: "order",
        sql: "select e.order_id, count(*), cast(1 as {int}) from events e left join payments p on p.order_id = e.order_id \
              where e.outcome = 'applied' group by e.order_id \
              having count(*) <> 1 or count(p.order_id) <> 1 order by e.order_id limit 5",
    },
    Check {
        name: "a paid order has one payment of its total",
        what: "order",
        sql: "select o.id, coalesce(p.amount, 0), o.total from orders o \
              left join payments p on p.order_id = o.id and p.status = 'captured' \
              where o.status = 'paid' and (p.amount is null or p.amount <> o.total) order by o.id limit 5",
    },
    Check {
        name: "no order is in two states",
        what: "order with a payment that belies its state:",
        sql: "select o.id, p.amount, cast(0 as {int}) from payments p join orders o on o.id = p.order_id \
              where (p.status = 'captured' and o.status <> 'paid') or (p.status = 'refunded' and o.status <> 'cancelled') \
              order by o.id limit 5",
    },
    Check {
        name: "an order's total is the sum of its lines",
        what: "order",
        sql: "select o.id, o.total, cast(coalesce(l.amount, 0) as {int}) from orders o left join \
              (select order_id, sum(quantity * price) as amount from order_lines group by order_id) l on l.order_id = o.id \
              where l.amount is null or o.total <> l.amount order by o.id limit 5",
    },
];

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// What was looked at.
    pub checks: Vec<Found>,
}

/// What was found of one thing that must hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// What must hold.
    pub name: String,
    /// Where it does not: the first few.
    pub broken: Vec<String>,
}

impl Report {
    /// Whether everything holds.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.broken.is_empty())
    }

    /// What is broken, a line each.
    pub fn broken(&self) -> impl Iterator<Item = String> + '_ {
        self.checks.iter().flat_map(|check| check.broken.iter().map(move |what| format!("{}: {what}", check.name)))
    }
}

/// Looks at everything in one moment's view, so that it may be called under load.
pub async fn check<E: Store>(pool: &Pool<E>) -> Result<Report> {
    let pool = pool.clone();
    // In a task of its own: a caller that goes away must not leave the transaction half begun on a pooled connection.
    let task = tokio::spawn(async move {
        let mut tx = pool.begin_with(E::SNAPSHOT).await?;
        let mut checks = Vec::with_capacity(CHECKS.len());
        for check in CHECKS {
            let found = store::rows::<E, (i64, i64, i64)>(&mut tx, query(check.sql)).await?;
            let broken = found
                .into_iter()
                .map(|(id, is, due)| match id {
                    0 => format!("{}: {is}, should be {due}", check.what),
                    id => format!("{} {id}: {is}, should be {due}", check.what),
                })
                .collect();
            checks.push(Found { name: check.name.to_owned(), broken });
        }
        tx.rollback().await?;
        Ok(Report { checks })
    });
    task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
