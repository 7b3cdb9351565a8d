//! `missing-row-lock`: a lock on a row that is not there yet.

use rowlock_footprint::{Given, Isolation, Table, Value};

use super::{Hazard, Sighting, Verdict, fix, inferred};
use crate::course::{Course, Statement};
use crate::finding::{Fix, Level};
use crate::report::Engine;
use crate::statement::{Verb, same_table};

pub(super) const HAZARD: Hazard = Hazard {
    name: "missing-row-lock",
    title: "a row that does not exist cannot be locked",
    about: "\"Look whether it is there, under a lock, and insert it if not\" locks nothing when the row is not there: two transactions \
            look, find nothing, and both insert. With a unique key, one of them fails with a duplicate; without one, there are two \
            rows. (InnoDB under REPEATABLE READ locks the gap instead, and the two deadlock: gap-lock.) Have a unique key and \
            insert at once: INSERT .. ON CONFLICT, or ON DUPLICATE KEY UPDATE, tells who was first. Or lock a row that is always \
            there, its parent for example, before looking.",
    level: Level::Warning,
    judge_kind: Some(judge_kind),
    ..Hazard::PLAIN
};

fn judge_kind(course: &Course<'_>) -> Vec<Sighting> {
    let pairs = course.with_later().filter_map(|(at, look, later)| {
        // It is there, and goes first.
        let later = later.split(|statement| statement.verb == Verb::Delete).next().unwrap_or_default();
        later.iter().find_map(|insert| sighting(course, at, look, insert))
    });
    pairs.collect()
}

fn sighting(course: &Course<'_>, at: usize, look: &Statement<'_>, insert: &Statement<'_>) -> Option<Sighting> {
    let (looks, inserts) = (look.outline.as_ref()?, insert.outline.as_ref()?);
    if (look.clause().is_none() && look.verb != Verb::Update)
        || insert.verb != Verb::Insert
        || !same_table(&looks.table.name, &inserts.table.name)
        || handles_duplicates(insert)
    {
        return None;
    }
    let pins = &looks.finds.equal;
    let given = |(column, value): &(String, Value)| {
        inserts
            .sets
            .iter()
            .any(|(other, its)| other == column && matches!(its, Given::Value(its) if course.same(its, value)))
    };
    if pins.is_empty() || !looks.finds.only_equal || !pins.iter().all(given) {
        return None;
    }
    let name = &inserts.table.name;
    if course.is_gated(at, name, pins) {
        return None;
    }
    if course.engine != Engine::Postgres && course.isolation > Isolation::ReadCommitted {
        // It locks the gap: `gap-lock`.
        return None;
    }
    let table = course.table(inserts);
    let (level, outcome) = match table.map(|table| unique_key(table, pins)) {
        Some(Some(key)) => (Level::Warning, format!("one of them fails, by its {key}")),
        Some(None) => (Level::Error, "there are two rows".to_owned()),
        None => (Level::Warning, "one of them fails, or there are two rows".to_owned()),
    };
    let columns: Vec<&str> = pins.iter().map(|(column, _)| column.as_str()).collect();
    let mut fixes = Vec::new();
    if level == Level::Error {
        fixes.push(Fix {
            text: "Have a unique key on what is looked for.".into(),
            sql: Some(format!("CREATE UNIQUE INDEX {name}_{} ON {name} ({})", columns.join("_"), columns.join(", "))),
        });
    }
    let first = columns.first().copied().unwrap_or("id");
    let tail = match course.engine {
        Engine::Postgres => format!(" ON CONFLICT ({}) DO NOTHING", columns.join(", ")),
        _ => format!(" ON DUPLICATE KEY UPDATE {first} = {first}"),
    };
    fixes.push(Fix {
        text: "Insert without looking first; the number of rows says whether it was there.".into(),
        sql: Some(format!("{}{tail}", insert.text())),
    });
    fixes.push(fix("Or lock a row that is always there before looking: the row that this one belongs to."));
    Some(Sighting {
        level,
        steps: vec![
            course.step(look, format!("looks for the row of {name}; where there is none, it locks nothing")),
            course.step(insert, "makes the row; so does another that has looked at the same time".to_owned()),
        ],
        verdict: Verdict {
            cause: format!(
                "It looks for the row of {name} under a lock and inserts it when it is missing. No lock is on a row that is missing: two \
                 transactions can look at once, and both insert. Then {outcome}."
            ),
            certainty: inferred(format!("both name the row by {}", columns.join(", "))),
            fix: fixes,
        },
    })
}

