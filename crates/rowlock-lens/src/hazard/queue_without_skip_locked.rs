//! `queue-without-skip-locked`: workers that take jobs from one table.

use rowlock_footprint::{Literal, Outline, Rows, Value, Wait};

use super::{Hazard, Sighting, Verdict, fix, inferred};
use crate::course::{Course, Statement};
use crate::finding::{Fix, Level};
use crate::statement::{Case, is_locking};

pub(super) const HAZARD: Hazard = Hazard {
    name: "queue-without-skip-locked",
    title: "workers wait for each other's jobs",
    about: "Workers that take jobs by SELECT .. LIMIT n FOR UPDATE all come for the same first rows: they queue behind each other, \
            and where their scans differ in order, they deadlock. SKIP LOCKED gives each worker what nobody has. (PostgreSQL 9.5, \
            MySQL 8.0, MariaDB 10.6 and later.)",
    judge: Some(judge),
    judge_kind: Some(judge_kind),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let statement = (0..case.count()).filter_map(|party| case.current(party)).find(|statement| {
        let shape = crate::sql::shape(&statement.text, case.report.engine);
        takes_some(&shape)
    })?;
    let cause = format!(
        "Workers take rows of {} from one list, each locking the first that it comes to, and wait where another was first.",
        statement.table()?
    );
    Some(verdict(cause, &statement.text))
}

/// Whether a shape locks some of several rows, and waits for those that another has.
fn takes_some(shape: &str) -> bool {
    is_locking(shape) && shape.contains(" limit ") && !shape.contains("skip locked") && !shape.contains("nowait")
}

fn judge_kind(course: &Course<'_>) -> Vec<Sighting> {
    course.statements.iter().filter_map(|statement| sighting(course, statement)).collect()
}

fn sighting(course: &Course<'_>, statement: &Statement<'_>) -> Option<Sighting> {
    let (lock, outline) = (statement.clause()?, statement.outline.as_ref()?);
    let one_row = matches!(lock.rows, Rows::Keys { .. }) && course.table(outline).is_some();
    if lock.wait != Wait::Wait
        || one_row
        || !outline.limited
        || outline.sorted_by.is_empty()
        || !is_queue(statement, outline)
    {
        return None;
    }
    let table = &outline.table.name;
    let cause = format!(
        "All that run it come for the same first rows of {table}: the second waits until the first has committed, and then finds \
         the row taken."
    );
    let effect = format!("locks the first rows of {table} that are due, and waits where another has them");
    Some(Sighting {
        level: Level::Warning,
        steps: vec![course.step(statement, effect)],
        verdict: verdict(cause, statement.text()),
    })
}

/// Whether the condition is one and the same for all that run it, as a list of jobs has it, and not about whose rows they are.
fn is_queue(statement: &Statement<'_>, outline: &Outline) -> bool {
    let fixed = |(column, value): &(String, Value)| {
        is_progress(column) || matches!(value, Value::Literal(Literal::Text(_)) | Value::Unknown)
    };
    let Some(ways) = &outline.finds.ways else { return false };
    let told = ways.iter().flatten().any(|column| is_progress(column))
        || [" is null", " is false", "now(", "current_timestamp"].iter().any(|words| statement.shape.contains(words));
    outline.finds.equal.iter().all(fixed) && (told || !outline.finds.equal.is_empty())
}

/// Whether a column's name says how far its row has come.
fn is_progress(column: &str) -> bool {
    const WORDS: [&str; 16] = [
        "status",
        "state",
        "done",
        "processed",
        "taken",
        "claimed",
        "locked",
        "picked",
        "queue",
        "pending",
        "finished",
        "completed",
        "sent",
        "handled",
        "started",
        "run_at",
    ];
    let column = column.to_ascii_lowercase();
    WORDS.iter().any(|word| column.contains(word))
}

fn verdict(cause: String, text: &str) -> Verdict {
    let lower = text.to_ascii_lowercase();
    let end = ["for update", "for no key update", "for share"]
        .iter()
        .filter_map(|clause| Some(lower.rfind(clause)? + clause.len()))
        .max();
    let sql = end.and_then(|end| Some(format!("{} SKIP LOCKED{}", text.get(..end)?, text.get(end..)?)));
    Verdict {
        cause,
        certainty: inferred("a locking SELECT with LIMIT and without SKIP LOCKED"),
        fix: vec![
            Fix { text: "Skip what others have.".into(), sql },
            fix("Mark the job as taken, commit, and do the work outside the transaction."),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::levels_of;
    use crate::report::Engine;

    fn levels(statement: &str) -> Vec<Level> {
        levels_of(HAZARD.name, Engine::Postgres, statement)
    }

    #[test]
    fn the_first_jobs_of_a_list() {
        for statement in [
            "select id from jobs where status = 'new' order by id limit 1 for update",
            "select id from jobs where status = $1 order by id limit 5 for no key update",
            "select * from jobs where owner is null and not done order by id limit 1 for update",
            "select id from jobs where status in ('new', 'again') order by id limit 10 for update",
        ] {
            assert_eq!(levels(statement), [Level::Warning], "{statement}");
        }
    }

    #[test]
    fn no_alarm() {
        for statement in [
            "select id from jobs where status = 'new' order by id limit 1 for update skip locked",
            "select id from jobs where status = 'new' order by id limit 1 for update nowait",
            "select id from jobs where status = 'new' order by id limit 1",
            "select id from jobs where status = 'new' for update",
            // One row, somebody's rows, a batch that goes on from where it was.
            "select id from jobs where id = 7 order by id limit 1 for update",
            "select id from orders where user_id = $1 order by id limit 1 for update",
            "select id from orders where user_id = 5 order by id desc limit 1 for update",
            "select id from jobs where id > $1 order by id limit 100 for update",
        ] {
            assert_eq!(levels(statement), [], "{statement}");
        }
    }
}
