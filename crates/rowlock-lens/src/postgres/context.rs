//! PostgreSQL's CONTEXT: which row the victim was at, through which statements of functions it came there.

use std::sync::LazyLock;

use regex::Regex;

use super::{ENGLISH, LANGUAGES};
use crate::report::Row;

/// `while updating tuple (0,10) in relation "orders"`, in any language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) relation: String,
    pub(crate) place: String,
    /// A key was being inserted into the unique index `relation`.
    pub(crate) index: bool,
}

static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\(?(\d+), ?(\d+)\)?").ok());
static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("[\"»«“]\\s?([^\"»«”]{1,200}?)\\s?[\"»«”]").ok());

impl Place {
    pub(crate) fn read(line: &str) -> Option<Place> {
        // A line of a function's: `SQL statement ".."`, `PL/pgSQL function f() line 3 at SQL statement`.
        if line.len() > 400 || line.contains("PL/") || line.starts_with("SQL ") {
            return None;
        }
        let place = PLACE.as_ref()?.captures(line)?;
        let relation = NAME.as_ref()?.captures(line)?.get(1)?.as_str().to_owned();
        let languages = || std::iter::once(&ENGLISH).chain(&LANGUAGES);
        let index = languages().any(|language| language.acts.first().is_some_and(|act| line.contains(act)));
        let part = |n: usize| place.get(n).map(|part| part.as_str()).unwrap_or_default();
        Some(Place { relation, place: format!("({},{})", part(1), part(2)), index })
    }

    pub(crate) fn row(&self) -> Row {
        let place = Some(self.place.clone());
        match self.index {
            // The table is in the statement; an index's name is no table's.
            true => Row { index: Some(self.relation.clone()), place, ..Row::default() },
            false => Row { table: Some(self.relation.clone()), place, ..Row::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_in_every_language() {
        for line in [
            "while updating tuple (0,10) in relation \"orders\"",
            "beim Aktualisieren von Tupel (0,10) in Relation »orders«",
            "lors de la mise à jour de la ligne (0,10) dans la relation « orders »",
            "リレーション\"orders\"のタプル(0,10)の更新中",
            "0,10 튜플(해당 릴레이션 \"orders\")을 갱신하는 중에 발생",
            "while locking updated version (0,10) of tuple in relation \"orders\"",
        ] {
            let place = Place::read(line).unwrap();
            assert_eq!(
                (place.relation.as_str(), place.place.as_str(), place.index),
                ("orders", "(0,10)", false),
                "{line}"
            );
        }
        for line in [
            "while inserting index tuple (0,55) in relation \"orders_pkey\"",
            "beim Einfügen von Indextupel (0,55) in Relation »orders_pkey«",
            "在往关系\"orders_pkey\"中插入索引元组 (0,55) 时",
        ] {
            assert!(Place::read(line).unwrap().index, "{line}");
        }
        assert_eq!(Place::read("PL/pgSQL function f(a,b) line 3 at SQL statement"), None);
    }
}
