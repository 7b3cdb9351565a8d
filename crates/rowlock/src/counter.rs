//! A counter: an integer column that is changed by conditional updates; and the change, before it is sent.

use std::{
    marker::PhantomData,
    ops::{Bound, RangeBounds},
    time::Duration,
};

use rowlock_footprint::Wait;

use crate::{
    AsKey, KeyValue, Resource,
    tally::{Interval, Item, Op},
};

/// An integer column of `R` whose values are changed where a condition on them holds: stock, a balance, places left.
///
/// Such a change needs no lock that is taken before: the decision is made by the statement that changes the row. Each item
/// says what became of it ([`Outcome`](crate::Outcome)), and thousands are applied in key order.
///
/// ```
/// # rowlock_testing::guide! { db =>
/// use rowlock::{Counter, Outcome};
/// const STOCK: Counter<Inventory> = Counter::new("stock");
///
/// // Alone: one statement, no BEGIN. Within a transaction: `tx.update(..)`, which takes its place in the order.
/// let sold = db.kind("sell").update(STOCK.subtract([(20, 3)])).await?;
/// assert_eq!(sold[0], Outcome::Applied { value: 97 });
/// let cart = db.kind("sell").update(STOCK.subtract([(30, 2), (20, 98)]).together()).await?;
/// assert_eq!(cart[0], Outcome::Withheld { found: 100 });
/// assert_eq!(cart[1], Outcome::Insufficient { found: 97 });
/// db.kind("return").update(STOCK.add([(20, 3)]).at_most(100)).await?;
/// # }
/// ```
///
/// The column is looked up in the live schema when it is first used: it must be an integer that cannot be NULL, not
/// generated, and in no key, unique or foreign. Whatever its width and sign, a result that it cannot hold is
/// [`Insufficient`](crate::Outcome::Insufficient), and never wraps or is cut. Values above `i64::MAX` (`bigint unsigned`) are
/// an error, and left alone.
pub struct Counter<R> {
    pub(crate) column: &'static str,
    resource: PhantomData<fn() -> R>,
}

impl<R> Clone for Counter<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Counter<R> {}

impl<R> std::fmt::Debug for Counter<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Counter({})", self.column)
    }
}

impl<R: Resource> Counter<R> {
    /// The column of that name, as the database has it.
    pub const fn new(column: &'static str) -> Self {
        Counter { column, resource: PhantomData }
    }

    /// Subtracts each quantity where enough is left: where the result is not below 0, or not below
    /// [`at_least`](Change::at_least). A negative quantity is an error; zero is applied where the value is in bounds.
    pub fn subtract<K: AsKey<R::Key>>(self, items: impl IntoIterator<Item = (K, i64)>) -> Change<R> {
        let items = items.into_iter().map(|(key, by)| (key.as_key(), by, Op::Add(-i128::from(by)), Interval::ALL));
        self.change(items, false).at_least(0)
    }

    /// Adds each quantity, up to what the column can hold or to [`at_most`](Change::at_most). A negative quantity is an error.
    #[allow(clippy::should_implement_trait, reason = "it is the other of `subtract`")]
    pub fn add<K: AsKey<R::Key>>(self, items: impl IntoIterator<Item = (K, i64)>) -> Change<R> {
        let items = items.into_iter().map(|(key, by)| (key.as_key(), by, Op::Add(by.into()), Interval::ALL));
        self.change(items, false)
    }

    /// Sets each value where the one found is the expected: of `(key, expected, new)`.
    pub fn compare_and_set<K: AsKey<R::Key>>(self, items: impl IntoIterator<Item = (K, i64, i64)>) -> Change<R> {
        let items = items.into_iter().map(|(key, expected, new)| {
            let expect = Interval { low: expected.into(), high: expected.into() };
            (key.as_key(), new, Op::Set(new.into()), expect)
        });
        self.change(items, true)
    }

    /// Sets each value where the one found lies in `range`: `set_if(..=5, [(20, 100)])` fills up what has run low.
    pub fn set_if<K: AsKey<R::Key>>(
        self,
        range: impl RangeBounds<i64>,
        items: impl IntoIterator<Item = (K, i64)>,
    ) -> Change<R> {
        let expect = Interval {
            low: match range.start_bound() {
                Bound::Included(low) => i128::from(*low),
                Bound::Excluded(low) => i128::from(*low) + 1,
                Bound::Unbounded => Interval::ALL.low,
            },
            high: match range.end_bound() {
                Bound::Included(high) => i128::from(*high),
                Bound::Excluded(high) => i128::from(*high) - 1,
                Bound::Unbounded => Interval::ALL.high,
            },
        };
        let items = items.into_iter().map(|(key, new)| (key.as_key(), new, Op::Set(new.into()), expect));
        self.change(items, true)
    }

    fn change(self, items: impl Iterator<Item = (KeyValue, i64, Op, Interval)>, sets: bool) -> Change<R> {
        let items = items.map(|(key, amount, op, expect)| Entry { key, amount, item: Item { op, expect } });
        Change {
            batch: Batch {
                column: self.column,
                sets,
                items: items.collect(),
                floor: None,
                cap: None,
                together: false,
                wait: Wait::Wait,
                limit: None,
            },
            resource: PhantomData,
        }
    }
}

/// A conditional update that is about to be made, of any number of rows; made by a [`Counter`]. Run it by itself with
/// [`Kind::update`](crate::Kind::update), or in a transaction with [`Tx::update`](crate::Tx::update).
///
/// Items come in any order; several on one key are applied one after the other, in the order of the input.
#[must_use = "nothing is changed until it is given to `update`"]
pub struct Change<R> {
    pub(crate) batch: Batch,
    resource: PhantomData<fn() -> R>,
}

/// A change without its resource's type.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) column: &'static str,
    /// Values are assigned; else quantities are added.
    pub(crate) sets: bool,
    pub(crate) items: Vec<Entry>,
    pub(crate) floor: Option<i64>,
    pub(crate) cap: Option<i64>,
    pub(crate) together: bool,
    pub(crate) wait: Wait,
    pub(crate) limit: Option<Duration>,
}

/// One item as it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: KeyValue,
    /// The quantity, or the new value.
    pub(crate) amount: i64,
    pub(crate) item: Item,
}

impl<R> Clone for Change<R> {
    fn clone(&self) -> Self {
        Change { batch: self.batch.clone(), resource: PhantomData }
    }
}

impl<R> std::fmt::Debug for Change<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.batch.fmt(f)
    }
}

impl<R> Change<R> {
    /// Only where the result is `floor` or more. Default: 0 for [`subtract`](Counter::subtract), else none.
    pub fn at_least(mut self, floor: i64) -> Self {
        self.batch.floor = Some(floor);
        self
    }

    /// Only where the result is `cap` or less. Default: what the column can hold.
    pub fn at_most(mut self, cap: i64) -> Self {
        self.batch.cap = Some(cap);
        self
    }

    /// All items or none: where one is not applied, none is. That is no error, and a transaction goes on.
    pub fn together(mut self) -> Self {
        self.batch.together = true;
        self
    }

    /// Fails with [`Error::Busy`](crate::Error::Busy) where it would wait for a row.
    pub fn nowait(mut self) -> Self {
        self.batch.wait = Wait::NoWait;
        self
    }

    /// Waits at most so long, then fails with [`Error::Busy`](crate::Error::Busy); the statement is cancelled at the server.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.batch.limit = Some(limit.min(crate::options::LONGEST));
        self
    }
}
