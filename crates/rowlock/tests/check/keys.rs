//! What the check lets pass is locked: keys of every type, with the values that go wrong most easily, found by the key's
//! index, in the order of their bytes.

use std::sync::{Arc, Mutex};

use rowlock::{AsKey, Db, Engine, Error, Guard, Resource};
use rowlock_testing::{Family, TestDb};
use sqlx::{query_builder::Separated, types::Uuid};

rowlock::lock_order! {
    order Kinds {
        Number => "by_number" (id: i64),
        Name   => "by_name"   (id: String),
        Token  => "by_token"  (id: Uuid),
        Digest => "by_digest" (id: Vec<u8>),
        Pair   => "by_pair"   (name: String, n: i32),
    }
}

async fn tables(db: &TestDb) {
    let (text, uuid, bytes) = match (db.family(), db.engine()) {
        (Family::Postgres, _) => ("text", "uuid", "bytea"),
        (Family::InnoDb, rowlock_testing::Engine::MySql) => {
            ("varchar(40) character set utf8mb4 collate utf8mb4_0900_bin", "binary(16)", "varbinary(40)")
        }
        (Family::InnoDb, _) => {
            ("varchar(40) character set utf8mb4 collate utf8mb4_nopad_bin", "binary(16)", "varbinary(40)")
        }
        (Family::Sqlite, _) => ("text", "blob", "blob"),
    };
    db.execute(&format!(
        "create table by_number (id bigint not null primary key); create table by_name (id {text} not null primary key);
         create table by_token (id {uuid} not null primary key); create table by_digest (id {bytes} not null primary key);
         create table by_pair (n int not null, name {text} not null, primary key (n, name))"
    ))
    .await;
}

async fn fill<E: Engine, K: Sync>(
    db: &Db<E>,
    columns: &str,
    keys: &[K],
    push: impl Fn(&mut Separated<'_, E, &'static str>, &K) + Send + Sync,
) {
    let filled = db
        .kind("fill")
        .guard(Guard::Observe)
        .transaction(async |mut tx| {
            let mut insert = sqlx::QueryBuilder::<E>::new(format!("insert into {columns} "));
            insert.push_values(keys, |mut row, key| push(&mut row, key));
            insert.build().execute(&mut tx).await?;
            Ok::<_, Error>(())
        })
        .await;
    filled.unwrap_or_else(|error| panic!("{error}"));
}

/// All of `keys` are found and come in the order of their bytes; the first alone is then held against others, and its
/// neighbours are not.
async fn locks<E: Engine, R: Resource<Order = Kinds>>(db: &Db<E>, keys: &[R::Key])
where
    R::Key: AsKey<R::Key> + PartialEq + rowlock::Key,
    rowlock::Start: rowlock::Before<R>,
{
    let mut sorted = keys.to_vec();
    sorted.sort_by_key(rowlock::Key::value);
    let found = db
        .transaction(async |tx| Ok::<_, Error>(tx.lock::<R>(keys.iter().chain(keys).cloned()).keys().await?.1))
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found, sorted);
    if db.dialect() == rowlock::Dialect::Sqlite {
        // One writer at a time: another would wait for the file.
        return;
    }
    let (first, others) = sorted.split_first().unwrap_or_else(|| panic!("keys are wanted"));
    let result = db
        .transaction(async |tx| {
            let _held = tx.lock::<R>([first.clone()]).await?;
            let busy = db
                .kind("another")
                .attempts(1)
                .transaction(async |tx| tx.lock::<R>([first.clone()]).nowait().await.map(drop))
                .await;
            assert!(matches!(&busy, Err(error) if error.is_busy()), "{first:?} is not locked: {busy:?}");
            let free = db
                .transaction(async |tx| Ok::<_, Error>(tx.lock::<R>(others.to_vec()).nowait().keys().await?.1))
                .await?;
            assert_eq!(free, others);
            Ok::<_, Error>(())
        })
        .await;
    result.unwrap_or_else(|error| panic!("{error}"));
}

rowlock_testing::engines! {
    async fn keys_of_every_type_are_locked<E: Engine>(test: TestDb) {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_max_level(tracing::Level::WARN).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        tables(&test).await;
        let db: Db<E> = Db::builder(Kinds).open(test.pool::<E>().await).await.unwrap();

        let names: Vec<String> =
            ["a", "A", "a ", "ä", "日", "", "it's", "\\", "a\u{300}", "ß", "ss"].map(String::from).to_vec();
        let numbers = vec![i64::MIN, -1, 0, 1, 1 << 53, (1 << 53) + 1, i64::MAX];
        let tokens: Vec<Uuid> = [0, 1, u128::MAX, 1 << 127, 0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c8].map(Uuid::from_u128).to_vec();
        let digests = vec![vec![0u8], vec![0, 0], vec![], b"'".to_vec(), vec![255, 0], vec![b'a', b' '], vec![b'a']];
        let pairs: Vec<(String, i32)> = vec![("b".into(), 1), ("a".into(), 2), ("a".into(), -1), ("A".into(), 9)];

        fill(&db, "by_number (id)", &numbers, |row, id| { row.push_bind(*id); }).await;
        fill(&db, "by_name (id)", &names, |row, id| { row.push_bind(id.clone()); }).await;
        fill(&db, "by_token (id)", &tokens, |row, id| { row.push_bind(*id); }).await;
        fill(&db, "by_digest (id)", &digests, |row, id| { row.push_bind(id.clone()); }).await;
        fill(&db, "by_pair (name, n)", &pairs, |row, (name, n)| { row.push_bind(name.clone()).push_bind(*n); }).await;

        locks::<E, Number>(&db, &numbers).await;
        locks::<E, Name>(&db, &names).await;
        locks::<E, Token>(&db, &tokens).await;
        locks::<E, Digest>(&db, &digests).await;
        locks::<E, Pair>(&db, &pairs).await;
        // Debug builds look at each plan.
        assert!(!log.text().contains("the plan does not lock"), "{}", log.text());
    }
}

/// What was traced, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Log;
    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}
