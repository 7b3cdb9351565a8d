//! What a service writes compiles, and its futures are `Send`: spawned with borrowed captures, in handlers, generic over
//! the engine. What the runner itself holds over an await can break that, and then only users' code fails.

use std::{future::Future, sync::Arc};

use rowlock::{Before, Db, Engine, Error, Result, Start, Tx};
use rowlock_testing::guide;
use sqlx::Sqlite;

rowlock::lock_order! {
    order Shop {
        Order     => "orders"      (id: i64),
        Inventory => "inventories" (id: i64),
        Account   => "accounts"    (id: i64),
    }
}

#[derive(sqlx::FromRow)]
struct Stock {
    id: i64,
    stock: i64,
}

/// A service: it owns its database, and is generic over the engine.
struct App<E: Engine> {
    db: Db<E>,
    most: i64,
}

impl<E: Engine> App<E> {
    /// `&self`, arguments by reference, words made here: all borrowed by the closure.
    async fn place(&self, order: i64, items: &[i64]) -> Result<i64> {
        let words = vec![String::from("placed")];
        let word = &words;
        self.db
            .kind("place")
            .transaction(async |tx| {
                let mut tx = tx.lock::<Order>([order]).await?;
                let mut update = sqlx::QueryBuilder::<E>::new("update orders set status = ");
                update.push_bind(word[0].as_str()).push(" where id = ").push_bind(order);
                update.build().execute(&mut tx).await?;
                let (tx, left) = self.reserve(tx, items.iter().copied().filter(|item| *item < self.most)).await?;
                let tx = if left > 0 { tx.lock::<Account>(Some(7)).await? } else { tx.pass::<Account>() };
                drop(tx);
                Ok(left)
            })
            .await
    }

    /// A helper with a level, an iterator, and `&self`.
    async fn reserve<L: Before<Inventory>>(
        &self,
        tx: Tx<E, L>,
        items: impl Iterator<Item = i64> + Send,
    ) -> Result<(Tx<E, Inventory>, i64)> {
        let (mut tx, stock) = tx.lock::<Inventory>(items).fetch_all::<Stock>().await?;
        let mut left = 0;
        for Stock { id, stock } in stock {
            let mut update = sqlx::QueryBuilder::<E>::new("update inventories set stock = stock - 1 where id = ");
            update.push_bind(id).build().execute(&mut tx).await?;
            left += stock - 1;
        }
        Ok((tx, left))
    }
}

/// A level before `Order` goes to `Order`, from where the rest is known.
async fn from_the_start<E: Engine, L: Before<Order>>(tx: Tx<E, L>) -> Result<Tx<E, Account>> {
    let tx = tx.pass::<Order>().lock::<Inventory>([20]).await?;
    let mut tx = tx.pass::<Account>();
    for account in [7, 8, 9] {
        tx = tx.lock::<Account>([account]).await?;
    }
    Ok(tx)
}

/// What a web framework asks of a handler.
fn handler<F, Fut>(handle: F) -> F
where
    F: Fn(Arc<App<Sqlite>>, i64) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    handle
}

async fn app(test: &rowlock_testing::TestDb) -> Arc<App<Sqlite>> {
    let db = Db::builder(Shop).open(test.pool().await).await.unwrap_or_else(|error| panic!("{error}"));
    Arc::new(App { db, most: 100 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_with_borrowed_captures_is_spawned() {
    let test = guide::tables().await;
    let app = app(&test).await;
    let spawned = tokio::spawn(async move {
        let items = vec![30, 20, 500];
        app.place(10, &items).await
    });
    assert_eq!(spawned.await.unwrap().unwrap(), 198);
    assert_eq!(test.value("select status from orders where id = 10").await, "placed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_may_run_a_transaction_itself() {
    let test = guide::tables().await;
    let handle = handler(async |app: Arc<App<Sqlite>>, order: i64| {
        let placed = app.place(order, &[20]).await?;
        app.db.transaction(async |tx| tx.lock::<Order>([order]).await.map(drop)).await?;
        Ok(placed.to_string())
    });
    assert_eq!(tokio::spawn(handle(app(&test).await, 11)).await.unwrap().unwrap(), "99");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn captures_are_moved_in_outside_of_the_closure() {
    let test = guide::tables().await;
    let (db, items) = (app(&test).await.db.clone(), vec![30_i64, 20]);
    let spawned = tokio::spawn(async move {
        db.transaction(async |tx: Tx<Sqlite, Start>| {
            let tx = tx.lock::<Inventory>(&items).await?;
            Ok::<_, Error>(tx.held().len())
        })
        .await
    });
    assert_eq!(spawned.await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn levels_are_passed_and_kept_in_loops() {
    let test = guide::tables().await;
    let app = app(&test).await;
    let held = app.db.transaction(async |tx| Ok::<_, Error>(from_the_start(tx).await?.held().len())).await.unwrap();
    assert_eq!((held, app.db.counts().late), (4, 0));
}
