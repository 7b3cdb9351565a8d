//! The hazards that one kind of transaction shows by itself, told as deadlocks are.

use crate::course::{Course, MOST_STATEMENTS};
use crate::finding::{Finding, Level, Status, Transaction};
use crate::hazard::{HAZARDS, Hazard, Sighting};
use crate::levels::Levels;
use crate::sql::{Redactor, shape};
use crate::workload::Workload;

/// Most findings that are told.
const MOST_FINDINGS: usize = 200;

/// All that the kinds of a workload show by themselves, at the levels at which it is to be told; and what was taken to be so.
pub(crate) fn alone(workload: &Workload, levels: &Levels, redactor: &mut Redactor) -> (Vec<Finding>, Vec<String>) {
    let hazards: Vec<&Hazard> =
        HAZARDS.iter().filter(|hazard| levels.of(hazard.name, hazard.level) != Level::Off).collect();
    let mut findings: Vec<Finding> = Vec::new();
    let mut assumed = Vec::new();
    let mut left_out = 0;
    for kind in &workload.kinds {
        let course = Course::of(kind, workload);
        if kind.statements.len() > MOST_STATEMENTS {
            assumed.push(format!(
                "{} shows no hazard by itself behind its first {MOST_STATEMENTS} statements, which alone were looked at",
                kind.name
            ));
        }
        for hazard in &hazards {
            let Some(judge) = hazard.judge_kind else { continue };
            for sighting in judge(&course) {
                let level = levels.of(hazard.name, sighting.level);
                let known = findings.iter().position(|finding| hazard.once && finding.hazard == hazard.name);
                if let Some(first) = known.and_then(|at| findings.get_mut(at)) {
                    first.notes.push(format!("{} does so, too", kind.name));
                } else if findings.len() < MOST_FINDINGS {
                    findings.push(finding(hazard, level, sighting, &course, redactor));
                } else {
                    left_out += 1;
                }
            }
        }
    }
    if left_out > 0 {
        assumed.push(format!(
            "{left_out} more findings of single transactions are of no other sort than those that are told"
        ));
    }
    (findings, assumed)
}

fn finding(hazard: &Hazard, level: Level, sighting: Sighting, course: &Course<'_>, redactor: &mut Redactor) -> Finding {
    let engine = course.engine;
    let Sighting { mut steps, verdict, .. } = sighting;
    let parts: Vec<String> =
        steps.iter().filter_map(|step| step.statement.as_ref()).map(|sql| shape(sql, engine)).collect();
    for sql in steps.iter_mut().filter_map(|step| step.statement.as_mut()) {
        *sql = redactor.statement(sql, engine);
    }
    let mut fix = verdict.fix;
    for sql in fix.iter_mut().filter_map(|fix| fix.sql.as_mut()) {
        *sql = redactor.statement(sql, engine);
    }
    let first = steps.first();
    let transaction = Transaction {
        name: "A".to_owned(),
        session: String::new(),
        origin: Some(course.kind.name.clone()),
        place: first.and_then(|step| step.place.clone()),
        statement: first.and_then(|step| step.statement.clone()),
        statement_flaw: None,
        earlier: Vec::new(),
        holds: Vec::new(),
        wants: None,
        blocked_by: None,
    };
    Finding {
        hazard: hazard.name,
        level,
        status: Status::Possible,
        engine,
        format: "scenario",
        time: None,
        transactions: vec![transaction],
        steps,
        cause: verdict.cause,
        certainty: verdict.certainty,
        fix,
        victim: None,
        unknown: Vec::new(),
        notes: Vec::new(),
        shape: format!("{} | {} | {}", engine, hazard.name, parts.join(" || ")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::Engine;
    use crate::scenario::{Source, scenario};

    /// Tables that the tests of the hazards run on.
    const SCHEMA: &str = "create table stock (id bigint primary key, n int not null, note varchar(80), seen_on timestamp);
        create table orders (id bigint primary key, user_id bigint, status varchar(20), paid int);
        create table users (id bigint primary key, email varchar(80) unique, name varchar(80), team_id int references teams (id));
        create table jobs (id bigint primary key, status varchar(20), done boolean, owner int);";

    /// The levels at which one transaction, given as its statements, shows a hazard.
    pub(crate) fn levels_of(hazard: &str, engine: Engine, statements: &str) -> Vec<Level> {
        let text =
            format!("-- rowlock: schema\n{SCHEMA}\n-- rowlock: transaction one\nbegin;\n{statements};\ncommit;\n");
        told(hazard, engine, &text).into_iter().map(|finding| finding.level).collect()
    }

    /// What is told of a scenario, of one hazard.
    pub(crate) fn told(hazard: &str, engine: Engine, text: &str) -> Vec<Finding> {
        let workload = scenario(Source { file: "test.sql", text }, Some(engine), None)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let levels = Levels::only([hazard]).unwrap_or_else(|error| panic!("{error}"));
        alone(&workload, &levels, &mut Redactor::new(true)).0
    }
}
