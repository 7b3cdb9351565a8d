//! Connections that died in the pool, and how often the pool that `Builder::connect` makes asks whether they live.

use std::time::Duration;

use rowlock::{Db, Engine, Result};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::{MySql, MySqlPool, pool::PoolOptions};

use crate::{
    add, n,
    server::{kill, session},
    support::{Order, Shop, tables},
};

async fn open<E: Engine>(test: &TestDb) -> Db<E> {
    tables(test).await;
    Db::builder(Shop).connect_with(PoolOptions::new().max_connections(1), test.url().parse().unwrap()).await.unwrap()
}

/// Changes a row; the session that it ran in at last.
async fn change<E: Engine>(db: &Db<E>, family: Family) -> Result<i64> {
    db.transaction(async |mut tx| {
        let session = session(&mut tx, family).await?;
        let mut tx = tx.lock::<Order>([10]).await?;
        add(&mut tx, "orders", 10, 1).await?;
        Ok(session)
    })
    .await
}

engines! { servers:
    async fn one_that_died_a_moment_ago_is_a_transaction_again<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let dead = change(&db, test.family()).await.unwrap();
        kill(&test, dead).await;
        let next = change(&db, test.family()).await.unwrap();
        assert_ne!(next, dead);
        assert_eq!(n(&test, "orders", 10).await, 1002);
    }

    async fn one_that_died_long_ago_is_not_given_out<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let dead = change(&db, test.family()).await.unwrap();
        kill(&test, dead).await;
        // The time that it is idle is what counts here.
        tokio::time::sleep(Duration::from_millis(600)).await;
        let next = change(&db, test.family()).await.unwrap();
        assert_ne!(next, dead);
        assert_eq!(db.counts().other_retries, 0, "{:?}", db.counts());
    }
}

/// How often the only connection of `pool` is asked in one use of it: at its return, and as it is acquired.
async fn asked(pool: &MySqlPool) -> i64 {
    let mut seen = [0; 2];
    for seen in &mut seen {
        let sql = "show session status like 'Com_admin_commands'";
        let (_, count) = sqlx::query_as::<_, (String, String)>(sql).fetch_one(pool).await.unwrap();
        *seen = count.parse().unwrap();
    }
    seen[1] - seen[0]
}

engines! { innodb:
    async fn it_is_asked_once_in_use_and_not_twice(test: TestDb) {
        let plain: MySqlPool = test.pool_of(1).await;
        assert_eq!(asked(&plain).await, 2);
        let db: Db<MySql> = open(&test).await;
        assert_eq!(asked(db.pool()).await, 1);
        let options = PoolOptions::new().max_connections(1).test_before_acquire(false);
        let never = Db::<MySql>::builder(Shop).connect_with(options, test.url().parse().unwrap()).await.unwrap();
        assert_eq!(asked(never.pool()).await, 1);
    }
}