fn handles_duplicates(insert: &Statement<'_>) -> bool {
    ["on conflict", "on duplicate key", "insert ignore", "replace"].iter().any(|words| insert.shape.contains(words))
}

/// The unique key that the pins have all columns of.
fn unique_key(table: &Table, pins: &[(String, Value)]) -> Option<String> {
    let pinned = |columns: &[String]| {
        !columns.is_empty() && columns.iter().all(|own| pins.iter().any(|(column, _)| column.eq_ignore_ascii_case(own)))
    };
    if pinned(&table.primary_key) {
        return Some("primary key".to_owned());
    }
    table.unique_keys.iter().find(|key| pinned(&key.columns)).map(|key| format!("unique key {}", key.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{levels_of, told};

    fn levels(statements: &str) -> Vec<Level> {
        levels_of(HAZARD.name, Engine::Postgres, statements)
    }

    #[test]
    fn what_is_looked_for_and_made() {
        for (statements, level) in [
            ("select 1 from stock where id = $1 for update; insert into stock (id, n) values ($1, 0)", Level::Warning),
            ("update stock set n = n + 1 where id = 7; insert into stock (id, n) values (7, 1)", Level::Warning),
            (
                "select id from users where email = $1 for update; insert into users (name, email) values ('x', $1)",
                Level::Warning,
            ),
            // No unique key: two rows.
            (
                "select id from orders where user_id = $1 for update; insert into orders (user_id) values ($1)",
                Level::Error,
            ),
        ] {
            assert_eq!(levels(statements), [level], "{statements}");
        }
    }

    #[test]
    fn no_alarm() {
        for statements in [
            "select 1 from stock where id = $1; insert into stock (id, n) values ($1, 0)",
            "select 1 from stock where id = $1 for update; insert into stock (id, n) values ($2, 0)",
            "select 1 from stock where id = $1 for update; insert into orders (id) values ($1)",
            "select 1 from stock where id = 7 for update; insert into stock (id, n) values (8, 0)",
            "select 1 from stock where id = $1 for update; insert into stock (id, n) values ($1, 0) on conflict (id) do nothing",
            "insert into stock (id, n) values ($1, 0); select 1 from stock where id = $1 for update",
            // The row is there: it goes, and another takes its place.
            "select 1 from stock where id = $1 for update; delete from stock where id = $1; insert into stock (id, n) values ($1, 0)",
            // Only one at a time comes to look.
            "select 1 from users where id = $1 for update; select 1 from orders where user_id = $1 for update;
             insert into orders (user_id) values ($1)",
            "select pg_advisory_xact_lock(1); select 1 from stock where id = $1 for update; insert into stock (id, n) values ($1, 0)",
        ] {
            assert_eq!(levels(statements), [], "{statements}");
        }
    }

    #[test]
    fn the_fix_inserts_at_once() {
        let text = "-- rowlock: transaction one\nbegin; select 1 from stock where id = ? for update; insert into stock (id, n) values \
                    (?, 0); commit;\n";
        for (engine, tail) in
            [(Engine::MySql, "ON DUPLICATE KEY UPDATE id = id"), (Engine::Postgres, "ON CONFLICT (id) DO NOTHING")]
        {
            let text = if engine == Engine::Postgres { text.replace('?', "$1") } else { text.to_owned() };
            let text = text.replace("begin;", "set transaction isolation level read committed; begin;");
            let finding = told(HAZARD.name, engine, &text).remove(0);
            assert!(finding.fix[0].sql.as_ref().is_some_and(|sql| sql.ends_with(tail)), "{:?}", finding.fix);
        }
    }
}
