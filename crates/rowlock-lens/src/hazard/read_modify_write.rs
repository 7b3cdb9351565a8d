//! `read-modify-write`: a value is read, worked on by the application, and written back.

use rowlock_footprint::{Given, Isolation, Literal, Returns, Strength, Table, Value};

use super::{Hazard, Sighting, Verdict, fix, inferred};
use crate::course::{Course, Statement, column};
use crate::finding::{Fix, Level};
use crate::report::Engine;
use crate::statement::{Verb, same_table};

pub(super) const HAZARD: Hazard = Hazard {
    name: "read-modify-write",
    title: "a value is read, and then written back by the application",
    about: "A transaction reads a column, works out a new value outside of the database, and writes it. Two that do so at once both \
            read the old value, and the second to write undoes what the first has written: the update is lost, and nobody is \
            told. (PostgreSQL under REPEATABLE READ ends the second with error 40001 instead.) Locking the row before reading it \
            cures that, and makes all wait for the whole transaction. One UPDATE that works out the value itself needs no lock \
            before it: SET stock = stock - 3 WHERE id = .. AND stock >= 3, and a look at the number of rows. Where the new value \
            cannot be said in SQL, write only if the row still has what was read: WHERE id = .. AND version = ..",
    judge_kind: Some(judge_kind),
    ..Hazard::PLAIN
};

fn judge_kind(course: &Course<'_>) -> Vec<Sighting> {
    let pairs = course
        .with_later()
        .filter_map(|(at, read, later)| later.iter().find_map(|write| sighting(course, at, read, write)));
    pairs.collect()
}

/// How the row is kept from others between the two.
enum Locked {
    /// Not at all.
    No,
    /// By the read itself, or by a statement before it.
    Exclusively,
}

fn sighting(course: &Course<'_>, at: usize, read: &Statement<'_>, write: &Statement<'_>) -> Option<Sighting> {
    let (from, to) = (read.outline.as_ref()?, write.outline.as_ref()?);
    let reads = read.is_plain_read() || read.clause().is_some();
    if !reads || write.verb != Verb::Update || !same_table(&from.table.name, &to.table.name) {
        return None;
    }
    // A further condition holds the write to what was read: a version, or the old value.
    let pins = &to.finds.equal;
    let pinned = |(column, value): &(String, Value)| {
        from.finds.equal.iter().any(|(other, its)| other == column && course.same(its, value))
    };
    if pins.is_empty() || !to.finds.only_equal || !pins.iter().all(pinned) {
        return None;
    }
    let table = course.table(to);
    let written: Vec<&str> = to
        .sets
        .iter()
        .filter(|(column, given)| is_told(given) && !is_time(column, given, table))
        .filter(|(column, _)| !pins.iter().any(|(pin, _)| pin == column))
        .filter(|(column, _)| match &from.returns {
            Returns::Columns(columns) => columns.contains(column),
            // It reads all columns and may mean another: only a number that points at nothing is surely worked on.
            Returns::All => is_number(column, table) && !is_reference(column, table),
        })
        .map(|(column, _)| column.as_str())
        .collect();
    let first = *written.first()?;
    let name = &to.table.name;
    let columns = written.join(", ");
    let locked = locked(course, at, read, name, pins)?;
    // What a lock guards can be said in one statement where it is arithmetic.
    let one_number = written.len() == 1 && is_number(first, table);
    let level = match (&locked, course.engine) {
        (Locked::Exclusively, _) if !one_number => return None,
        (Locked::Exclusively, _) => Level::Warning,
        (Locked::No, Engine::Postgres) if course.isolation > Isolation::ReadCommitted => Level::Note,
        (Locked::No, _) if from.returns == Returns::All => Level::Warning,
        (Locked::No, _) => Level::Error,
    };
    let cause = match locked {
        Locked::No if level == Level::Note => format!(
            "It reads {columns} of a row of {name} without a lock, and writes what the application made of it. Under {}, PostgreSQL ends it \
             with error 40001 when another has written the row in between: run all of it again then.",
            course.isolation.to_string().to_uppercase()
        ),
        Locked::No => format!(
            "It reads {columns} of a row of {name} without a lock, and writes what the application made of it. What another \
             transaction has written in between is lost, and nobody is told."
        ),
        Locked::Exclusively => format!(
            "It locks a row of {name}, reads {columns}, and writes what the application made of it: all others that want the row wait \
             for two statements and the way between them, where one would do."
        ),
    };
    let mut fixes = Vec::new();
    if one_number {
        fixes.push(Fix {
            text: "Let one UPDATE work out the value, under a condition; look at the number of rows that it changed."
                .into(),
            sql: conditional(course.engine, name, first, write),
        });
    }
    if let Locked::No = locked {
        fixes.push(Fix {
            text: "Or write only if the row still has what was read, and begin again if no row was changed.".into(),
            sql: Some(format!("{} AND {first} = {}", write.text(), next_parameter(course.engine, write))),
        });
        fixes.push(Fix {
            text: "Or lock the row with the read.".into(),
            sql: Some(format!("{} {}", read.text(), strongest(course.engine))),
        });
    } else {
        fixes.push(fix("Keep the lock where more is decided than this number."));
    }
    Some(Sighting {
        level,
        steps: vec![
            course.step(
                read,
                format!(
                    "reads {columns} of {name}{}",
                    match locked {
                        Locked::No => ", and locks nothing",
                        Locked::Exclusively => ", under a lock",
                    }
                ),
            ),
            course.step(write, format!("writes {columns} as the application gives it")),
        ],
        verdict: Verdict {
            cause,
            certainty: inferred("both name one row, and the value is not worked out in SQL"),
            fix: fixes,
        },
    })
}

