//! Opening a database: settings, the check at start, and the watch over the schema.

use std::{
    any::TypeId,
    marker::PhantomData,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection, Pool, SqlSafeStr, pool::PoolOptions};

use crate::{
    Db, Gate, LockOrder, Resource, ResourceInfo, check,
    db::Shared,
    engine::Engine,
    error::Error,
    gate::Gates,
    options::{Options, settings},
};

/// The settings of a database that is about to be opened. Each setting can be set anew for a kind of transaction.
///
/// ```no_run
/// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
/// # async fn example(pool: sqlx::PgPool) -> rowlock::Result<()> {
/// use rowlock::{Db, Guard};
///
/// // A service that adopts rowlock keeps its pool, and looks first.
/// let db = Db::builder(Shop).guard(Guard::Observe).open(pool).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Builder<E: Engine> {
    order: (&'static str, TypeId, &'static [ResourceInfo]),
    options: Options,
    watch: Option<Duration>,
    processes: u32,
    gates: Vec<(TypeId, u16, Gate)>,
    engine: PhantomData<fn() -> E>,
}

/// How often old commit tokens are pruned, and how old they must be.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
/// How soon the schema is looked at when every connection was busy, and how often at most.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const TOKEN_AGE: Duration = Duration::from_secs(24 * 3600);
/// How long a connection that came back to the pool is taken to be alive unasked: HikariCP's `aliveBypassWindowMs`.
const ALIVE: Duration = Duration::from_millis(500);

impl<E: Engine> Builder<E> {
    pub(crate) fn new<O: LockOrder>(_: O) -> Self {
        Builder {
            order: (O::NAME, TypeId::of::<O>(), O::RESOURCES),
            options: Options::default(),
            watch: Some(Duration::from_secs(30)),
            processes: 1,
            gates: Vec::new(),
            engine: PhantomData,
        }
    }

    settings!(self => self.options);

    /// How often the schema is looked at for changes while running; `None` never. Besides, a statement that fails as if
    /// it had changed has it looked at. Default: every 30 s; at least 100 ms.
    #[must_use]
    pub fn watch_schema(mut self, every: Option<Duration>) -> Self {
        self.watch = every.map(|every| every.max(LOOK_AGAIN));
        self
    }

    /// How many processes open pools of this size on the server, for the check against its connection limit. Default: 1.
    #[must_use]
    pub fn processes(mut self, processes: u32) -> Self {
        self.processes = processes.max(1);
        self
    }

    /// Lets so many transactions at once to `R`, and to each of its rows: those that say with
    /// [`Kind::enters`](crate::Kind::enters) that they go there. Set twice for one resource, the last holds.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Inventory => "inventories" (id: i64) } }
    /// # async fn example(pool: sqlx::PgPool) -> rowlock::Result<()> {
    /// use rowlock::{Db, Gate};
    ///
    /// let db = Db::builder(Shop).gate::<Inventory>(Gate::new(8, 200).each_row(2, 20)).open(pool).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn gate<R: Resource>(mut self, gate: Gate) -> Self {
        self.gates.retain(|(_, rank, _)| *rank != R::RANK);
        self.gates.push((TypeId::of::<R::Order>(), R::RANK, gate));
        self
    }

    /// Opens the database at `url` with a pool of sqlx's default size.
    ///
    /// # Errors
    /// As [`Builder::open`], and where the URL or the server cannot be used.
    ///
    /// # Cancellation
    /// As [`Builder::open`].
    pub async fn connect(self, url: &str) -> Result<Db<E>, Error> {
        self.connect_with(PoolOptions::new(), url.parse()?).await
    }

    /// Opens a database with a pool of its own, made with `options`, whose hooks are replaced by two that save round trips:
    ///
    /// - New connections are set once as transactions want them (READ COMMITTED on MySQL and MariaDB, and the server's own
    ///   limit on waits); otherwise each transaction sets it.
    /// - sqlx asks a connection whether it lives when it comes back to the pool, and again when it is acquired. Here it is
    ///   not asked again within 500 ms. (`options` with `test_before_acquire(false)` keep their own way.)
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
    /// # async fn example() -> rowlock::Result<()> {
    /// use rowlock::Db;
    /// use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    ///
    /// let server = PgConnectOptions::new().socket("/var/run/postgresql").database("shop").application_name("api");
    /// let db = Db::builder(Shop).connect_with(PgPoolOptions::new().max_connections(20), server).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Builder::open`], and where the server cannot be used.
    ///
    /// # Cancellation
    /// As [`Builder::open`].
    pub async fn connect_with(
        self,
        options: PoolOptions<E>,
        server: <E::Connection as Connection>::Options,
    ) -> Result<Db<E>, Error> {
        let settings: Arc<str> = E::own_settings(&self.options).into();
        let options = match settings.is_empty() {
            true => options,
            false => options.after_connect(move |connection, _| {
                let settings = AssertSqlSafe(settings.clone()).into_sql_str();
                Box::pin(async move { E::batch(connection, settings).await.map(drop) })
            }),
        };
        let options = if options.get_test_before_acquire() { asked_when_idle(options) } else { options };
        self.open(options.connect_with(server).await?).await
    }

    /// Opens a database on a pool that you made: reads the schema, and checks the order against it. Findings that are no
    /// errors are traced as warnings.
    ///
    /// It lives on the tokio runtime on which it is opened, whose tasks keep its limits and clear up after dropped
    /// transactions: where each test has a runtime, each opens its own.
    ///
    /// # Errors
    /// [`Error::Check`] names every resource that does not fit, with the way out; [`Error::OtherOrder`] a gate's resource that
    /// is not in the order.
    ///
    /// # Cancellation
    /// May be dropped: nothing is begun before it returns.
    pub async fn open(self, pool: Pool<E>) -> Result<Db<E>, Error> {
        let gates = self.checked_gates(&pool)?;
        let catalog = E::catalog(&mut *pool.acquire().await?, self.order.2).await?;
        let checked =
            check::check(self.order.2, &catalog, self.options.opaque).map_err(|r| Error::Check(Box::new(r)))?;
        let mut road = E::road(&pool, self.processes).await?;
        let mut report = checked.report;
        report.findings.append(&mut road.findings);
        if report.errors() > 0 {
            return Err(Error::Check(Box::new(report)));
        }
        for finding in &report.findings {
            tracing::warn!("rowlock: {finding}");
        }
        let shared = Shared::new(pool, self.order, catalog, checked.targets, self.options, gates, &road);
        if let Some(every) = self.watch {
            tokio::spawn(watch(Arc::downgrade(&shared), every));
        }
        tokio::spawn(prune(Arc::downgrade(&shared)));
        Ok(Db { shared })
    }

    fn checked_gates(&self, pool: &Pool<E>) -> Result<Gates, Error> {
        let (order, order_type, resources) = self.order;
        let mut gates = Vec::with_capacity(self.gates.len());
        for (of, rank, gate) in &self.gates {
            if *of != order_type {
                return Err(Error::OtherOrder { resource: "the resource of a gate", order });
            }
            let connections = pool.options().get_max_connections();
            if gate.at_once() >= connections as usize {
                tracing::warn!(
                    resource = resources[usize::from(*rank)].name,
                    at_once = gate.at_once(),
                    connections,
                    "rowlock: the gate lets in as many as the pool has connections, and so keeps none free; let fewer in"
                );
            }
            gates.push((*rank, *gate));
        }
        Ok(Gates::new(resources.len(), &gates))
    }
}

