//! A statement's footprint on the order's own ground: tables as ranks, literals as keys. Worked out once for a text.

use rowlock_footprint::{
    Cause, Footprint, Literal, Lock, Rows, Setting, Strength, TableName, Through, Unreadable, Value, Verb, Wait,
};
use uuid::Uuid;

use crate::{KeyType, KeyValue, check::Target, model::Model, search::Hop, statement::Bound};

pub(crate) enum Footing {
    /// A plain read: nothing to check.
    Clear,
    /// Locks, or something that wants a policy.
    Checked(Checked),
    /// The text could not be read.
    Unreadable(Unreadable),
}

pub(crate) struct Checked {
    pub(crate) verb: Verb,
    pub(crate) demands: Vec<Demand>,
    pub(crate) opaque: Vec<String>,
    /// Tables outside the order of which existing rows are locked.
    pub(crate) undeclared: Vec<TableName>,
    /// Temporary tables that it makes.
    pub(crate) temporary: Vec<TableName>,
    pub(crate) settings: Vec<Setting>,
    /// Resources whose rows are locked through a view, with its name.
    pub(crate) through: Vec<(u16, String)>,
    /// The way down from the rows that it deletes, or gives another key, to the rows that cascades reach.
    pub(crate) hops: Vec<Hop>,
}

/// Locks of one strength on some rows of one resource.
pub(crate) struct Demand {
    pub(crate) rank: u16,
    pub(crate) strength: Strength,
    pub(crate) rows: DemandedRows,
    pub(crate) insert: bool,
    pub(crate) waits: bool,
    /// Rows that are deleted, or may get another key.
    pub(crate) root: bool,
    /// Rows that a cascade reaches, to which `hops` lead: from which resource.
    pub(crate) cascade: Option<u16>,
    /// A foreign key's check.
    pub(crate) parent: bool,
    /// That is made at COMMIT, when what lies above may be held.
    pub(crate) at_commit: bool,
}

pub(crate) enum DemandedRows {
    /// One entry a row; each with a value a key column.
    Keys(Vec<Vec<Part>>),
    Unknown,
}

pub(crate) enum Part {
    Known(KeyValue),
    Parameter(usize),
    /// Each element of a bound array.
    Array(usize),
    Unknown,
}

/// Which rows a demand is on, once the bound values are known as far as they can be.
pub(crate) enum Resolved {
    Keys(Vec<KeyValue>),
    /// Rows whose keys are bound where the guard cannot see them; one, or several.
    Hidden {
        /// More than one row.
        several: bool,
    },
    Unknown,
}

impl Footing {
    pub(crate) fn new(footprint: Result<Footprint, Unreadable>, model: &Model) -> Footing {
        let footprint = match footprint {
            Ok(footprint) => footprint,
            Err(unreadable) => return Footing::Unreadable(unreadable),
        };
        let locks_nothing = footprint.locks.is_empty() && footprint.opaque.is_empty();
        let nothing_else = footprint.through.is_empty() && footprint.settings.is_empty();
        if footprint.verb == Verb::Read && locks_nothing && nothing_else {
            return Footing::Clear;
        }
        let mut checked = Checked {
            verb: footprint.verb,
            demands: Vec::new(),
            opaque: footprint.opaque,
            undeclared: Vec::new(),
            temporary: footprint.temporary,
            settings: footprint.settings,
            through: Vec::new(),
            hops: Vec::new(),
        };
        let mut reached: Vec<u16> = Vec::new();
        for lock in footprint.locks {
            match model.rank(&lock.table) {
                Some(rank) => {
                    let hop = Hop::of(model, &lock, rank, &reached);
                    if hop.is_some() || is_root(&lock.cause) {
                        reached.push(rank);
                    }
                    let cascade = hop.as_ref().map(|hop| hop.parent);
                    checked.hops.extend(hop);
                    checked.demands.extend(Demand::new(rank, model, lock).map(|demand| Demand { cascade, ..demand }));
                }
                // A new row is nobody else's, and a parent's check is over before anything is decided on it.
                None if matches!(lock.cause, Cause::Insert | Cause::ForeignKey(_) | Cause::Read) => {}
                // The session's own.
                None if lock.table.schema.as_deref().is_some_and(|schema| model.is_temporary(schema)) => {}
                None if checked.undeclared.contains(&lock.table) => {}
                None => checked.undeclared.push(lock.table),
            }
        }
        for Through { view, table } in footprint.through {
            match model.rank(&table) {
                Some(rank) => checked.through.push((rank, view.to_string())),
                None => {
                    let name = format!("{} (through the view {view})", table.name);
                    checked.undeclared.push(TableName { name, ..table });
                }
            }
        }
        // Rows that are changed come before rows that are made: that the statement may make a row is no reason to let it lock
        // others. Foreign keys are checked last.
        checked.demands.sort_by_key(|demand| (demand.parent, demand.insert));
        Footing::Checked(checked)
    }
}

