//! The guard: every statement that is sent through a [`Tx`](crate::Tx) is held to the order before it can wait.
//!
//! What a text locks is worked out once ([`Footing`]); here it is held against what the transaction holds. Two things can
//! be mended: several rows in one statement, which no statement locks in an order that one could rely on, and rows below
//! what is held. Both are locked first, by their keys. What cannot be mended is refused, or told, as the guard's level
//! has it.

use std::sync::Arc;

use rowlock_footprint::{Dialect, Strength};

use crate::{
    Plan, Reach, creation,
    engine::Engine,
    error::Error,
    footing::{Checked, Demand, Footing, Resolved},
    held::Standing,
    inner::Inner,
    model::Model,
    options::{Guard, UnknownKeys},
    place::Place,
    search::First,
    statement::Statement,
    violation::Violation,
};

/// What is to happen with a statement.
pub(crate) enum Admission {
    /// It may be sent.
    Pass,
    /// These rows are to be locked first.
    First(First),
}

/// What the demands of a statement come to.
#[derive(Default)]
struct Needs {
    /// Rows that can be locked by their keys.
    rows: Vec<(Place, Strength, Standing)>,
    /// Rows that the statement makes, in its own order.
    made: Vec<(Place, Strength, Standing)>,
    /// Some of the rows are locked at COMMIT, by a deferred foreign key.
    at_commit: bool,
    /// Resources of which any row may be locked.
    whole: Vec<(u16, Strength)>,
    /// Rows that are deleted or may get another key, as far as they are known.
    roots: Vec<Place>,
    /// Not all of these are.
    unrooted: bool,
    /// Children of these are locked, by a cascade.
    children: bool,
}

impl Needs {
    /// A statement makes its rows one after the other, as they stand in it: each must lie above the one before.
    fn make(&mut self, place: Place, strength: Strength, standing: Standing) {
        let before = self.made.last().map(|(before, ..)| before).filter(|before| **before > place);
        let standing = match (before, standing) {
            (Some(before), Standing::Ahead) => Standing::Late(Reach::Place(before.clone())),
            (_, standing) => standing,
        };
        self.made.push((place, strength, standing));
    }
}

impl<E: Engine> Inner<E> {
    /// Holds a statement to the order. What passes counts as held.
    pub(crate) fn admit(&mut self, statement: &Statement<E>) -> Result<Admission, Error> {
        self.admit_looked(statement, false)
    }

    fn admit_looked(&mut self, statement: &Statement<E>, looked: bool) -> Result<Admission, Error> {
        let sql = statement.sql.as_str();
        let model = self.model.clone();
        let footing = model.footing(sql);
        let checked = match &*footing {
            Footing::Clear => return Ok(Admission::Pass),
            Footing::Unreadable(unreadable) => {
                self.judge(self.options.unreadable, sql, || {
                    format!("{unreadable}; allow it with `.unreadable(Policy::Warn)` if it locks nothing out of order")
                })?;
                return Ok(Admission::Pass);
            }
            Footing::Checked(checked) => checked,
        };
        self.judge_unseen(checked, sql)?;
        if checked.demands.is_empty() {
            return Ok(Admission::Pass);
        }
        self.hold.start();
        let needs = self.needs(checked, statement, looked)?;
        self.settle(needs, &footing, looked, sql)
    }

    /// After what had to be locked first is locked: rows that the statement makes must still lie above it.
    pub(crate) fn admit_after(&mut self, statement: &Statement<E>) -> Result<(), Error> {
        self.admit_looked(statement, true).map(drop)
    }

    fn needs(&mut self, checked: &Checked, statement: &Statement<E>, looked: bool) -> Result<Needs, Error> {
        let sql = statement.sql.as_str();
        let model = self.model.clone();
        let mut needs = Needs::default();
        let mut changed = None;
        // What the statement locks of its new rows' parents, in whatever order, is no reason not to make them.
        let parents = own_parents(checked, statement, &model);
        for demand in &checked.demands {
            let own = if demand.insert { &parents[..] } else { &[] };
            let target = &model.targets[usize::from(demand.rank)];
            match demand.resolve(statement.bound.as_deref(), target) {
                Resolved::Keys(keys) => {
                    for key in keys {
                        let place = Place::row(demand.rank, key);
                        if demand.root {
                            needs.roots.push(place.clone());
                        }
                        if !demand.waits {
                            self.held.insert(place, demand.strength);
                            continue;
                        }
                        match self.held.standing(&place, demand.strength) {
                            Standing::Held => {}
                            // It is there (an upsert's), and so not made.
                            _ if demand.insert && self.held.strength(&place).is_some() => {}
                            // Nobody else makes it.
                            _ if demand.insert && self.guards(&place) => {
                                self.held.insert(place, demand.strength);
                            }
                            standing if demand.insert => {
                                let standing = match (standing, self.held.reach_besides(own)) {
                                    (Standing::Late(_), Some(reach)) if !reach.is_below(&place) => {
                                        Standing::Late(reach)
                                    }
                                    (Standing::Late(_), _) => Standing::Ahead,
                                    (standing, _) => standing,
                                };
                                needs.make(place, demand.strength, standing);
                            }
                            standing => {
                                needs.at_commit |= demand.at_commit;
                                needs.rows.push((place, demand.strength, standing));
                            }
                        }
                    }
                }
                // An upsert: what it may make is what it may change.
                Resolved::Hidden { .. } if demand.insert && changed == Some(demand.rank) => {
                    self.held.insert_made(demand.rank, demand.strength);
                }
                Resolved::Hidden { several } => {
                    self.admit_hidden(demand, several, &needs, own, sql)?;
                    if demand.root {
                        let held = self.held.rows_of(demand.rank).filter(|(_, have)| *have >= demand.strength);
                        needs.roots.extend(held.map(|(place, _)| place.clone()));
                        needs.unrooted |= !self.held.any_of(demand.rank, demand.strength);
                    }
                    changed = Some(demand.rank).filter(|_| !demand.insert && !demand.parent).or(changed);
                }
                Resolved::Unknown if demand.parent => self.admit_hidden(demand, false, &needs, own, sql)?,
                Resolved::Unknown
                    if demand.cascade.is_some() && !needs.unrooted && self.options.guard > Guard::Observe =>
                {
                    needs.children = true;
                }
                Resolved::Unknown => {
                    needs.unrooted |= demand.root;
                    self.admit_unknown(demand, &mut needs, own, looked, sql)?;
                }
            }
        }
        Ok(needs)
    }

