//! A database that was opened with an order.

use std::{
    any::TypeId,
    sync::{Arc, PoisonError, RwLock, atomic::AtomicBool},
    time::Duration,
};

use rowlock_footprint::Dialect;
use sqlx::{AssertSqlSafe, Pool, SqlSafeStr};
use tokio::{
    runtime::Handle,
    sync::{Notify, OnceCell},
};

use crate::{
    Counts, LockOrder, Resource, ResourceInfo,
    builder::Builder,
    catalog::Catalog,
    check::{self, Target},
    control::Control,
    count::Counters,
    creation,
    engine::{Engine, Road},
    error::{Error, KindName},
    failure::Failure,
    gate::Gates,
    install,
    kind::Kind,
    model::Model,
    options::Options,
    session::Sessions,
    ticker::Ticker,
    token,
    told::Told,
};

/// A database, its pool, and the order that all transactions on it are held to. Cheap to clone.
///
/// ```no_run
/// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
/// # async fn example() -> rowlock::Result<()> {
/// use rowlock::Db;
///
/// let db = Db::<sqlx::Postgres>::builder(Shop).connect("postgres://localhost/shop").await?;
/// db.transaction(async |tx| {
///     let mut tx = tx.lock::<Order>([10]).await?;
///     sqlx::query("update orders set status = 'paid' where id = $1").bind(10i64).execute(&mut tx).await?;
///     Ok(())
/// })
/// .await
/// # }
/// ```
pub struct Db<E: Engine> {
    pub(crate) shared: Arc<Shared<E>>,
}

impl<E: Engine> Clone for Db<E> {
    fn clone(&self) -> Self {
        Db { shared: self.shared.clone() }
    }
}

impl<E: Engine> std::fmt::Debug for Db<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("order", &self.shared.order).field("dialect", &self.shared.dialect).finish()
    }
}

pub(crate) struct Shared<E: Engine> {
    pub(crate) pool: Pool<E>,
    pub(crate) order: &'static str,
    pub(crate) order_type: TypeId,
    pub(crate) dialect: Dialect,
    pub(crate) version: String,
    pub(crate) options: Arc<Options>,
    pub(crate) counters: Counters,
    pub(crate) control: Control<E>,
    pub(crate) sessions: Sessions<E>,
    pub(crate) gates: Gates,
    pub(crate) told: Told,
    pub(crate) runtime: Handle,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) resources: &'static [ResourceInfo],
    model: RwLock<Arc<Model>>,
    /// One reads the schema at a time.
    renewing: tokio::sync::Mutex<()>,
    creation_rows: OnceCell<()>,
    pub(crate) changed: Arc<Notify>,
    /// A commit token was written by this process: there will be some to prune.
    pub(crate) tokens: AtomicBool,
    /// Prepared statements outlive the transaction that made them: not behind every pooler.
    pub(crate) keeps_prepared: bool,
    /// Each connection of the pool is one session of the server's: no pooler gives it to another client.
    pub(crate) straight: bool,
    /// How long its connections wait by their own settings (SQLite).
    pub(crate) own_wait: Duration,
}

impl<E: Engine> Db<E> {
    /// Starts to open a database with `order`.
    pub fn builder<O: LockOrder>(order: O) -> Builder<E> {
        Builder::new(order)
    }

    /// Runs `f` in a transaction; the kind is named by the place of this call.
    ///
    /// # Errors
    /// As [`Kind::transaction`](crate::Kind::transaction).
    ///
    /// # Cancellation
    /// As [`Kind::transaction`](crate::Kind::transaction).
    #[track_caller]
    pub fn transaction<T, X, F, Fut>(&self, f: F) -> impl Future<Output = Result<T, X>>
    where
        F: Fn(crate::Tx<E, crate::Start>) -> Fut,
        Fut: Future<Output = Result<T, X>> + Send,
        X: From<Error>,
    {
        let kind = Kind::new(self.shared.clone(), KindName::at(std::panic::Location::caller()));
        async move { kind.transaction(f).await }
    }

    /// A kind of transaction by name, with settings of its own.
    pub fn kind(&self, name: &str) -> Kind<E> {
        Kind::new(self.shared.clone(), KindName::named(name))
    }

    /// The pool, for reads outside transactions and for whatever rowlock has no part in.
    pub fn pool(&self) -> &Pool<E> {
        &self.shared.pool
    }

    /// Which server it is.
    pub fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// The server's version, in its own words.
    pub fn version(&self) -> &str {
        &self.shared.version
    }

    /// What happened since the database was opened.
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await?;
    /// assert_eq!((db.counts().committed, db.counts().late), (1, 0));
    /// # }
    /// ```
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// Makes rowlock's own tables where they are not there yet: for commit tokens, and on MySQL and MariaDB for creation
    /// guards. Needs the right to create tables; [`install_sql`](crate::install_sql) has the text for migrations.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancellation
    /// Dropped under way, a part may be done: call it again.
    pub async fn install(&self) -> Result<(), Error> {
        let sql = install::sql(self.shared.dialect, &self.shared.model().classes());
        let mut connection = self.shared.pool.acquire().await?;
        E::batch(&mut connection, AssertSqlSafe(sql).into_sql_str()).await?;
        Ok(())
    }

