//! A parent that is deleted with its children, and theirs: `ON DELETE CASCADE`.

use rowlock::{Before, Db, Engine, Error, Tx};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::AssertSqlSafe;

rowlock::lock_order! {
    order Baskets {
        Basket => "baskets" (id: i64),
        Line   => "basket_lines"   (basket_id: i64, line: i64),
        Note   => "notes"   (id: i64),
    }
}

/// Children before their parent: they are late when it is deleted.
mod reversed {
    rowlock::lock_order! {
        pub(super) order Reversed {
            Note   => "notes"   (id: i64),
            Line   => "basket_lines"   (basket_id: i64, line: i64),
            Basket => "baskets" (id: i64),
        }
    }
}

const BASKETS: i64 = 6;
const LINES: i64 = 4;

async fn tables(test: &TestDb) {
    test.execute(
        "create table baskets (id bigint not null primary key, n bigint not null);
         create table basket_lines (basket_id bigint not null, line bigint not null, n bigint not null,
             primary key (basket_id, line), foreign key (basket_id) references baskets (id) on delete cascade);
         create table notes (id bigint not null primary key, basket_id bigint, line bigint, parent bigint, n bigint not null,
             foreign key (basket_id, line) references basket_lines (basket_id, line) on delete cascade)",
    )
    .await;
    // MySQL 9.7 refuses to follow a table round to itself (6575).
    if test.engine() != rowlock_testing::Engine::MySql {
        let tree = "alter table notes add foreign key (parent) references notes (id) on delete cascade";
        if test.family() == Family::Sqlite {
            test.execute(
                "drop table notes;
                 create table notes (id bigint not null primary key, basket_id bigint, line bigint,
                     parent bigint references notes (id) on delete cascade, n bigint not null,
                     foreign key (basket_id, line) references basket_lines (basket_id, line) on delete cascade)",
            )
            .await;
        } else {
            test.execute(tree).await;
        }
    }
    for basket in 1..=BASKETS {
        test.execute(&format!("insert into baskets (id, n) values ({basket}, 0)")).await;
        // They lie, and are scanned, from the last to the first.
        for line in (1..=LINES).rev() {
            test.execute(&format!("insert into basket_lines (basket_id, line, n) values ({basket}, {line}, 0)")).await;
            let id = basket * 100 + line * 10;
            test.execute(&format!(
                "insert into notes (id, basket_id, line, parent, n) values ({id}, {basket}, {line}, null, 0);
                 insert into notes (id, basket_id, line, parent, n) values ({}, {basket}, {line}, {id}, 0)",
                id + 1
            ))
            .await;
        }
    }
}

async fn open<E: Engine>(test: &TestDb) -> Db<E> {
    tables(test).await;
    let db = Db::builder(Baskets).open(test.pool_of::<E>(20).await).await.unwrap();
    db.install().await.unwrap();
    db
}

async fn delete<E: Engine, L>(tx: &mut Tx<E, L>, basket: i64) -> Result<(), Error> {
    let sql = format!("delete from baskets where id = {basket}");
    sqlx::query::<E>(AssertSqlSafe(sql)).execute(tx).await?;
    Ok(())
}

async fn count(test: &TestDb, table: &str) -> i64 {
    test.value(&format!("select cast(count(*) as char(20)) from {table}")).await.trim().parse().unwrap()
}

