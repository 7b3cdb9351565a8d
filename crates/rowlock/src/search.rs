//! Rows that must be found before they can be locked: all of a resource, and the children that a cascade reaches.
//!
//! They are looked for by a plain read, locked by their keys in the order, and looked for again under the locks, until no
//! new ones come (as `lock_where` does). What the statement then locks by itself is held:
//!
//! - **A cascade** reaches the children of rows that are locked first, at the strength of a DELETE, so that none is added:
//!   a child's INSERT waits for its parent.
//! - **A whole resource** can get rows after the last look, and another may have them. A lock that kept new rows out (of
//!   the table, of InnoDB's gaps) would be waited for by who adds one while he holds what lies above: a cycle. So the
//!   statement is sent without waiting where the server can ([`Driver::at_once`](crate::engine::Driver::at_once)), and the
//!   transaction restarts when it meets one. See docs/adr/0028.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};

use futures_util::TryStreamExt;
use rowlock_footprint::{Cause, Dialect, ForeignKey, Lock, Strength};
use sqlx::{AssertSqlSafe, Either, SqlSafeStr};

use crate::{
    KeyValue, Plan,
    check::quote,
    count::Event,
    engine::{Engine, where_text},
    error::Error,
    failure::Failure,
    footing::Footing,
    held::Held,
    inner::{Inner, Seen},
    model::Model,
    place::{Place, Reach},
    query::Query,
    statement::Statement,
};

/// How often rows are looked for.
const LOOKS: usize = 10;

/// So many parents one look for children names; the list is filled up to one of these, so that few texts are made.
const PARENTS: [usize; 3] = [1, 8, 64];

/// What is to be locked before a statement is sent.
pub(crate) struct First {
    pub(crate) plan: Plan,
    /// Resources of which all rows are.
    pub(crate) whole: Vec<(u16, Strength)>,
    /// Rows of which the children are.
    pub(crate) roots: Vec<Place>,
    /// The statement's, with the foreign keys that lead down from them.
    pub(crate) footing: Arc<Footing>,
}

impl First {
    /// Whether rows can come after the last look that the statement locks: of a whole resource, or a parent, with its
    /// children, that was not there to be locked.
    pub(crate) fn is_open(&self, held: &Held) -> bool {
        !self.whole.is_empty() || self.roots.iter().any(|root| held.strength(root).is_none())
    }

    /// A resource of which it locks rows that nobody can name.
    fn rank(&self) -> u16 {
        let roots = self.roots.iter().map(|root| root.rank);
        self.whole.iter().map(|(rank, _)| *rank).chain(roots).max().unwrap_or_default()
    }
}

/// One foreign key on the way down a cascade.
pub(crate) struct Hop {
    pub(crate) parent: u16,
    child: u16,
    /// Of the child, as a list in SQL: `t."order_id"`.
    columns: String,
    /// Of the parent: `p."id"`.
    parent_columns: String,
    strength: Strength,
}

impl Hop {
    /// The one by which a lock of a cascade is reached, from one of the resources that were `reached` before.
    pub(crate) fn of(model: &Model, lock: &Lock, child: u16, reached: &[u16]) -> Option<Hop> {
        let Cause::Cascade(name) = &lock.cause else { return None };
        let key = model.foreign_key(&lock.table, name)?;
        let parent = model.rank(&key.parent).filter(|parent| reached.contains(parent))?;
        Some(Hop::new(model, key, parent, child, lock.strength))
    }

    fn new(model: &Model, key: &ForeignKey, parent: u16, child: u16, strength: Strength) -> Hop {
        let list = |of: &str, columns: &[String]| {
            columns.iter().map(|c| format!("{of}.{}", quote(model.dialect, c))).collect::<Vec<_>>().join(", ")
        };
        let (columns, parent_columns) = (list("t", &key.columns), list("p", &key.parent_columns));
        Hop { parent, child, columns, parent_columns, strength }
    }

    /// The condition that finds the children of `room` parents.
    fn condition<E: Engine>(&self, model: &Model, room: usize) -> String {
        let parent = &model.targets[usize::from(self.parent)];
        let mut sql = format!("({}) IN (SELECT {} FROM {} p WHERE ", self.columns, self.parent_columns, parent.table);
        let mut number = 0;
        for n in 0..room {
            sql.push_str(if n == 0 { "(" } else { " OR (" });
            for (at, column) in parent.columns.iter().enumerate() {
                number += 1;
                let and = if at == 0 { "" } else { " AND " };
                let _ = write!(sql, "{and}p.{} = {}", column.quoted, E::key_value(column, number));
            }
            sql.push(')');
        }
        sql.push(')');
        sql
    }
}

impl<E: Engine> Inner<E> {
    /// Takes all of it in the order.
    pub(crate) async fn take_first(&mut self, first: &First, statement: &str) -> Result<(), Error> {
        if first.whole.is_empty() && first.roots.is_empty() {
            return self.acquire_plan(&first.plan, Some(statement)).await;
        }
        let steps = first.plan.steps().iter();
        let mut new: Vec<(Place, Strength)> = steps
            .flat_map(|step| step.keys.iter().map(|key| (Place::row(step.rank, key.clone()), step.strength)))
            .collect();
        let roots: Vec<(Place, Strength)> =
            new.iter().filter(|(place, _)| first.roots.contains(place)).cloned().collect();
        for _ in 0..LOOKS {
            let found = self.find(first).await?;
            if !found.is_empty() {
                // A parent that was not there has been made since: the statement would lock it while its children are held.
                let made = roots.iter().filter(|root| !new.contains(root) && self.held.strength(&root.0).is_none());
                new.extend(made.cloned().collect::<Vec<_>>());
            }
            for (place, strength) in found {
                if self.held.strength(&place).is_none_or(|have| have < self.strength(strength)) {
                    new.push((place, strength));
                }
            }
            if new.is_empty() {
                break;
            }
            self.acquire_plan(&Plan::new(std::mem::take(&mut new)), Some(statement)).await?;
        }
        Ok(())
    }