    /// Deletes commit tokens older than `age`, which must be longer than any transaction's deadline. A process that
    /// writes tokens does it by itself, once an hour for tokens older than a day.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancellation
    /// Dropped under way, it may be done or not: call it again.
    pub async fn prune_tokens(&self, age: Duration) -> Result<(), Error> {
        let mut connection = self.shared.pool.acquire().await?;
        E::batch(&mut connection, AssertSqlSafe(token::prune_text(self.shared.dialect, age)).into_sql_str()).await?;
        Ok(())
    }

    /// Reads the schema anew and checks the order against it. Done by itself when the schema changes; call it to be sure
    /// after a migration of your own.
    ///
    /// # Errors
    /// [`Error::Check`] when the order no longer fits; the transactions go on with what was known before.
    ///
    /// # Cancellation
    /// May be dropped: what was known before holds.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.shared.refresh().await
    }
}

impl<E: Engine> Shared<E> {
    pub(crate) fn new(
        pool: Pool<E>,
        order: (&'static str, TypeId, &'static [ResourceInfo]),
        catalog: Catalog,
        targets: Vec<Target>,
        options: Options,
        gates: Gates,
        road: &Road,
    ) -> Arc<Shared<E>> {
        let (order, order_type, resources) = order;
        Arc::new(Shared {
            order,
            order_type,
            resources,
            dialect: catalog.dialect,
            version: catalog.version.clone(),
            options: Arc::new(options),
            counters: Counters::default(),
            sessions: Sessions::default(),
            gates,
            told: Told::default(),
            control: Control::new(pool.connect_options()),
            ticker: Ticker::start(&Handle::current()),
            runtime: Handle::current(),
            model: RwLock::new(Arc::new(Model::new(catalog, targets, resources))),
            renewing: tokio::sync::Mutex::default(),
            creation_rows: OnceCell::new(),
            changed: Arc::default(),
            tokens: AtomicBool::new(false),
            keeps_prepared: road.keeps_prepared,
            straight: road.straight,
            own_wait: road.own_wait,
            pool,
        })
    }

    pub(crate) fn model(&self) -> Arc<Model> {
        self.model.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether `R` belongs to the order that this database was opened with. The compiler knows it from the second lock of
    /// a transaction on; the first is checked here.
    pub(crate) fn knows<R: Resource>(&self) -> Result<(), Error> {
        if TypeId::of::<R::Order>() == self.order_type {
            return Ok(());
        }
        let resource = <R::Order as LockOrder>::RESOURCES[usize::from(R::RANK)].name;
        Err(Error::OtherOrder { resource, order: self.order })
    }

    /// A statement failed as if the schema had changed: the watcher looks now.
    pub(crate) fn schema_may_have_changed(&self) {
        self.changed.notify_one();
    }

    pub(crate) async fn refresh(&self) -> Result<(), Error> {
        let catalog = E::catalog(&mut *self.pool.acquire().await?, self.resources).await?;
        let checked =
            check::check(self.resources, &catalog, self.options.opaque).map_err(|r| Error::Check(Box::new(r)))?;
        let model = Arc::new(Model::new(catalog, checked.targets, self.resources));
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = model;
        Ok(())
    }

    /// Whether the schema is known to be another than `model` was made from, after a look if need be. Only for who has no
    /// connection: it takes one of the pool's.
    pub(crate) async fn renew(&self, model: &Model) -> bool {
        let _alone = self.renewing.lock().await;
        if self.model().fingerprint == model.fingerprint
            && let Err(error) = self.refresh().await
        {
            tracing::warn!(%error, "rowlock: could not read the schema anew; what was known before holds");
        }
        self.model().fingerprint != model.fingerprint
    }

    /// Makes sure, once, that the guard rows of creation are there.
    pub(crate) async fn require_creation_rows(&self) -> Result<(), Error> {
        let check = async || {
            let (model, mut wanted, mut counts) = (self.model(), 0, Vec::new());
            for (database, classes) in model.classes() {
                wanted += classes.len() as i64 * i64::from(creation::SLOTS);
                let classes: Vec<String> = classes.iter().map(i64::to_string).collect();
                let (table, classes) = (install::guards(database), classes.join(", "));
                counts.push(format!("(SELECT COUNT(*) FROM {table} WHERE class IN ({classes}))"));
            }
            let sql = format!("SELECT CAST({} AS SIGNED)", counts.join(" + "));
            let rows = match self.control.ask(sql).await {
                Err(error) if Failure::of::<E>(self.dialect, &error) == Failure::SchemaChanged => None,
                answer => answer?,
            };
            if rows == Some(wanted) { Ok(()) } else { Err(Error::NotInstalled { feature: "guard_creation" }) }
        };
        self.creation_rows.get_or_try_init(check).await.copied()
    }
}
