//! How transactions are run: retries, limits, isolation, and how strict the guard is.

use std::time::Duration;

use crate::Policy;

/// How strictly the guard holds statements to the order. Per database, and per kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// Violations are counted and traced at debug level; nothing is done about them. To adopt rowlock in a running service.
    /// (Only BEGIN, COMMIT and their like, and what changes what names mean, such as `USE` and
    /// `SET search_path`, are refused at every level: they would undo what rowlock promises.)
    Observe,
    /// As `Observe`, at warning level, once for a text and a kind of transaction. What can be mended without refusing anything (a late place, several rows in one
    /// statement) is mended.
    Warn,
    /// What can be mended is mended; what cannot is refused before it waits. The default.
    Enforce,
}

/// What to do about a place that lies below what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Late {
    /// Take it without waiting; when it is busy, restart the transaction with all that it needed locked up front, in
    /// order. The default. After [`Builder::restarts`](crate::Builder::restarts) of these it is waited for.
    Restart,
    /// Refuse it: the error names both places. Where the guard only tells, it is told, and waited for.
    Refuse,
}

/// What to do about a statement whose rows its text does not name (`WHERE status = ..`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownKeys {
    /// Refuse it, where the guard enforces, and point to `lock_where`. The default.
    Refuse,
    /// Count it as the whole resource: all its rows are found and locked in order before the statement is sent, which then
    /// waits for none (MySQL: but for rows that were added in that moment). Afterwards nothing of the resource may be waited
    /// for.
    WholeResource,
}

/// Isolation level. Where none is asked for, PostgreSQL's is the database's own default and InnoDB's is READ COMMITTED,
/// so that its locking statements lock no gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// All statements see one snapshot. On MySQL and MariaDB locks then cover gaps too, and a plain read after a lock, such
    /// as the second look of `lock_where`, still gives what was there before.
    RepeatableRead,
    /// As if the transactions ran one after the other. On MySQL and MariaDB every plain read then shares the rows that it
    /// reads, in the order of its scan, which the guard does not see: deadlocks come back, and are retried.
    Serializable,
}

impl Isolation {
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

/// The longest limit: more than anyone waits, and what clocks and servers can still add to.
pub(crate) const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// All of it. Set on the [`Builder`](crate::Builder) for a database, on a [`Kind`](crate::Kind) for one kind.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) guard: Guard,
    pub(crate) late: Late,
    pub(crate) unknown_keys: UnknownKeys,
    pub(crate) unreadable: Policy,
    pub(crate) opaque: Policy,
    pub(crate) undeclared: Policy,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    pub(crate) commit_token: bool,
    pub(crate) attempts: u32,
    pub(crate) restarts: u32,
    pub(crate) deadline: Duration,
    pub(crate) wait: Duration,
    pub(crate) backoff: Duration,
    pub(crate) hold_budget: Duration,
    pub(crate) hold_limit: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            guard: Guard::Enforce,
            late: Late::Restart,
            unknown_keys: UnknownKeys::Refuse,
            unreadable: Policy::Refuse,
            opaque: Policy::Warn,
            undeclared: Policy::Refuse,
            isolation: None,
            read_only: false,
            deferrable: false,
            commit_token: false,
            attempts: 10,
            restarts: 10,
            deadline: Duration::from_secs(30),
            wait: Duration::from_secs(10),
            backoff: Duration::from_millis(5),
            hold_budget: Duration::from_secs(1),
            hold_limit: None,
        }
    }
}