/// None: it is locked in a way that is another hazard's, or that keeps all others away.
fn locked(
    course: &Course<'_>,
    at: usize,
    read: &Statement<'_>,
    table: &str,
    pins: &[(String, Value)],
) -> Option<Locked> {
    let exclusive = |strength| matches!(strength, Strength::Update | Strength::NoKeyUpdate);
    if let Some(lock) = read.clause() {
        // Shared and then raised: `lock-upgrade`.
        return exclusive(lock.strength).then_some(Locked::Exclusively);
    }
    let before = course.statements.iter().take(at);
    let mut locks = before.flat_map(|earlier| earlier.locks()).filter(|lock| same_table(&lock.table.name, table));
    if locks.any(|lock| exclusive(lock.strength)) || course.is_gated(at, table, pins) {
        return None;
    }
    Some(Locked::No)
}

/// It comes from the application, and says something.
fn is_told(given: &Given) -> bool {
    matches!(given, Given::Value(value) if *value != Value::Literal(Literal::Null))
}

/// A time that is written over loses nothing.
fn is_time(column: &str, given: &Given, table: Option<&Table>) -> bool {
    let date = matches!(given, Given::Value(Value::Literal(Literal::Text(text))) if looks_like_date(text));
    match self::column(table, column) {
        Some(column) => date || ["date", "time", "year", "interval"].iter().any(|word| column.type_name.contains(word)),
        None => date || column.ends_with("_at") || column.ends_with("_on"),
    }
}

