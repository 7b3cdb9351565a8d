//! The declared order: which resources there are, and which comes before which.

use crate::{Key, KeyType};

/// A table whose rows are locked, with its rank and its key. Made by [`lock_order!`](crate::lock_order).
pub trait Resource: Send + Sync + 'static {
    /// The order that it belongs to.
    type Order: LockOrder;
    /// What names one of its rows.
    type Key: Key;
    /// Where it stands in the order, from 0.
    const RANK: u16;
    /// The types of the key's columns.
    const TYPES: &'static [KeyType] = <Self::Key as Key>::COLUMNS;
}

/// A declared order. Made by [`lock_order!`](crate::lock_order): the name after `order` is a unit struct that implements it.
pub trait LockOrder: Send + Sync + 'static {
    /// The name it was declared by.
    const NAME: &'static str;
    /// Its resources; a resource's index is its rank.
    const RESOURCES: &'static [ResourceInfo];
}

/// What the order says of one resource, for the checks that are made at run time and for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    /// The type's name: `Order`.
    pub name: &'static str,
    /// The table, with its schema when one was declared: `orders`, `sales.orders`.
    pub table: &'static str,
    /// The key's columns.
    pub columns: &'static [&'static str],
    /// Their types.
    pub types: &'static [KeyType],
}

/// The level of a transaction that has locked nothing: every resource lies ahead.
pub enum Start {}

/// `L: Before<R>`: a transaction that has reached level `L` may lock `R`, since `R` is `L` itself or is declared after it.
///
/// This is the rule that the compiler holds. In a helper that takes a transaction at any level up to `R`, write it as a
/// bound:
///
/// ```
/// # rowlock::lock_order! { pub order Shop { Order => "orders" (id: i64), Inventory => "inventories" (id: i64) } }
/// use rowlock::{Before, Engine, Result, Tx};
///
/// async fn reserve<E: Engine, L: Before<Inventory>>(tx: Tx<E, L>, items: &[i64]) -> Result<Tx<E, Inventory>> {
///     tx.lock::<Inventory>(items).await
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "lock order: a transaction that has reached `{Self}` cannot lock `{R}`",
    label = "has reached `{Self}`; `{R}` does not stand at or after it in the order",
    note = "lock `{R}` earlier: every transaction takes its locks in the order of `lock_order!`",
    note = "in a helper that is generic over its level, declare it: `L: Before<{R}>`; where it is `Before` another resource already, `tx.pass::<..>()` goes there first"
)]
pub trait Before<R> {}

#[diagnostic::do_not_recommend]
impl<R: Resource> Before<R> for Start {}
