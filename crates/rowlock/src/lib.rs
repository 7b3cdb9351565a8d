//! rowlock keeps concurrent transactions on PostgreSQL, MySQL, MariaDB and SQLite from deadlocking. It sits on
//! [sqlx], and plain sqlx works inside it.
//!
//! Lock order is a rule of the whole system, not of one function. It is declared once, and everything that touches the
//! rows is held to it: by the compiler where it can be, and else before a statement is sent.
//!
//! ```
//! use rowlock::{Before, Db, Result};
//! use sqlx::{FromRow, Sqlite, sqlite::SqlitePoolOptions};
//!
//! // A line's position is its rank.
//! rowlock::lock_order! {
//!     pub order Shop {
//!         Order     => "orders"      (id: i64),
//!         Inventory => "inventories" (id: i64),
//!     }
//! }
//!
//! type Tx<L> = rowlock::Tx<Sqlite, L>; // or Postgres, or MySql
//!
//! #[derive(FromRow)]
//! struct Stock { id: i64, stock: i64 }
//!
//! async fn place(db: &Db<Sqlite>, order: i64, items: &[i64]) -> Result<i64> {
//!     db.transaction(async |tx| {
//!         let mut tx = tx.lock::<Order>([order]).await?;
//!         sqlx::query("update orders set status = 'placed' where id = $1").bind(order).execute(&mut tx).await?;
//!         reserve(tx, items).await
//!     })
//!     .await
//! }
//!
//! // May be called from anywhere up to `Inventory`. After a lock that comes later, the call does not compile.
//! async fn reserve<L: Before<Inventory>>(tx: Tx<L>, items: &[i64]) -> Result<i64> {
//!     let (mut tx, stock) = tx.lock::<Inventory>(items).fetch_all::<Stock>().await?; // sorted, once each, one trip
//!     for Stock { id, .. } in &stock {
//!         sqlx::query("update inventories set stock = stock - 1 where id = $1").bind(id).execute(&mut tx).await?;
//!     }
//!     Ok(stock.iter().map(|s| s.stock - 1).sum())
//! }
//!
//! # async fn tables() -> std::result::Result<sqlx::SqlitePool, sqlx::Error> {
//! #     let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! #     sqlx::raw_sql(
//! #         "create table orders (id integer primary key not null, status text);
//! #          create table inventories (id integer primary key not null, stock integer not null);
//! #          insert into orders (id) values (10); insert into inventories values (20, 5), (30, 5)",
//! #     ).execute(&pool).await?;
//! #     Ok(pool)
//! # }
//! # #[tokio::main]
//! # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! #     let pool = tables().await?;
//! let db = Db::builder(Shop).open(pool).await?; // reads the schema, and checks the order against it
//! assert_eq!(place(&db, 10, &[30, 20, 30]).await?, 8);
//! # Ok(()) }
//! ```
//!
//! # The rules
//!
//! 1. A lock's *place* is (rank of the resource, key). A transaction waits only for places above all that it holds; so
//!    no cycle of waits can close.
//! 2. Rank is the compiler's to check, through helper functions, branches and loops: [`Before`]. Key order within a
//!    resource is rowlock's: keys are sorted and de-duplicated, whatever order they come in.
//! 3. Statements of your own are looked at before they are sent, with the locks that `INSERT`, `UPDATE`, `DELETE` and
//!    foreign keys take without saying so. See [`Guard`].
//! 4. A place below what is held is taken without waiting; when it is busy, the transaction rolls back and runs again with
//!    all that it needed locked up front. See [`Late`]. (It is waited for after too many restarts, and where the guard only
//!    tells: the guide's page on late needs has the exceptions.)
//! 5. The strength that is needed is taken first: a rise of strength on a held row is a late place too.
//! 6. A failure that another run may mend runs the *whole* transaction again, from the closure's start, a bounded number
//!    of times. Your own errors roll back and do not retry.
//!
//! # The calls
//!
//! | to | call |
//! |---|---|
//! | declare the order | [`lock_order!`] |
//! | open a database, check the order against its schema | [`Db::builder`], [`Builder::connect`], [`Builder::open`] |
//! | run a transaction | [`Db::transaction`], [`Kind::transaction`] |
//! | name a kind of transaction, with settings of its own | [`Db::kind`] |
//! | lock rows by key | [`Tx::lock`], with [`share`](Lock::share), [`update`](Lock::update), [`nowait`](Lock::nowait), [`wait`](Lock::wait), [`skip_locked`](Lock::skip_locked), [`existing`](Lock::existing) |
//! | .. and get the rows | [`fetch_one`](Lock::fetch_one), [`fetch_optional`](Lock::fetch_optional), [`fetch_all`](Lock::fetch_all), [`keys`](Lock::keys) |
//! | lock rows by a condition | [`Tx::lock_where`]; of those that are free, so many: [`skip_locked`](LockWhere::skip_locked) |
//! | go on without a lock, so that branches agree | [`Tx::pass`] |
//! | send SQL of your own | `sqlx::query(..).execute(&mut tx)`, or [`query`], which shows the guard the bound keys |
//! | call a function that takes sqlx's own connection | [`Tx::unguarded`] |
//! | change a number where enough is left, without a lock before | [`Counter`] with [`Kind::update`], [`Tx::update`] |
//! | subtract for many tasks at once from a few hot rows | [`Kind::merger`] |
//! | write what was decided on a row as it was read, or nothing | [`Versioned`], [`Edit`] with [`Kind::save`], [`Kind::revise`], [`Tx::save`] |
//! | send one statement as a transaction | [`Kind::execute`] |
//! | make a row that must be there once | [`Tx::guard_creation`] |
//! | keep who waits for a hot row off the pool's connections | [`Builder::gate`], [`Kind::enters`] |
//! | one transaction for each of many items | [`Kind::for_each`] |
//! | a part that may fail by itself | [`Tx::savepoint`], [`Tx::rollback_to`] |
//! | know what became of a lost COMMIT | `commit_token(true)` on [`Kind`] or [`Builder`], [`Db::install`] |
//! | see what happened | [`Db::counts`], the `tracing` span `transaction`, the `metrics` named `rowlock_*` |
//!
//! # Features
//!
//! There are none. The three drivers of sqlx are always built, and so is sqlx's feature `macros`: it adds a method to
//! `Executor`, which `&mut Tx` implements. The runtime is tokio. TLS is switched on in your own dependency on sqlx.
//!
//! # Cancellation
//!
//! Every future may be dropped at any await. A transaction whose future is dropped is rolled back: its connection never
//! returns to the pool, and its session is ended at the server from another connection, so that a statement that waits
//! there lets go of its locks. Dropped while COMMIT is under way, a transaction is committed wholly or not at all.
//!
//! # Errors
//!
//! [`Error`] has a variant for each thing that a caller may want to tell apart: [`Missing`](Error::Missing) rows,
//! a [`Busy`](Error::Busy) row, a lock [out of order](Error::OutOfOrder), a [refused](Error::Refused) statement,
//! [exhausted](Error::Exhausted) attempts, a COMMIT whose answer was lost ([`CommitUnknown`](Error::CommitUnknown)).
//! A closure may return any error type that is `From<rowlock::Error>`. Inside sqlx's own calls rowlock's errors travel in
//! [`sqlx::Error::Configuration`]; `rowlock::Error::from` takes them out again.
//!
//! # Limits
//!
//! Locks taken by other programs, by triggers and by stored functions are not seen; where the schema shows that there are
//! some, the check at start names them. Table locks and DDL have no place in the order.