fn asked_when_idle<E: Engine>(options: PoolOptions<E>) -> PoolOptions<E> {
    options.test_before_acquire(false).before_acquire(|connection, idle| {
        Box::pin(async move {
            if idle.idle_for >= ALIVE {
                connection.ping().await?;
            }
            Ok(true)
        })
    })
}

/// Looks at the schema from time to time, or when a statement failed as if it had changed, until the database is dropped.
async fn watch<E: Engine>(shared: Weak<Shared<E>>, every: Duration) {
    let Some(changed) = shared.upgrade().map(|s| s.changed.clone()) else { return };
    let mut wait = every;
    loop {
        let _ = tokio::time::timeout(wait, changed.notified()).await;
        let Some(now) = shared.upgrade().filter(|s| !s.pool.is_closed()) else { return };
        wait = match look(&now).await {
            Ok(true) => every,
            Ok(false) => every.min(LOOK_AGAIN),
            Err(error) => {
                tracing::warn!(%error, "rowlock: could not look at the schema; what was known before holds");
                every
            }
        };
    }
}

/// Whether there was a connection to look by.
async fn look<E: Engine>(shared: &Shared<E>) -> Result<bool, Error> {
    // Never in the way of a transaction.
    let Some(mut connection) = shared.pool.try_acquire() else { return Ok(false) };
    let fingerprint = E::fingerprint(&mut connection, shared.resources).await?;
    drop(connection);
    if fingerprint != shared.model().fingerprint {
        tracing::warn!("rowlock: the schema has changed; it is read and checked again");
        shared.refresh().await?;
    }
    Ok(true)
}

async fn prune<E: Engine>(shared: Weak<Shared<E>>) {
    loop {
        tokio::time::sleep(PRUNE_EVERY).await;
        let Some(now) = shared.upgrade().filter(|s| !s.pool.is_closed()) else { return };
        if !now.tokens.load(Relaxed) {
            continue;
        }
        if let Err(error) = (Db { shared: now }).prune_tokens(TOKEN_AGE).await {
            tracing::warn!(%error, "rowlock: could not prune commit tokens");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Empty;
    impl LockOrder for Empty {
        const NAME: &'static str = "Empty";
        const RESOURCES: &'static [ResourceInfo] = &[];
    }

    #[test]
    fn the_schema_is_not_watched_without_a_pause() {
        let watch = |every| Builder::<sqlx::Sqlite>::new(Empty).watch_schema(every).watch;
        assert_eq!(watch(Some(Duration::ZERO)), Some(LOOK_AGAIN));
        assert_eq!((watch(Some(Duration::MAX)), watch(None)), (Some(Duration::MAX), None));
    }
}