    async fn find(&mut self, first: &First) -> Result<Vec<(Place, Strength)>, Error> {
        let mut found = Vec::new();
        for (rank, strength) in &first.whole {
            let keys = self.look(*rank, "1 = 1", Query::new("")).await?;
            found.extend(keys.into_iter().map(|key| (Place::row(*rank, key), *strength)));
        }
        let Footing::Checked(checked) = &*first.footing else { return Ok(found) };
        let mut seen: BTreeSet<Place> = first.roots.iter().cloned().collect();
        let mut next = seen.clone();
        while !next.is_empty() {
            let mut parents: BTreeMap<u16, Vec<KeyValue>> = BTreeMap::new();
            for place in std::mem::take(&mut next) {
                parents.entry(place.rank).or_default().push(place.key);
            }
            for hop in &checked.hops {
                for key in self.children(hop, parents.get(&hop.parent).map_or(&[][..], Vec::as_slice)).await? {
                    let place = Place::row(hop.child, key);
                    found.push((place.clone(), hop.strength));
                    if seen.insert(place.clone()) {
                        next.insert(place);
                    }
                }
            }
        }
        Ok(found)
    }

    async fn children(&mut self, hop: &Hop, parents: &[KeyValue]) -> Result<Vec<KeyValue>, Error> {
        let model = self.model.clone();
        let parent = &model.targets[usize::from(hop.parent)];
        let [.., most] = PARENTS;
        let mut found = Vec::new();
        for keys in parents.chunks(most) {
            let room = PARENTS.into_iter().find(|room| *room >= keys.len()).unwrap_or(most);
            let filled = keys.iter().chain(std::iter::repeat(&keys[keys.len() - 1])).take(room);
            let query = filled.fold(Query::new(""), |query, key| query.bind_key(key, parent));
            found.extend(self.look(hop.child, &hop.condition::<E>(&model, room), query).await?);
        }
        Ok(found)
    }

    /// The keys of the rows that meet a condition, read without a lock.
    async fn look(&mut self, rank: u16, condition: &str, arguments: Query<E>) -> Result<Vec<KeyValue>, Error> {
        let model = self.model.clone();
        let target = &model.targets[usize::from(rank)];
        let sql = where_text(target, &target.key_list(), "", condition, "", None);
        let rows = arguments.with_sql(AssertSqlSafe(sql).into_sql_str()).rows(self).await?;
        Ok(rows.iter().map(|row| E::key(row, target)).collect::<Result<_, _>>()?)
    }

    /// Sends a statement on a whole resource, all rows of which are locked: what has come since is not waited for.
    pub(crate) async fn send_at_once(
        &mut self,
        statement: Statement<E>,
        first: &First,
    ) -> Result<Vec<Either<E::QueryResult, E::Row>>, Error> {
        let sql = statement.sql.clone();
        let set = E::at_once(self.dialect()).filter(|_| !self.fallback);
        let before = match set {
            Some(set) => {
                self.asking()?;
                let before = E::batch(self.connection.get(), set.into_sql_str()).await;
                self.pace.answered();
                before.map_err(|error| self.failed_on_the_way(error))?
            }
            None => None,
        };
        self.sending()?;
        let statement = statement.kept(self.shared.keeps_prepared);
        let result = E::fetch_many(self.connection.get(), statement).try_collect::<Vec<_>>().await;
        self.pace.answered();
        let busy = match &result {
            Err(error) => before.is_some() && Failure::of::<E>(self.dialect(), error) == Failure::Busy,
            Ok(_) => false,
        };
        // After an error PostgreSQL has it back by ROLLBACK.
        if let Some(before) = before.filter(|_| result.is_ok() || self.dialect() != Dialect::Postgres) {
            self.asking()?;
            let restored = E::batch(self.connection.get(), AssertSqlSafe(E::at_once_ends(before)).into_sql_str()).await;
            self.pace.answered();
            restored.map_err(|error| self.failed_on_the_way(error))?;
        }
        match result {
            Ok(steps) => Ok(steps),
            Err(_) if busy => {
                self.count(Event::Late);
                self.seen = Seen::Late;
                let rank = first.rank();
                let mut violation = self.some_rows_out_of_order(rank, &Reach::Resource(rank));
                violation.statement = Some(sql.as_str().to_owned());
                Err(Error::OutOfOrder(Box::new(violation)))
            }
            Err(error) => Err(self.split().1.typed(sql.as_str(), error).into()),
        }
    }

    fn failed_on_the_way(&mut self, error: sqlx::Error) -> Error {
        // The server's limit on waits may be set, or not.
        self.shared.sessions.forget_all();
        self.note(&error);
        error.into()
    }
}