engines! {
    async fn what_hangs_on_a_parent_goes_with_it<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        if test.engine() != rowlock_testing::Engine::MySql {
            // Reached through another note alone.
            test.execute("update notes set basket_id = null, line = null where parent is not null").await;
        }
        // By a literal, by a value that the guard sees, and by one that it does not, of a row that is held.
        db.transaction(async |mut tx| delete(&mut tx, 1).await).await.unwrap();
        let parameter = if test.family() == Family::Postgres { "$1" } else { "?" };
        let sql = format!("delete from baskets where id = {parameter}");
        db.transaction(async |mut tx| rowlock::query(AssertSqlSafe(sql.as_str())).bind(2_i64).execute(&mut tx).await).await.unwrap();
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Basket>([3]).update().await?;
            sqlx::query_with::<E, _>(AssertSqlSafe(sql.as_str()), one::<E>(3)).execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap();
        // After its children were found, too.
        db.transaction(async |tx| {
            let mut tx = tx.lock_where::<Line>("t.basket_id = 4").await?;
            delete(&mut tx, 4).await
        }).await.unwrap();
        assert_eq!((count(&test, "baskets").await, count(&test, "basket_lines").await, count(&test, "notes").await), (2, 2 * LINES, 4 * LINES));
        // Of a parent that nobody can name before, its children cannot be known either.
        let error = db.transaction(async |mut tx| {
            sqlx::query_with::<E, _>(AssertSqlSafe(sql.as_str()), one::<E>(5)).execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(error.to_string().contains("tx.lock::<Basket>"), "{error}");
    }
}

fn one<E: Engine>(value: i64) -> E::Arguments {
    use sqlx::Arguments;
    let mut arguments = E::Arguments::default();
    arguments.add(value).unwrap();
    arguments
}

engines! { servers:
    async fn by_itself_it_deadlocks_and_by_rowlock_it_does_not<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let (first, second) = match test.family() {
            // InnoDB goes down from each line to its notes, PostgreSQL from line to line as they lie.
            Family::InnoDb => ("select n from basket_lines where basket_id = 1 and line = 2 for update", "select n from notes where id = 110 for update"),
            _ => ("select n from basket_lines where basket_id = 1 and line = 1 for update", "select n from basket_lines where basket_id = 1 and line = 2 for update"),
        };
        let [mut ordered, mut naive] = test.sessions(["ordered", "naive"]).await;
        ordered.run("begin").await;
        ordered.run(first).await;
        naive.start("delete from baskets where id = 1");
        naive.assert_blocked_by(&ordered).await;
        ordered.start(second);
        let outcome = ordered.outcome().await;
        ordered.step("rollback").await;
        assert!(naive.outcome().await.is_deadlock() || outcome.is_deadlock(), "naively: {outcome}");

        tokio::time::timeout(std::time::Duration::from_secs(60), async {
            let mut ordered = test.session("ordered").await;
            ordered.run("begin").await;
            ordered.run("select n from basket_lines where basket_id = 2 and line = 1 for update").await;
            let task = tokio::spawn({
                let db = db.clone();
                async move { db.transaction(async |mut tx| delete(&mut tx, 2).await).await }
            });
            test.until_blocked(1).await;
            ordered.run("select n from basket_lines where basket_id = 2 and line = 2 for update").await;
            ordered.run("select n from notes where id = 210 for update").await;
            ordered.run("commit").await;
            task.await.unwrap().unwrap();
        }).await.unwrap();
        assert_eq!(count(&test, "basket_lines where basket_id = 2").await, 0);
        assert_eq!(db.counts().deadlocks, 0);
    }
}

const TASKS: i64 = 8;
const ROUNDS: i64 = 25;

