//! Ground truth for the lock model: what `rowlock_footprint` says of a statement, against what a server has locked after it.
//!
//! Some hundreds of statements ([`statements`]) are run, each in a transaction of its own at READ COMMITTED, and what they
//! hold is found out by trying ([`server`]). Rows that the model names must be locked just so; where it says *some rows of
//! this table*, no others may be locked, and not more strongly. What differs and should not be mended stands in
//! [`differences`], each with its reason; one that no longer occurs is to be struck out.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod compare;
mod differences;
mod server;
mod statements;

use std::{collections::BTreeSet, fmt::Write};

use rowlock_footprint::analyze;
use rowlock_testing::{TestDb, engines};

use server::Server;

engines! { servers:
    async fn the_model_says_what_is_locked(test: TestDb) {
        let mut server = Server::start(&test).await;
        let schema = server.schema().await;
        let (mut wrong, mut met, mut count) = (String::new(), BTreeSet::new(), 0);
        for statement in statements::all(test.engine()) {
            count += 1;
            let footprint = match analyze(&statement.sql, test.engine().dialect(), &schema) {
                Ok(footprint) => footprint,
                Err(unreadable) => {
                    let _ = writeln!(wrong, "{}\n    {unreadable}", statement.sql);
                    continue;
                }
            };
            let truth = match server.run(&statement.sql).await {
                Ok(truth) => truth,
                Err(outcome) => {
                    let _ = writeln!(wrong, "{}\n    {outcome}", statement.sql);
                    server.rollback().await;
                    continue;
                }
            };
            for difference in compare::differences(&footprint, &truth, statement.filters) {
                match differences::known(test.engine(), statement.pattern, &difference) {
                    Some(at) => drop(met.insert(at)),
                    None => drop(writeln!(wrong, "{}\n    {difference}\n    {footprint:?}", statement.sql)),
                }
            }
            server.witness(&truth).await;
            server.rollback().await;
        }
        for at in differences::of(test.engine()).filter(|at| !met.contains(at)) {
            let _ = writeln!(wrong, "no longer differs: {:?}", differences::KNOWN[at]);
        }
        assert!(wrong.is_empty(), "on {} ({count} statements):\n{wrong}", test.engine());
        assert!(count >= 200, "only {count} statements");
        let (name, seen) = (test.engine().name(), server.witnessed);
        assert!(seen > 100 || !matches!(name, "pg15" | "mysql"), "the witness has seen {seen} rows");
        eprintln!("{name}: {count} statements, {} known differences, {seen} rows witnessed", met.len());
    }
}
