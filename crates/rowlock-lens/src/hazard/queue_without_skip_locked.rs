//! `queue-without-skip-locked`: workers that take jobs from one table.

use super::{Hazard, Verdict, fix, inferred};
use crate::finding::Fix;
use crate::statement::{Case, is_locking};

pub(super) const HAZARD: Hazard = Hazard {
    name: "queue-without-skip-locked",
    title: "workers wait for each other's jobs",
    about: "Workers that take jobs by SELECT .. LIMIT n FOR UPDATE all come for the same first rows: they queue behind each other, \
            and where their scans differ in order, they deadlock. SKIP LOCKED gives each worker what nobody has. (PostgreSQL 9.5, \
            MySQL 8.0, MariaDB 10.6 and later.)",
    judge,
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let statement = (0..case.count()).filter_map(|party| case.current(party)).find(|statement| {
        let shape = crate::sql::shape(&statement.text, case.report.engine);
        is_locking(&shape) && shape.contains(" limit ") && !shape.contains("skip locked") && !shape.contains("nowait")
    })?;
    let table = statement.table()?;
    let lower = statement.text.to_ascii_lowercase();
    let end = ["for update", "for no key update", "for share"]
        .iter()
        .filter_map(|clause| Some(lower.rfind(clause)? + clause.len()))
        .max();
    let sql =
        end.and_then(|end| Some(format!("{} SKIP LOCKED{}", statement.text.get(..end)?, statement.text.get(end..)?)));
    Some(Verdict {
        cause: format!(
            "Workers take rows of {table} from one list, each locking the first that it comes to, and wait where another was first."
        ),
        certainty: inferred("a locking SELECT with LIMIT and without SKIP LOCKED"),
        fix: vec![
            Fix { text: "Skip what others have.".into(), sql },
            fix("Mark the job as taken, commit, and do the work outside the transaction."),
        ],
    })
}