/// `2026-11-30 ..`
fn looks_like_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut digits =
        |count| parts.next().is_some_and(|part| part.len() == count && part.bytes().all(|b| b.is_ascii_digit()));
    digits(4) && digits(2) && parts.next().is_some_and(|day| day.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_number(column: &str, table: Option<&Table>) -> bool {
    let Some(column) = self::column(table, column) else { return false };
    let word = column.type_name.split([' ', '(']).next().unwrap_or_default();
    ["int", "numeric", "decimal", "double", "real", "float", "money"].iter().any(|number| word.contains(number))
}

fn is_reference(column: &str, table: Option<&Table>) -> bool {
    table.is_some_and(|table| {
        table.foreign_keys.iter().any(|key| key.columns.iter().any(|own| own.eq_ignore_ascii_case(column)))
    })
}

/// The write, with the value worked out; by its own condition, which pins the row and says nothing else.
fn conditional(engine: Engine, table: &str, column: &str, write: &Statement<'_>) -> Option<String> {
    let lower = write.text().to_ascii_lowercase();
    let begins = lower.rfind("where")? + "where".len();
    let ends = lower.rfind("returning").unwrap_or(lower.len());
    let condition = write.text().get(begins..ends)?.trim();
    let amount = match engine {
        Engine::Postgres => {
            let used = (1..=99).rev().find(|n| condition.contains(&format!("${n}")));
            format!("${}", used.unwrap_or(0) + 1)
        }
        _ => "?".to_owned(),
    };
    Some(format!("UPDATE {table} SET {column} = {column} - {amount} WHERE {condition} AND {column} >= {amount}"))
}

fn next_parameter(engine: Engine, statement: &Statement<'_>) -> String {
    match engine {
        Engine::Postgres => {
            let used = statement.footprint.as_ref().map_or(0, |footprint| footprint.parameters);
            format!("${}", used.saturating_add(1))
        }
        _ => "?".to_owned(),
    }
}

fn strongest(engine: Engine) -> &'static str {
    if engine == Engine::Postgres { "FOR NO KEY UPDATE" } else { "FOR UPDATE" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{levels_of, told};

    fn levels(statements: &str) -> Vec<Level> {
        levels_of(HAZARD.name, Engine::Postgres, statements)
    }

    #[test]
    fn what_is_read_and_written_back() {
        for statements in [
            "select n from stock where id = $1; update stock set n = $2 where id = $1",
            "select id, n from stock where id = 7; update orders set paid = 1 where id = 3; update stock set n = 4 where id = '7'",
            "select note from stock s where s.id = 7; update stock set note = 'x', seen_on = now() where id = 7",
        ] {
            assert_eq!(levels(statements), [Level::Error], "{statements}");
        }
        for statements in [
            "select * from stock where id = $1; update stock set n = $2 where id = $1",
            "select n from stock where id = $1 for update; update stock set n = $2 where id = $1",
        ] {
            assert_eq!(levels(statements), [Level::Warning], "{statements}");
        }
        let held = "select n from stock where id = $1; update stock set n = $2 where id = $1";
        let text =
            format!("-- rowlock: isolation repeatable read\n-- rowlock: transaction one\nbegin;\n{held};\ncommit;\n");
        assert_eq!(told(HAZARD.name, Engine::Postgres, &text)[0].level, Level::Note);
        let each = "select n from stock where id = ?; update stock set n = ? where id = ?";
        assert_eq!(levels_of(HAZARD.name, Engine::MySql, each), [Level::Error]);
    }

    #[test]
    fn no_alarm() {
        for statements in [
            // Worked out by the server, of another row, another column, or by nobody who has read it.
            "select n from stock where id = $1; update stock set n = n - $2 where id = $1",
            "select n from stock where id = $1; update stock set n = $3 where id = $2",
            "select n from stock where id = 7; update stock set n = 3 where id = 8",
            "select n from stock where id = $1; update stock set note = $2 where id = $1",
            "select 1 from stock where id = $1; update stock set n = $2 where id = $1",
            "update stock set n = $2 where id = $1",
            "update stock set n = $2 where id = $1; select n from stock where id = $1",
            "select n from stock where id = $1; update orders set paid = $2 where id = $1",
            // Held to what was read.
            "select n from stock where id = $1; update stock set n = $2 where id = $1 and n = $3",
            "select n from stock where id = $1; update stock set n = $2 where id = $1 and n >= 5",
            // Nothing of what was read is in it.
            "select seen_on from stock where id = $1; update stock set seen_on = $2 where id = $1",
            "select note from stock where id = $1; update stock set note = null where id = $1",
            "select * from stock where id = $1; update stock set note = $2 where id = $1",
            "select * from users where id = $1; update users set team_id = $2 where id = $1",
            // Locked, and more than a number; or before; or by a row that it hangs on; or shared, which is another hazard.
            "select note from stock where id = $1 for update; update stock set note = $2 where id = $1",
            "select 1 from stock where id = $1 for update; select n from stock where id = $1; update stock set n = $2 where id = $1",
            "select 1 from users where id = $1 for update; select paid from orders where user_id = $1;
             update orders set paid = $2 where user_id = $1",
            "select pg_advisory_xact_lock(7); select n from stock where id = $1; update stock set n = $2 where id = $1",
            "select n from stock where id = $1 for share; update stock set n = $2 where id = $1",
        ] {
            assert_eq!(levels(statements), [], "{statements}");
        }
    }

    #[test]
    fn the_fix_is_one_statement() {
        let text = "-- rowlock: schema\ncreate table stock (id bigint primary key, n int);\n-- rowlock: transaction one\n\
                    begin; select n from stock where id = $1; update stock set n = $2 where id = $1; commit;\n";
        let finding = told(HAZARD.name, Engine::Postgres, text).remove(0);
        let sql: Vec<_> = finding.fix.iter().filter_map(|fix| fix.sql.as_deref()).collect();
        assert_eq!(
            sql,
            [
                "UPDATE stock SET n = n - $2 WHERE id = $1 AND n >= $2",
                "update stock set n = $2 where id = $1 AND n = $3",
                "select n from stock where id = $1 FOR NO KEY UPDATE"
            ]
        );
    }
}