mod acquire;
mod builder;
mod catalog;
mod check;
mod checkout;
mod claim;
mod connection;
mod control;
mod copy;
mod count;
mod counter;
mod creation;
mod db;
mod deadline;
mod edit_text;
mod engine;
mod enter;
mod error;
mod failure;
mod footing;
mod for_each;
mod gate;
mod guard;
mod guard_creation;
mod held;
mod hold;
mod inner;
mod install;
mod key;
mod kind;
mod late;
mod limits;
mod lock;
mod lock_where;
#[doc(hidden)]
pub mod measure;
mod merger;
mod model;
mod options;
mod order;
mod outcome;
mod place;
mod plan;
mod pooler;
mod progress;
mod query;
mod revise;
mod save;
mod savepoint;
mod search;
mod session;
mod single;
mod statement;
mod tally;
mod ticker;
mod token;
mod told;
mod transaction;
mod unguarded;
mod unseen;
mod update;
mod versioned;
mod violation;

pub use builder::Builder;
pub use catalog::Catalog;
pub use check::{Checked, Finding, Policy, Report, Severity, Target, TargetColumn, check};
pub use copy::CopyIn;
pub use count::Counts;
pub use counter::{Change, Counter};
pub use db::Db;
pub use engine::Engine;
pub use error::{Attempt, Error, KindName};
pub use failure::Failure;
pub use for_each::ForEach;
pub use gate::Gate;
pub use guard_creation::GuardCreation;
pub use held::{Held, Standing};
pub use install::install_sql;
pub use key::{AsKey, Key, KeyColumn, KeyType, KeyValue};
pub use kind::Kind;
pub use lock::Lock;
pub use lock_where::LockWhere;
pub use merger::{Merger, MergerBuilder, Subtract, ledger_sql};
pub use options::{Guard, Isolation, Late, UnknownKeys};
pub use order::{Before, LockOrder, Resource, ResourceInfo, Start};
pub use outcome::{Outcome, Outcomes};
pub use place::{Part, Place, Reach};
pub use plan::{Plan, Step};
pub use query::{Query, query};
pub use rowlock_footprint::{Dialect, Strength};
/// Declares the lock order of a system, once. A line's position is its rank: what stands higher is locked first.
///
/// ```
/// use rowlock::lock_order;
/// use uuid::Uuid;
///
/// lock_order! {
///     /// What the shop locks, from top to bottom.
///     pub order Shop {
///         Order     => "orders"         (id: i64),
///         Inventory => "inventories"    (id: i64),
///         /// Money, last: it is held for the shortest time.
///         Account   => "ledger.accounts" (id: Uuid),
///         Line      => "order_lines"    (order_id: i64, line: i32),
///     }
/// }
///
/// use rowlock::{LockOrder, Resource};
/// assert_eq!(Shop::RESOURCES[2].table, "ledger.accounts");
/// assert_eq!(Account::RANK, 2);
/// ```
///
/// A line is `Name => "table" (column: Type, ..)`. The columns are the table's primary key, or a unique key that cannot
/// be NULL; [`Db::builder`] has that checked against the live schema. Their types are [`KeyColumn`]s: integers, `Uuid`,
/// `String`, `Vec<u8>`, and newtypes of your own. A key has one to four of them; a key of several is a tuple. The table's
/// name may have its schema before it. Names stand as the database has them: a keyword as it is (`type: i64`), one that is no
/// name of Rust's in quotes (`"line number": i32`). MySQL's and MariaDB's `bigint unsigned` wants a `u64`.
///
/// It makes a unit struct with the order's name, which implements [`LockOrder`], and for each line an empty type, which
/// implements [`Resource`] and [`Before`] for all that come after it. Attributes and the visibility are passed on.
///
/// # How to choose the order
/// Put first what the rest is read from: an order before its stock. Put what is locked by nearly everyone, and briefly,
/// last. Put a child after the parents that its foreign keys point to, since its `INSERT` locks them. Declare every table
/// whose existing rows are changed or locked; row locks on other tables are refused ([`Builder::undeclared`]).
///
/// # Errors
/// What cannot be an order does not compile: a table or a name that stands twice, a key of no column or of more than
/// four, a borrowed key type, a column type that is no [`KeyColumn`].
///
/// ```compile_fail
/// rowlock::lock_order! {
///     pub order Shop {
///         Order => "orders" (id: i64),
///         Purchase => "orders" (id: i64), // `Order` and `Purchase` both name the table "orders"
///     }
/// }
/// ```
pub use rowlock_macros::lock_order;
pub use savepoint::Savepoint;
pub use transaction::Tx;
pub use unguarded::Unguarded;
pub use versioned::{Edit, Saved, Versioned};
pub use violation::{Refusal, Violation};