    /// Whether the transaction has taken the guard of this row's creation.
    fn guards(&self, place: &Place) -> bool {
        let slot = creation::slot(self.dialect(), &place.key);
        self.held.strength(&Place::creation(place.rank, slot)).is_some()
    }

    /// What stands in the way of a wait for some row of the resource at `rank`: what is held, or is locked by the statement
    /// itself.
    fn barrier(&self, rank: u16, needs: &Needs, own: &[Place]) -> Option<Reach> {
        let held = self.held.reach_besides(own).filter(|reach| !reach.is_below_rows(rank));
        held.or_else(|| {
            let places = needs.rows.iter().chain(&needs.made).map(|(place, ..)| place);
            places.filter(|place| place.rank >= rank).max().cloned().map(Reach::Place)
        })
    }

    /// `looked`: the rows were looked for and locked. Those that are still needed are not there, and nobody waits for them;
    /// for the place of a new one a statement can wait, if another transaction makes it.
    fn settle(
        &mut self,
        mut needs: Needs,
        footing: &Arc<Footing>,
        looked: bool,
        sql: &str,
    ) -> Result<Admission, Error> {
        if looked {
            for (place, strength, _) in std::mem::take(&mut needs.rows) {
                // If it is made meanwhile, the statement locks it: it may be held, and is not to be waited for as if it were.
                if !needs.made.iter().any(|(made, ..)| *made == place) {
                    self.held.insert_unknown(place.rank, strength);
                }
            }
        }
        needs.rows.sort();
        needs.rows.dedup();
        let single = needs.rows.len() + needs.made.len() <= 1;
        let ahead = needs.rows.iter().all(|(_, _, standing)| *standing == Standing::Ahead);
        // One row that lies ahead: the statement may wait for it itself. One new row, then one parent above it: the engine
        // makes the row first and checks the parent then, so that is in order too.
        let in_order = match (&needs.rows[..], &needs.made[..]) {
            ([row], [made]) => made.0 < row.0,
            _ => single,
        };
        // Who does not wait has them locked first: the statement itself knows no NOWAIT.
        let at_once = !looked && self.options.wait.is_zero();
        // A parent that is checked at COMMIT would be waited for when the transaction holds more: it is locked now.
        let now = at_once || needs.at_commit;
        let rows = !needs.rows.is_empty() && (!ahead || !in_order || now);
        let roots = if needs.children { std::mem::take(&mut needs.roots) } else { Vec::new() };
        // In SQLite the transaction has the whole file.
        let search = !looked && self.dialect() != Dialect::Sqlite && (!needs.whole.is_empty() || !roots.is_empty());
        if (rows || search) && self.options.guard > Guard::Observe {
            return Ok(Admission::First(First {
                plan: Plan::new(needs.rows.into_iter().map(|(place, strength, _)| (place, strength))),
                whole: if search { needs.whole } else { Vec::new() },
                roots: if search { roots } else { Vec::new() },
                footing: footing.clone(),
            }));
        }
        for (rank, strength) in needs.whole {
            self.held.insert_unknown(rank, strength);
        }
        let rows = needs.rows.into_iter().map(|need| (need, false));
        for ((place, strength, standing), made) in rows.chain(needs.made.into_iter().map(|need| (need, true))) {
            if standing != Standing::Ahead {
                let resource = self.resource(place.rank).name;
                let violation = Violation {
                    made: made.then_some(resource),
                    ..self.out_of_order(&place, strength, &standing, Some(sql))
                };
                self.violation(violation)?;
            }
            self.held.insert(place, strength);
        }
        Ok(Admission::Pass)
    }

