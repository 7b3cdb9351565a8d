//! `unbounded-wait`: nothing limits how long a transaction waits for a lock.

use super::{Hazard, Sighting, Verdict, fix, inferred};
use crate::course::{Course, Statement};
use crate::finding::Level;
use crate::report::Engine;

pub(super) const HAZARD: Hazard = Hazard {
    name: "unbounded-wait",
    title: "nothing limits how long it waits for a lock",
    about: "A statement that waits for a lock holds its connection, and the locks that its transaction has taken. PostgreSQL waits for \
            ever, InnoDB for 50 seconds (innodb_lock_wait_timeout), which is longer than callers do. When one row is held too \
            long, those that wait use up the pool, and what never wanted the row stands still. Set a limit that is shorter than \
            the callers': lock_timeout, innodb_lock_wait_timeout; where nobody must wait, NOWAIT or SKIP LOCKED. (Told once, and \
            only on request: nearly every service does so, and a limit can be set where no SQL shows it, at the role or the pool.)",
    level: Level::Note,
    on_request: true,
    once: true,
    judge_kind: Some(judge_kind),
    ..Hazard::PLAIN
};

fn judge_kind(course: &Course<'_>) -> Vec<Sighting> {
    let waiting = course.statements.iter().find(|statement| statement.waits() && !is_limited(statement));
    waiting.map(|statement| sighting(course, statement)).into_iter().collect()
}

fn sighting(course: &Course<'_>, statement: &Statement<'_>) -> Sighting {
    let limit = match course.engine {
        Engine::Postgres => "Limit the wait: SET lock_timeout = '2s', or for all, by ALTER ROLE or the pool's options.",
        _ => "Limit the wait: SET innodb_lock_wait_timeout = 2, or for all, in the server's settings.",
    };
    Sighting {
        level: Level::Note,
        steps: vec![course.step(statement, "waits for its rows as long as the server lets it")],
        verdict: Verdict {
            cause: "It waits for locks, and neither a statement nor a setting that was seen says for how long at most."
                .into(),
            certainty: inferred("no limit stands in what was read"),
            fix: vec![fix(limit), fix("Where nobody must wait, NOWAIT or SKIP LOCKED.")],
        },
    }
}

/// A limit that the statement brings itself.
fn is_limited(statement: &Statement<'_>) -> bool {
    let text = statement.text().to_ascii_lowercase();
    ["max_execution_time", "max_statement_time", "lock_wait_timeout", "lock_timeout"]
        .iter()
        .any(|limit| text.contains(limit))
        || statement.shape.contains(" wait ?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{levels_of, told};

    #[test]
    fn told_once_with_all_who_do_so() {
        let one = |name: &str| format!("-- rowlock: transaction {name}\nupdate stock set n = 1 where id = $1;\n");
        let findings = told(HAZARD.name, Engine::Postgres, &(one("a") + &one("b") + &one("c")));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(
            (finding.level, &finding.notes[..]),
            (Level::Note, &["b does so, too".into(), "c does so, too".into()][..])
        );
    }

    #[test]
    fn no_alarm() {
        for (engine, statement) in [
            (Engine::Postgres, "select 1 from stock where id = 1 for update nowait"),
            (Engine::Postgres, "select 1 from stock where id = 1"),
            (Engine::MariaDb, "select 1 from stock where id = 1 for update wait 3"),
            (Engine::MariaDb, "set statement innodb_lock_wait_timeout = 2 for update stock set n = 1 where id = 1"),
        ] {
            assert_eq!(levels_of(HAZARD.name, engine, statement), [], "{statement}");
        }
    }
}