/// The settings that a builder and a kind share, as methods of both.
macro_rules! settings {
    ($self:ident => $options:expr) => {
        /// How strictly statements are held to the order. Default: [`Guard::Enforce`](crate::Guard::Enforce).
        #[must_use]
        pub fn guard(mut $self, guard: $crate::Guard) -> Self {
            $options.guard = guard;
            $self
        }
        /// What to do about a place below what is held. Default: [`Late::Restart`](crate::Late::Restart).
        #[must_use]
        pub fn late(mut $self, late: $crate::Late) -> Self {
            $options.late = late;
            $self
        }
        /// What to do about statements whose rows their text does not name. Default:
        /// [`UnknownKeys::Refuse`](crate::UnknownKeys::Refuse).
        #[must_use]
        pub fn unknown_keys(mut $self, unknown: $crate::UnknownKeys) -> Self {
            $options.unknown_keys = unknown;
            $self
        }
        /// What to do about SQL that the guard cannot read. Default: [`Policy::Refuse`](crate::Policy::Refuse). Always
        /// traced.
        #[must_use]
        pub fn unreadable(mut $self, policy: $crate::Policy) -> Self {
            $options.unreadable = policy;
            $self
        }
        /// What to do about functions, triggers, rules and procedures, which may lock what no text shows. Default:
        /// [`Policy::Warn`](crate::Policy::Warn).
        #[must_use]
        pub fn opaque(mut $self, policy: $crate::Policy) -> Self {
            $options.opaque = policy;
            $self
        }
        /// What to do about row locks on tables that are not in the order. Default:
        /// [`Policy::Refuse`](crate::Policy::Refuse). (New rows of such tables are always let pass.)
        #[must_use]
        pub fn undeclared(mut $self, policy: $crate::Policy) -> Self {
            $options.undeclared = policy;
            $self
        }
        /// Isolation level. Default: the server's on PostgreSQL, READ COMMITTED on MySQL and MariaDB; SQLite has one.
        #[must_use]
        pub fn isolation(mut $self, isolation: $crate::Isolation) -> Self {
            $options.isolation = Some(isolation);
            $self
        }
        /// How often a transaction is run at most when it fails in a way that another run may mend. Default: 10; at least 1.
        #[must_use]
        pub fn attempts(mut $self, attempts: u32) -> Self {
            $options.attempts = attempts.max(1);
            $self
        }
        /// How often a transaction is restarted for a busy late place. After that the late place is waited for, within
        /// the wait limit and with the engine's own deadlock detection as the net, so that it ends. Default: 10.
        #[must_use]
        pub fn restarts(mut $self, restarts: u32) -> Self {
            $options.restarts = restarts;
            $self
        }
        /// The time within which a new attempt may begin, from the first one's start. Default: 30 s.
        #[must_use]
        pub fn deadline(mut $self, deadline: std::time::Duration) -> Self {
            $options.deadline = deadline;
            $self
        }
        /// How long one locking call may wait, and how long a connection of the pool is waited for (500 ms at least, since one
        /// may have to be made), within the deadline. Kept by the client, which then cancels the statement at the server; the
        /// server's own setting (for each row on PostgreSQL, in whole seconds on InnoDB) is the backstop. Default: 10 s; at most
        /// a week.
        #[must_use]
        pub fn wait(mut $self, limit: std::time::Duration) -> Self {
            $options.wait = limit.min($crate::options::LONGEST);
            $self
        }
        /// No locking call waits: as [`wait`](Self::wait) with no time at all. A statement of your own has its rows locked
        /// without waiting first, where its text or [`rowlock::query`](crate::query()) shows which they are.
        #[must_use]
        pub fn nowait($self) -> Self {
            $self.wait(std::time::Duration::ZERO)
        }
        /// The unit of the waits between attempts: the n-th is a random time up to `unit * 2^n`, at most 1 s ("full
        /// jitter"). Default: 5 ms.
        #[must_use]
        pub fn backoff(mut $self, unit: std::time::Duration) -> Self {
            $options.backoff = unit;
            $self
        }
        /// How long locks may be held before a warning is traced. Default: 1 s.
        #[must_use]
        pub fn hold_budget(mut $self, budget: std::time::Duration) -> Self {
            $options.hold_budget = budget;
            $self
        }
        /// How long locks may be held before the transaction is ended with
        /// [`Error::HoldLimit`](crate::Error::HoldLimit). PostgreSQL, as the backstop for a client that is gone, also ends
        /// one that is idle for 1 s longer than that, locks or not. Default: no limit.
        #[must_use]
        pub fn hold_limit(mut $self, limit: std::time::Duration) -> Self {
            $options.hold_limit = Some(limit.min($crate::options::LONGEST));
            $self
        }
        /// Writes a token row in each transaction, by which a COMMIT whose answer was lost is resolved: one more
        /// statement in the same round trip as COMMIT. Needs rowlock's tables ([`Db::install`](crate::Db::install)).
        /// Default: off.
        #[must_use]
        pub fn commit_token(mut $self, on: bool) -> Self {
            $options.commit_token = on;
            $self
        }
    };
}
pub(crate) use settings;
