//! A cycle of three: all of them are told, each waits for the next, and the victim is the one that failed.

use rowlock_testing::{Engine, Family};

use crate::ground::{Ground, findings, on};

async fn all_three_are_told(engine: Engine) {
    let ground = Ground::start(engine).await;
    let table = if engine.family() == Family::Postgres { "ring" } else { "shop.ring" };
    if engine.family() == Family::InnoDb {
        ground.run("create database shop").await;
    }
    ground.run(&format!("create table {table} (id int primary key, n int)")).await;
    ground.run(&format!("insert into {table} values (1, 0), (2, 0), (3, 0)")).await;
    let (ids, failed) = ground.three(table).await;
    let text = match engine.family() {
        Family::InnoDb => {
            let answer = ground.connect().await.run("show engine innodb status").await.unwrap();
            answer.rows[0][2].clone().unwrap().into_bytes()
        }
        _ => loop {
            let log = std::fs::read(ground.server.dir.join("log")).unwrap();
            // The last field of the record: it is written whole.
            if String::from_utf8_lossy(&log).contains("STATEMENT:  update ring")
                && String::from_utf8_lossy(&log).contains("deadlock detected")
            {
                break log;
            }
            tokio::task::yield_now().await;
        },
    };
    let found = findings(&[], &text);
    let finding = &found["findings"][0];
    assert_eq!(finding["hazard"], "unsorted-keys", "{finding:#}");
    let transactions = finding["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), 3, "{finding:#}");
    let of = |id: i64| {
        let ends = [format!("process {id}"), format!("(thread {id})")];
        transactions.iter().find(|t| ends.iter().any(|end| t["session"].as_str().unwrap().ends_with(end))).unwrap()
    };
    for at in 0..3 {
        assert_eq!(of(ids[at])["blocked_by"], of(ids[(at + 1) % 3])["name"], "{finding:#}");
    }
    assert_eq!(finding["victim"]["transaction"], of(failed)["name"], "{finding:#}");
}

mod ring {
    use super::*;

    #[test]
    fn pg15() {
        on(Engine::Pg15, all_three_are_told(Engine::Pg15));
    }

    #[test]
    fn pg18() {
        on(Engine::Pg18, all_three_are_told(Engine::Pg18));
    }

    #[test]
    fn mariadb() {
        on(Engine::MariaDb, all_three_are_told(Engine::MariaDb));
    }

    #[test]
    fn mysql() {
        on(Engine::MySql, all_three_are_told(Engine::MySql));
    }
}