impl Demand {
    fn new(rank: u16, model: &Model, lock: Lock) -> Option<Demand> {
        let target = &model.targets[usize::from(rank)];
        let at_commit = matches!(&lock.cause, Cause::ForeignKey(name) if model.is_deferred(&lock.table, name));
        let rows = match lock.rows {
            Rows::Fresh => return None,
            Rows::Unknown => DemandedRows::Unknown,
            Rows::Keys { columns, keys } => match positions(target, &columns) {
                // A new row's place is the one that its own key gives it. Who makes two rows of one value of another unique
                // key meet at that value; such a race is for `guard_creation`.
                None if lock.cause == Cause::Insert => return None,
                // Another unique key of the table: one row, and its place is not known by it.
                None => DemandedRows::Unknown,
                Some(positions) => DemandedRows::Keys(
                    keys.iter()
                        .map(|key| {
                            let parts = positions.iter().zip(&target.columns);
                            parts.map(|(position, column)| part(key.get(*position), column.key)).collect::<Vec<_>>()
                        })
                        // NULL is equal to no row.
                        .filter_map(|parts| parts.into_iter().collect::<Option<Vec<_>>>())
                        .collect(),
                ),
            },
        };
        Some(Demand {
            rank,
            strength: lock.strength,
            rows,
            insert: lock.cause == Cause::Insert,
            root: is_root(&lock.cause),
            cascade: None,
            waits: lock.wait == Wait::Wait,
            parent: matches!(lock.cause, Cause::ForeignKey(_)),
            at_commit,
        })
    }

    /// The rows, given the bound values where rowlock bound them itself.
    pub(crate) fn resolve(&self, bound: Option<&[Bound]>, target: &Target) -> Resolved {
        let DemandedRows::Keys(keys) = &self.rows else { return Resolved::Unknown };
        let arrays = keys.iter().flatten().any(|part| matches!(part, Part::Array(_)));
        let Some(bound) = bound else {
            let hidden = keys.iter().flatten().any(|part| matches!(part, Part::Parameter(_) | Part::Array(_)));
            return match hidden {
                true => Resolved::Hidden { several: arrays || keys.len() > 1 },
                false => self.known(keys, &[], target),
            };
        };
        self.known(keys, bound, target)
    }

    fn known(&self, keys: &[Vec<Part>], bound: &[Bound], target: &Target) -> Resolved {
        let mut resolved = Vec::with_capacity(keys.len());
        for parts in keys {
            let bound_of = |n: &usize| bound.get(*n).unwrap_or(&Bound::Other);
            // NULL is equal to no row.
            if parts.iter().any(|p| matches!(p, Part::Parameter(n) | Part::Array(n) if *bound_of(n) == Bound::Null)) {
                continue;
            }
            let mut columns = Vec::with_capacity(parts.len());
            for (part, column) in parts.iter().zip(&target.columns) {
                let value = match part {
                    Part::Known(value) => Some(value.clone()),
                    Part::Parameter(n) => match bound_of(n) {
                        Bound::Key(value) => coerce(value.clone(), column.key),
                        Bound::Null | Bound::Other => None,
                    },
                    Part::Array(n) if parts.len() == 1 => match bound_of(n) {
                        // An array is read as the tuple of its elements.
                        Bound::Key(KeyValue::Tuple(elements)) => {
                            for element in elements.iter() {
                                match coerce(element.clone(), column.key) {
                                    Some(value) => resolved.push(value),
                                    None => return Resolved::Unknown,
                                }
                            }
                            continue;
                        }
                        _ => None,
                    },
                    Part::Array(_) | Part::Unknown => None,
                };
                match value {
                    Some(value) => columns.push(value),
                    None => return Resolved::Unknown,
                }
            }
            resolved.extend(KeyValue::from_columns(columns));
        }
        Resolved::Keys(resolved)
    }
}

fn is_root(cause: &Cause) -> bool {
    matches!(cause, Cause::Delete | Cause::Update | Cause::Upsert)
}

/// Where in `columns` each column of the target's key stands; `None` when they are not the key's columns.
fn positions(target: &Target, columns: &[String]) -> Option<Vec<usize>> {
    if columns.len() != target.columns.len() {
        return None;
    }
    target.columns.iter().map(|c| columns.iter().position(|name| *name == c.name)).collect()
}

/// `None` for NULL.
fn part(value: Option<&Value>, key: KeyType) -> Option<Part> {
    let literal = match value {
        Some(Value::Literal(literal)) => literal,
        Some(Value::Parameter(n)) => return Some(Part::Parameter(*n)),
        Some(Value::ParameterArray(n)) => return Some(Part::Array(*n)),
        _ => return Some(Part::Unknown),
    };
    let value = match literal {
        Literal::Null => return None,
        Literal::Integer(n) => KeyValue::Integer(*n),
        Literal::Text(t) => KeyValue::Text(t.as_str().into()),
        Literal::Bytes(b) => KeyValue::Bytes(b.as_slice().into()),
    };
    Some(coerce(value, key).map_or(Part::Unknown, Part::Known))
}

/// The value as a key column of that type would store it; `None` when that is not plain.
fn coerce(value: KeyValue, key: KeyType) -> Option<KeyValue> {
    match (key, value) {
        (KeyType::Integer, value @ KeyValue::Integer(_))
        | (KeyType::Uuid, value @ KeyValue::Uuid(_))
        | (KeyType::Text, value @ KeyValue::Text(_))
        | (KeyType::Bytes, value @ KeyValue::Bytes(_)) => Some(value),
        (KeyType::Integer, KeyValue::Text(t)) => t.trim().parse().ok().map(KeyValue::Integer),
        (KeyType::Uuid, KeyValue::Text(t)) => Uuid::parse_str(&t).ok().map(KeyValue::Uuid),
        (KeyType::Uuid, KeyValue::Bytes(b)) => Uuid::from_slice(&b).ok().map(KeyValue::Uuid),
        (KeyType::Bytes, KeyValue::Text(t)) => Some(KeyValue::Bytes(t.as_bytes().into())),
        (KeyType::Bytes, KeyValue::Uuid(u)) => Some(KeyValue::Bytes(u.as_bytes().as_slice().into())),
        (KeyType::Text, KeyValue::Uuid(u)) => Some(KeyValue::Text(u.to_string().into())),
        _ => None,
    }
}
