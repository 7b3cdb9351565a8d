//! How strong a row lock is, on each engine, and what conflicts with what.

use std::fmt;

use crate::Dialect;

/// How strong a row lock is, weakest first.
///
/// PostgreSQL has all four. InnoDB has two: [`Share`](Self::Share) (`S`) and [`Update`](Self::Update) (`X`); the other
/// two are rounded up by [`on`](Self::on). SQLite has one lock for the whole file; there the strengths of PostgreSQL are
/// kept so that a violation is found as on a server.
///
/// ```
/// use rowlock_footprint::{Dialect, Strength};
///
/// // A child's INSERT does not wait for an UPDATE of its parent on PostgreSQL; on InnoDB it does.
/// let (child, parent) = (Strength::KeyShare, Strength::NoKeyUpdate);
/// assert!(!child.on(Dialect::Postgres).conflicts(parent.on(Dialect::Postgres)));
/// assert!(child.on(Dialect::MySql).conflicts(parent.on(Dialect::MySql)));
/// assert_eq!(Strength::ALL.into_iter().max(), Some(Strength::Update));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strength {
    /// `FOR KEY SHARE`: the key may not change and the row may not go. What a foreign key check takes on the parent.
    KeyShare,
    /// `FOR SHARE`: the row may not change.
    Share,
    /// `FOR NO KEY UPDATE`: will be changed, but not in a column of a unique index. What most `UPDATE`s take.
    NoKeyUpdate,
    /// `FOR UPDATE`: may be deleted, or changed in a unique column.
    Update,
}

impl Strength {
    /// All of them, weakest first.
    pub const ALL: [Strength; 4] = [Self::KeyShare, Self::Share, Self::NoKeyUpdate, Self::Update];

    /// The strength that the engine really takes when this one is asked for.
    pub const fn on(self, dialect: Dialect) -> Strength {
        match (dialect.is_innodb(), self) {
            (false, s) => s,
            (true, Self::KeyShare | Self::Share) => Self::Share,
            (true, Self::NoKeyUpdate | Self::Update) => Self::Update,
        }
    }

    /// Whether two transactions cannot have these two on one row at once
    /// (PostgreSQL manual, 13.3.2, table "Conflicting Row-Level Locks"; InnoDB's S and X agree with it).
    pub const fn conflicts(self, other: Strength) -> bool {
        use Strength::{KeyShare, NoKeyUpdate, Share, Update};
        match (self, other) {
            (KeyShare, KeyShare | Share | NoKeyUpdate) | (Share, KeyShare | Share) | (NoKeyUpdate, KeyShare) => false,
            (Share, NoKeyUpdate | Update) | (KeyShare, Update) | (NoKeyUpdate, Share | NoKeyUpdate | Update) => true,
            (Update, _) => true,
        }
    }

    /// Whether a holder of `self` may wait for `wanted` on the same row without risking a deadlock with another holder
    /// that does the same. Only the rise from key share is safe, and not to update: any other could meet its like, each
    /// waiting for the other's first lock. (The place must also be the last that is held; that is the guard's to check.)
    pub const fn may_rise_to(self, wanted: Strength) -> bool {
        self as u8 >= wanted as u8 || matches!((self, wanted), (Self::KeyShare, Self::Share | Self::NoKeyUpdate))
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeyShare => "key share",
            Self::Share => "share",
            Self::NoKeyUpdate => "no key update",
            Self::Update => "update",
        })
    }
}
