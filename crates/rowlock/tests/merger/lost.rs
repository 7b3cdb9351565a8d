//! COMMIT, and its answer, lost on the way: with a commit token or a ledger it is resolved, and nothing is applied twice.

use futures_util::future::join_all;
use rowlock::{Db, Engine, Merger, Outcome};
use rowlock_testing::{Family, Lost, Proxy, TestDb, engines};
use sqlx::pool::PoolOptions;

use crate::{
    STOCK,
    support::{Inventory, Shop, tables},
};

/// The COMMIT that stands alone, as it goes over the wire: READ COMMITTED is none.
fn commit(test: &TestDb) -> &'static str {
    if test.family() == Family::Postgres { "commit\0" } else { "\x03commit" }
}

async fn open<E: Engine>(test: &TestDb, proxy: &Proxy) -> Db<E> {
    tables(test).await;
    let pool = PoolOptions::<E>::new().max_connections(3).connect(proxy.url()).await.unwrap();
    let db = Db::builder(Shop).open(pool).await.unwrap();
    db.install().await.unwrap();
    test.execute(&rowlock::ledger_sql(db.dialect(), "stock_ledger")).await;
    db
}

/// A batch of ten on two rows, of which the last of each does not fit.
async fn ten<E: Engine>(merger: &Merger<E, Inventory>) {
    let calls = (0..10).map(|n| merger.subtract(20 + 10 * (n % 2), if n < 8 { 1 } else { 5000 }));
    let outcomes: Vec<Outcome> = join_all(calls).await.into_iter().map(|outcome| outcome.unwrap()).collect();
    let applied = |n: usize| outcomes[n].value();
    let first = applied(0).unwrap();
    for n in 0..8 {
        assert_eq!(applied(n), Some(first - n as i64 / 2), "{outcomes:?}");
    }
    assert_eq!(outcomes[8], Outcome::Insufficient { found: first - 3 });
    assert_eq!(outcomes[9], Outcome::Insufficient { found: first - 3 });
}

async fn stock(test: &TestDb) -> (String, String) {
    let n = async |id: i64| test.value(&format!("select n from inventories where id = {id}")).await;
    (n(20).await, n(30).await)
}

engines! { servers:
    async fn a_commit_token_resolves_it<E: Engine>(test: TestDb) {
        let proxy = Proxy::to(test.url()).await.unwrap();
        let db = open::<E>(&test, &proxy).await;
        let merger = db.kind("merged").commit_token(true).merger(STOCK).start().await.unwrap();
        for (n, lost) in [Lost::Request, Lost::Answer, Lost::Request, Lost::Answer].into_iter().enumerate() {
            proxy.cut_at("); commit", lost);
            ten(&merger).await;
            assert_eq!(proxy.cuts(), n + 1);
            let left = (1000 - 4 * (n + 1)).to_string();
            assert_eq!(stock(&test).await, (left.clone(), left), "{lost:?}");
        }
    }

    async fn a_ledger_resolves_it<E: Engine>(test: TestDb) {
        let proxy = Proxy::to(test.url()).await.unwrap();
        let db = open::<E>(&test, &proxy).await;
        let merger = db.kind("merged").merger(STOCK).ledger("stock_ledger").start().await.unwrap();
        for (n, lost) in [Lost::Request, Lost::Answer, Lost::Request, Lost::Answer].into_iter().enumerate() {
            proxy.cut_at(commit(&test), lost);
            ten(&merger).await;
            assert_eq!(proxy.cuts(), n + 1);
            let left = (1000 - 4 * (n + 1)).to_string();
            assert_eq!(stock(&test).await, (left.clone(), left), "{lost:?}");
            let entries = test.value("select count(*) from stock_ledger").await;
            assert_eq!(entries, (10 * (n + 1)).to_string());
        }
    }
}
