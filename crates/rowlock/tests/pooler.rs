//! Transactions behind PgBouncer in transaction mode, of a version that carries no prepared statements.

mod support;

use std::time::Duration;

use rowlock::{Db, Error};
use rowlock_testing::{TestDb, engines};
use sqlx::{Connection, Postgres};
use support::{Inventory, Order, Row, open};

engines! { pgbouncer:
    async fn transactions_share_servers_and_disturb_nobody(test: TestDb) {
        let db: Db<Postgres> = open(&test).await;
        // Another service leaves its statements prepared on whatever server it got, under the names that sqlx gives.
        for _ in 0..3 {
            let mut other = sqlx::PgConnection::connect(test.url()).await.unwrap();
            let _ = sqlx::query("select 'left behind'").execute(&mut other).await;
        }
        let clients: Vec<_> = (0..8i64)
            .map(|client| {
                let db = db.clone();
                tokio::spawn(async move {
                    for round in 0..25i64 {
                        let id = 1 + (client + round) % 20;
                        db.transaction(async |tx| {
                            let (tx, order) = tx.lock::<Order>([id]).fetch_one::<Row>().await?;
                            let mut tx = tx.lock::<Inventory>([id, id % 20 + 1]).await?;
                            let update = "update inventories set n = n - 1 where id = $1";
                            rowlock::query(update).bind(id).execute(&mut tx).await?;
                            sqlx::query("update orders set n = $2 where id = $1")
                                .bind(id)
                                .bind(order.n + 1)
                                .execute(&mut tx)
                                .await?;
                            Ok::<_, Error>(())
                        })
                        .await?;
                        let sale = rowlock::query("update inventories set n = n - 1 where id = $1 and n > 0").bind(id);
                        assert_eq!(db.kind("sell").execute(sale).await?, 1);
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap().unwrap();
        }
        let sold = "select (select sum(1000 - n) from inventories where n < 1000) || ' ' || (select sum(n - 1000) from orders)";
        assert_eq!(test.value(sold).await, "400 200");
    }

    async fn a_wait_limit_ends_the_statement_at_the_server(test: TestDb) {
        let db: Db<Postgres> = open(&test).await;
        let mut other = test.connect().await;
        other.run("begin; select 1 from orders where id = 10 for update").await.unwrap();
        let wait = Duration::from_millis(50);
        let error = db
            .kind("hurried")
            .attempts(1)
            .transaction(async |tx| tx.lock::<Order>([10]).wait(wait).await.map(drop))
            .await
            .unwrap_err();
        assert!(error.is_busy(), "{error}");
        let waiting = "select count(*) from pg_locks l join pg_stat_activity a using (pid)
                       where not l.granted and a.datname = current_database()";
        assert_eq!(test.value(waiting).await, "0");
    }
}
