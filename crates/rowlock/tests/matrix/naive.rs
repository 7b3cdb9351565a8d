//! The naive way: each case's schedule on each server, and that it ends as the table says.

use std::fmt::Write;

use rowlock_testing::{Family, TestDb, Transcript, engines};

use crate::{
    case::{CASES, Ending},
    ground,
};

engines! { servers:
    async fn the_naive_way(test: TestDb) {
        ground::tables(&test).await;
        let deadlock = if test.family() == Family::Postgres { "40P01" } else { "1213" };
        let mut wrong = String::new();
        for case in CASES {
            let transcript = test.schedule(&case.schedule(test.engine())).await;
            let expected = match case.ending(test.engine()) {
                Ending::Deadlock => Ending::Error(deadlock),
                other => other,
            };
            if let Some(found) = differs(&transcript, expected) {
                let _ = writeln!(wrong, "{}: expected {expected:?}, found {found}\n{transcript}", case.name);
            }
        }
        assert!(wrong.is_empty(), "on {}:\n{wrong}", test.engine());
    }
}

/// How it ended, if that is not as expected.
fn differs(transcript: &Transcript, expected: Ending) -> Option<String> {
    let codes: Vec<&str> = transcript.0.iter().filter_map(|step| step.outcome.code()).collect();
    let as_expected = match expected {
        Ending::Deadlock => false,
        Ending::Error(code) => codes == [code],
        Ending::Blocks => codes.is_empty() && transcript.waits().count() > 0,
        Ending::Harmless => codes.is_empty() && transcript.waits().count() == 0,
    };
    (!as_expected).then(|| format!("errors {codes:?} and {} waits", transcript.waits().count()))
}