/// A result whose error is rowlock's, unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The README and the guide: their blocks are tests.
#[cfg(doctest)]
mod guide {
    macro_rules! pages {
        ($($name:ident = $path:literal,)+) => { $(
            #[doc = include_str!(concat!("../../../", $path))]
            mod $name {}
        )+ };
    }
    pages! {
        readme = "README.md",
        getting_started = "docs/guide/getting-started.md",
        orders = "docs/guide/orders.md",
        batches = "docs/guide/batches.md",
        deleting = "docs/guide/deleting.md",
        helpers = "docs/guide/helpers.md",
        branches = "docs/guide/branches.md",
        late_needs = "docs/guide/late-needs.md",
        missing_rows = "docs/guide/missing-rows.md",
        strengths = "docs/guide/strengths.md",
        errors = "docs/guide/errors.md",
        hold_time = "docs/guide/hold-time.md",
        conditional_updates = "docs/guide/conditional-updates.md",
        versions = "docs/guide/versions.md",
        fail_fast = "docs/guide/fail-fast.md",
        commit_tokens = "docs/guide/commit-tokens.md",
        merging = "docs/guide/merging.md",
        testing = "docs/guide/testing.md",
        adopting = "docs/guide/adopting.md",
        pools = "docs/guide/pools.md",
        tenants = "docs/guide/tenants.md",
        tables = "docs/guide/tables.md",
        limits = "docs/guide/limits.md",
    }
}
