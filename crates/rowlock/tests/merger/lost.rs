//! COMMIT, and its answer, lost on the way: with a commit token or a ledger it is resolved, and nothing is applied twice.

use futures_util::future::join_all;
use rowlock::{Db, Engine, Error, Merger, Outcome};
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

    /// Without either it is told as unknown, to those who were in the batch, and to nobody else.
    async fn without_either_it_is_unknown_to_its_batch<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(5).await).await.unwrap();
        let merger = db.kind("merged").merger(STOCK).start().await.unwrap();
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("select n from inventories where id = 20 for update").await;
        let stuck = tokio::spawn(join_all([merger.subtract(20, 1), merger.subtract(20, 2)]));
        test.until_blocked(1).await;
        kill_updates(&test).await;
        if test.family() == Family::Postgres {
            // There the server says that it ended the session, and did not do it: it is run again.
            assert_eq!(merger.subtract(30, 1).await.unwrap(), Outcome::Applied { value: 999 });
            holder.run("rollback").await;
            holder.close().await;
            let outcomes: Vec<_> = stuck.await.unwrap().into_iter().map(|outcome| outcome.unwrap()).collect();
            assert_eq!(outcomes, [Outcome::Applied { value: 999 }, Outcome::Applied { value: 997 }]);
            return;
        }
        for error in stuck.await.unwrap() {
            let error = error.unwrap_err();
            assert!(matches!(error, Error::Merged { requests: 2, .. }), "{error:?}");
            assert!(matches!(error.root(), Error::CommitUnknown { .. }), "{error:?}");
        }
        assert_eq!(merger.subtract(30, 1).await.unwrap(), Outcome::Applied { value: 999 });
        holder.run("rollback").await;
        holder.close().await;
        // The session was killed while it waited: this time it was not applied.
        assert_eq!(merger.subtract(20, 1).await.unwrap(), Outcome::Applied { value: 999 });
    }
}

/// Ends the sessions whose update waits.
async fn kill_updates(test: &TestDb) {
    if test.family() == Family::Postgres {
        let sql = "select pg_terminate_backend(pid, 5000) from pg_stat_activity \
                   where datname = current_database() and wait_event_type = 'Lock'";
        test.execute(sql).await;
        return;
    }
    let ids = test
        .execute("select id from information_schema.processlist where db = database() and info like 'UPDATE%'")
        .await;
    for id in ids.rows.iter().filter_map(|row| row.first().cloned().flatten()) {
        test.execute(&format!("kill {id}")).await;
    }
}