    /// The keys are bound where the guard cannot see them. Rows of the resource are held strongly enough, or were made: it
    /// is taken to be among them. Nothing of it or above is held: it counts as some row of it.
    fn admit_hidden(
        &mut self,
        demand: &Demand,
        several: bool,
        needs: &Needs,
        own: &[Place],
        sql: &str,
    ) -> Result<(), Error> {
        let Demand { rank, strength, .. } = *demand;
        let enough = if demand.insert { Strength::KeyShare } else { strength };
        // On PostgreSQL a child's INSERT waits only for who deletes the parent or changes its key: further parents pass.
        let further = demand.parent && !self.dialect().is_innodb() && self.held.some_unknown(rank, strength);
        // Of a new row: it is taken to be among those whose creation is guarded.
        let guarded = demand.insert && self.held.guards_of(rank);
        if further || guarded || self.held.any_of(rank, enough) {
            if demand.insert {
                self.held.insert_made(rank, strength);
            }
            return Ok(());
        }
        if several && demand.waits && !demand.insert {
            let name = self.resource(rank).name;
            self.judge(crate::Policy::Refuse, sql, || {
                format!(
                    "it locks several rows of `{name}` in no order, by keys that sqlx hides: lock them first with `tx.lock::<{name}>(..)`, \
                     or use `rowlock::query`, which shows the guard what is bound"
                )
            })?;
        }
        let Some(reach) = self.barrier(rank, needs, own).filter(|_| demand.waits) else {
            match demand.insert {
                true => self.held.insert_made(rank, strength),
                false => self.held.insert_unknown(rank, strength),
            }
            return Ok(());
        };
        let name = self.resource(rank).name;
        let weaker = self.held.rows_of(rank).map(|(_, s)| s).max();
        let violation = Violation {
            kind: self.kind.clone(),
            asked: format!("a row of `{name}`"),
            held: reach.name(self.model.resources),
            rise: weaker.map(|from| (from, strength)),
            made: demand.insert.then_some(name),
            statement: Some(sql.to_owned()),
        };
        self.violation(violation)?;
        self.held.insert_unknown(rank, strength);
        Ok(())
    }

    /// The text does not say which rows.
    fn admit_unknown(
        &mut self,
        demand: &Demand,
        needs: &mut Needs,
        own: &[Place],
        looked: bool,
        sql: &str,
    ) -> Result<(), Error> {
        let Demand { rank, strength, .. } = *demand;
        let name = self.resource(rank).name;
        let whole = self.options.unknown_keys == UnknownKeys::WholeResource || !demand.waits;
        if !whole {
            self.judge(crate::Policy::Refuse, sql, || match demand.cascade.map(|rank| self.resource(rank).name) {
                Some(parent) => format!(
                    "which rows of `{name}` go with those of `{parent}` cannot be known before it runs: lock these first with \
                     `tx.lock::<{parent}>(..).update()`, or use `rowlock::query`, which shows the guard what is bound"
                ),
                None if demand.insert => format!(
                    "which rows of `{name}` it makes cannot be known before it runs: give them by `VALUES`, with their keys, or \
                     count them as the whole resource with `.unknown_keys(UnknownKeys::WholeResource)`"
                ),
                None => format!(
                    "which rows of `{name}` it locks cannot be known before it runs: use `tx.lock_where::<{name}>(..)`, name the key in \
                     it, or count it as the whole resource with `.unknown_keys(UnknownKeys::WholeResource)`"
                )
            })?;
        } else if demand.waits && !demand.insert && self.options.guard > Guard::Observe {
            // They are found and locked, in order, before it is sent.
            if !looked {
                needs.whole.push((rank, strength));
                return Ok(());
            }
        } else if demand.waits
            && let Some(reach) = self.barrier(rank, needs, own)
        {
            let mut violation = self.some_rows_out_of_order(rank, &reach);
            violation.made = demand.insert.then_some(name);
            violation.statement = Some(sql.to_owned());
            self.violation(violation)?;
        }
        self.held.insert_unknown(rank, strength);
        Ok(())
    }
}

/// The parents that the statement's new rows have, as far as they are known.
fn own_parents<E: Engine>(checked: &Checked, statement: &Statement<E>, model: &Model) -> Vec<Place> {
    if !checked.demands.iter().any(|demand| demand.insert) {
        return Vec::new();
    }
    let mut own = Vec::new();
    for demand in checked.demands.iter().filter(|demand| demand.parent) {
        let target = &model.targets[usize::from(demand.rank)];
        if let Resolved::Keys(keys) = demand.resolve(statement.bound.as_deref(), target) {
            own.extend(keys.into_iter().map(|key| Place::row(demand.rank, key)));
        }
    }
    own
}

impl<E: Engine> Inner<E> {
    /// Some rows of the resource at `rank` were asked for, it is not known which, while `reach` is held.
    pub(crate) fn some_rows_out_of_order(&self, rank: u16, reach: &Reach) -> Violation {
        Violation {
            kind: self.kind.clone(),
            asked: format!("some rows of `{}`", self.resource(rank).name),
            held: reach.name(self.model.resources),
            rise: None,
            made: None,
            statement: None,
        }
    }
}