/// One transaction of the load: a basket is deleted with all that hangs on it, or lines of two baskets are locked and
/// changed and one is added.
async fn work<E: Engine>(db: &Db<E>, task: i64, round: i64, innodb: bool) -> Result<(), Error> {
    let basket = 1 + (task + round) % BASKETS;
    if task % 2 == 0 {
        let looks = task % 4 == 0 || innodb;
        let gone = async |tx: Tx<E, rowlock::Start>| {
            if !looks {
                let mut tx = tx;
                return delete(&mut tx, basket).await;
            }
            let (mut tx, there) = tx.lock::<Basket>([basket]).update().existing().fetch_all::<(i64, i64)>().await?;
            if there.is_empty() { Ok(()) } else { delete(&mut tx, basket).await }
        };
        db.kind("delete").transaction(gone).await?;
        return db.kind("make").transaction(async |tx| make(tx, basket).await).await;
    }
    db.kind("lines")
        .transaction(async |tx| {
            let (mut tx, there) = tx.lock::<Basket>([basket]).key_share().existing().fetch_all::<(i64, i64)>().await?;
            if !there.is_empty() {
                let new = format!(
                    "insert into basket_lines (basket_id, line, n) values ({basket}, {}, 0)",
                    1000 + task * 100 + round
                );
                sqlx::query::<E>(AssertSqlSafe(new)).execute(&mut tx).await?;
            }
            Ok::<_, Error>(())
        })
        .await?;
    db.kind("notes")
        .transaction(async |tx| {
            let other = 1 + (basket + 2) % BASKETS;
            let keys = [basket, other].into_iter().flat_map(|basket| (1..=LINES).map(move |line| (basket, line)));
            let tx = tx.lock::<Line>(keys).existing().await?;
            let tx = tx.lock::<Note>([basket * 100 + 10, other * 100 + 21, basket * 100 + 31]).existing().await?;
            drop(tx);
            Ok::<_, Error>(())
        })
        .await
}

/// A basket, if there is none, with its lines and notes.
async fn make<E: Engine, L: Before<Basket>>(tx: Tx<E, L>, basket: i64) -> Result<(), Error> {
    // On InnoDB two who make what a third deletes deadlock without it.
    let tx = tx.guard_creation::<Basket>([basket]).await?;
    let (mut tx, there) = tx.lock::<Basket>([basket]).existing().fetch_all::<(i64, i64)>().await?;
    if !there.is_empty() {
        return Ok(());
    }
    sqlx::query::<E>(AssertSqlSafe(format!("insert into baskets (id, n) values ({basket}, 0)")))
        .execute(&mut tx)
        .await?;
    for line in 1..=LINES {
        let sql = format!("insert into basket_lines (basket_id, line, n) values ({basket}, {line}, 0)");
        sqlx::query::<E>(AssertSqlSafe(sql)).execute(&mut tx).await?;
    }
    for line in 1..=LINES {
        let id = basket * 100 + line * 10;
        let sql =
            format!("insert into notes (id, basket_id, line, parent, n) values ({id}, {basket}, {line}, null, 0)");
        sqlx::query::<E>(AssertSqlSafe(sql)).execute(&mut tx).await?;
        let sql = format!(
            "insert into notes (id, basket_id, line, parent, n) values ({}, {basket}, {line}, {id}, 0)",
            id + 1
        );
        sqlx::query::<E>(AssertSqlSafe(sql)).execute(&mut tx).await?;
    }
    Ok(())
}

async fn load<E: Engine>(test: &TestDb, db: Db<E>) {
    // What is made while it is deleted, MySQL has no way not to wait for.
    let innodb = test.family() == Family::InnoDb;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let db = db.clone();
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                work(&db, task, round, innodb).await.unwrap_or_else(|error| panic!("task {task}: {error}"));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let counts = db.counts();
    assert_eq!(counts.deadlocks, 0, "{counts:?}");
}

engines! {
    async fn under_load_nothing_deadlocks<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        load(&test, db).await;
    }

    /// Declared after its children, a parent takes them late: without waiting, or all up front.
    async fn children_that_are_declared_before_their_parent<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(reversed::Reversed).open(test.pool_of::<E>(8).await).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..4 {
            let db = db.clone();
            tasks.spawn(async move {
                for basket in 1..=BASKETS {
                    let done = match task % 2 {
                        0 => db.transaction(async |mut tx| delete(&mut tx, basket).await).await,
                        _ => db.transaction(async |tx| {
                            let tx = tx.lock::<reversed::Line>((1..=LINES).map(|line| (basket, line))).existing().await?;
                            tx.lock::<reversed::Basket>([basket]).existing().await.map(drop)
                        }).await,
                    };
                    done.unwrap_or_else(|error| panic!("{error}"));
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert_eq!((db.counts().deadlocks, count(&test, "notes").await), (0, 0));
    }
}
