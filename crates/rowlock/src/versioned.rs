//! Rows with a version: what is written is what was decided on the row as it was read, or nothing.
//!
//! A decision that takes time (an edit page, a quote, several tables) is not made under a lock. The row has a version;
//! whoever writes says which one he has read; if it is another by now, nothing is written and he is told. In SQL it is
//! `UPDATE .. SET .., version = version + 1 WHERE id = .. AND version = ..` ("optimistic concurrency control": Kung and
//! Robinson, ACM TODS 6(2), 1981).

use std::{marker::PhantomData, sync::Arc};

use sqlx::{Encode, Type};

use crate::{AsKey, Key, KeyValue, Query, Resource, engine::Engine};

/// A struct that is read from a row of a resource, and has the row's key and version in it. Its rows are changed by
/// [`Kind::save`](crate::Kind::save), and only from the version that was read.
///
/// The version is an integer column that is never NULL and in no key: `version bigint not null default 0`. It is looked
/// up in the live schema when it is first used. Every statement that changes the row must raise it, those of other
/// programs too; [`Edit`]s do.
///
/// ```
/// # rowlock_testing::guide! { db =>
/// use rowlock::{Edit, Saved, Versioned};
///
/// #[derive(Debug, PartialEq, sqlx::FromRow)]
/// struct Page { id: i64, title: String, version: i64 }
///
/// rowlock::lock_order! { pub order Site { Pages => "pages" (id: i64) } }
///
/// impl Versioned for Page {
///     type Resource = Pages;
///     fn key(&self) -> i64 { self.id }
///     fn version(&self) -> i64 { self.version }
/// }
///
/// # let pool = db.pool().clone();
/// # sqlx::raw_sql("create table pages (id integer primary key not null, title text not null, version integer not null default 0);
/// #     insert into pages (id, title) values (1, 'Home')").execute(&pool).await?;
/// let db = rowlock::Db::builder(Site).open(pool.clone()).await?;
/// let page: Page = sqlx::query_as("select * from pages where id = 1").fetch_one(&pool).await?;
/// // .. someone thinks ..
/// let edit = db.kind("edit page");
/// assert_eq!(edit.save(Edit::of(&page).set("title", "Welcome")).await?, Saved::Done { version: 1 });
/// // The same page, as it was read before: someone else has changed it.
/// match edit.save(Edit::of(&page).set("title", "Start")).await? {
///     Saved::Conflict { now } => assert_eq!((now.title.as_str(), now.version), ("Welcome", 1)),
///     other => panic!("{other:?}"),
/// }
/// # }
/// ```
pub trait Versioned: Send + Sync + 'static {
    /// The resource whose rows these are.
    type Resource: Resource;
    /// The column that holds the version, as the database has it.
    const VERSION: &'static str = "version";
    /// Which row it is.
    fn key(&self) -> <Self::Resource as Resource>::Key;
    /// The version that was read.
    fn version(&self) -> i64;
}

/// How one value is bound.
pub(crate) type Bind<E> = Arc<dyn Fn(Query<E>) -> Query<E> + Send + Sync>;

/// A change of one row of `T`, from one version to the next. Nothing is sent until it is given to
/// [`Kind::save`](crate::Kind::save), [`Tx::save`](crate::Tx::save) or their forms for many rows.
///
/// Columns are named as the database has them; the key and the version cannot be set. One that is not there, or is set
/// twice, is [`Error::Edit`](crate::Error::Edit) when it is saved. Without a column the version alone is raised.
#[must_use = "nothing is changed until it is saved"]
pub struct Edit<E: Engine, T> {
    pub(crate) key: KeyValue,
    pub(crate) version: i64,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) values: Vec<Bind<E>>,
    row: PhantomData<fn() -> T>,
}

impl<E: Engine, T> Clone for Edit<E, T> {
    fn clone(&self) -> Self {
        let Edit { key, version, columns, values, .. } = self;
        Edit { key: key.clone(), version: *version, columns: columns.clone(), values: values.clone(), row: PhantomData }
    }
}

impl<E: Engine, T> std::fmt::Debug for Edit<E, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Edit({}, version {}, {:?})", self.key, self.version, self.columns)
    }
}

impl<E: Engine, T: Versioned> Edit<E, T> {
    /// Of a row as it was read.
    pub fn of(row: &T) -> Self {
        Edit::from(row.key().value(), row.version())
    }

    /// Of a row by its key, from a version that came from elsewhere: an `If-Match` header, a form's hidden field.
    pub fn at(key: impl AsKey<<T::Resource as Resource>::Key>, version: i64) -> Self {
        Edit::from(key.as_key(), version)
    }

    fn from(key: KeyValue, version: i64) -> Self {
        Edit { key, version, columns: Vec::new(), values: Vec::new(), row: PhantomData }
    }

    /// Sets a column to a value of any type that sqlx can bind; `None` is NULL.
    pub fn set<V>(mut self, column: &'static str, value: V) -> Self
    where
        V: for<'q> Encode<'q, E> + Type<E> + Send + Sync + 'static,
    {
        self.columns.push(column);
        self.values.push(Arc::new(move |query: Query<E>| query.bind(&value)));
        self
    }
}

/// What became of an [`Edit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved<T> {
    /// It was written.
    Done {
        /// The row's version now.
        version: i64,
    },
    /// Someone else has changed the row; nothing of this edit was written.
    Conflict {
        /// The row as it is now, read after the conflict was found; in a transaction, under its lock.
        now: T,
    },
    /// There is no such row.
    Missing,
    /// It could have been written and was not, since another edit of the same
    /// [`save_all`](crate::Kind::save_all) could not.
    Withheld,
}

impl<T> Saved<T> {
    /// It was written.
    pub fn is_done(&self) -> bool {
        matches!(self, Saved::Done { .. })
    }

    /// The row's new version, if it was written.
    pub fn version(&self) -> Option<i64> {
        match self {
            Saved::Done { version } => Some(*version),
            _ => None,
        }
    }
}
