//! `SHOW ENGINE INNODB STATUS` and the error logs of MariaDB and MySQL.

use rowlock_testing::Engine;

use crate::ground::{Deadlock, Fate, Ground, findings, on};

const SCHEMA: [&str; 7] = [
    "create database shop",
    "create table shop.orders (id bigint primary key, status varchar(20))",
    "create table shop.inventories (id bigint primary key, stock int, sku varchar(20), unique key sku (sku))",
    "create table shop.order_lines (id bigint auto_increment primary key, order_id bigint, n int, foreign key (order_id) references shop.orders (id))",
    "insert into shop.orders values (10, 'new'), (11, 'new'), (20, 'new'), (30, 'new')",
    "insert into shop.inventories values (20, 5, 'a'), (30, 5, 'b'), (40, 5, 'c')",
    "set global innodb_print_all_deadlocks = on",
];

const DEADLOCKS: [Deadlock; 6] = [
    Deadlock {
        a: [
            "update shop.orders set status = 'placed' where id = 10",
            "update shop.inventories set stock = 4 where id = 20",
        ],
        b: [
            "update shop.inventories set stock = 3 where id = 20",
            "update shop.orders set status = 'paid' where id = 10",
        ],
        hazard: "order-inversion",
    },
    Deadlock {
        a: [
            "update shop.inventories set stock = 1 where id = 30",
            "update shop.inventories set stock = 1 where id = 40",
        ],
        b: [
            "update shop.inventories set stock = 2 where id = 40",
            "update shop.inventories set stock = 2 where id = 30",
        ],
        hazard: "unsorted-keys",
    },
    Deadlock {
        a: ["select * from shop.orders where id = 100 for update", "insert into shop.orders values (100, 'a')"],
        b: ["select * from shop.orders where id = 101 for update", "insert into shop.orders values (101, 'a')"],
        hazard: "gap-lock",
    },
    Deadlock {
        a: [
            "select * from shop.orders where id = 30 lock in share mode",
            "update shop.orders set status = 'u' where id = 30",
        ],
        b: [
            "select * from shop.orders where id = 30 lock in share mode",
            "update shop.orders set status = 'v' where id = 30",
        ],
        hazard: "lock-upgrade",
    },
    Deadlock {
        a: ["insert into shop.inventories values (200, 1, 'p')", "insert into shop.inventories values (201, 1, 'q')"],
        b: ["insert into shop.inventories values (201, 1, 'r')", "insert into shop.inventories values (200, 1, 's')"],
        hazard: "duplicate-insert",
    },
    Deadlock {
        a: [
            "update shop.inventories set stock = 9 where id = 20",
            "insert into shop.order_lines (order_id, n) values (11, 1)",
        ],
        b: ["update shop.orders set status = 'w' where id = 11", "update shop.inventories set stock = 8 where id = 20"],
        hazard: "hidden-foreign-key-lock",
    },
];

fn check(finding: &serde_json::Value, deadlock: &Deadlock, fate: Fate, victim_told: bool) {
    assert_eq!(finding["hazard"], deadlock.hazard, "{finding:#}");
    let transactions = finding["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), 2, "{finding:#}");
    let of = |thread: i64| {
        let end = format!("(thread {thread})");
        transactions.iter().find(|transaction| transaction["session"].as_str().unwrap().ends_with(&end)).unwrap()
    };
    let (failed, survived) = (of(fate.failed), of(fate.survived));
    let mut statements = [&failed["statement"], &survived["statement"]].map(|sql| sql.as_str().unwrap().to_owned());
    let mut expected = [deadlock.a[1], deadlock.b[1]].map(str::to_owned);
    statements.sort();
    expected.sort();
    assert_eq!(statements, expected, "{finding:#}");
    assert_eq!(failed["blocked_by"], survived["name"]);
    assert_eq!(survived["blocked_by"], failed["name"]);
    match victim_told {
        true => assert_eq!(finding["victim"]["transaction"], failed["name"], "{finding:#}"),
        false => assert!(finding["victim"].is_null(), "{finding:#}"),
    }
}

async fn status_and_error_log(engine: Engine) {
    let ground = Ground::start(engine).await;
    for sql in SCHEMA {
        ground.run(sql).await;
    }
    let mut fates = Vec::new();
    for deadlock in &DEADLOCKS {
        let fate = ground.deadlock(deadlock).await;
        let mut connection = ground.connect().await;
        let answer = connection.run("show engine innodb status").await.unwrap();
        let status = answer.rows[0][2].clone().unwrap();
        let found = findings(&[], status.as_bytes());
        check(&found["findings"][0], deadlock, fate, true);
        fates.push(fate);
    }
    // The key of a record is decoded, and has the name that the statement gives it.
    let log = ground.server.dir.join("log");
    let found = findings(&[log.to_str().unwrap()], b"");
    let list = found["findings"].as_array().unwrap();
    assert_eq!(list.len(), DEADLOCKS.len(), "{found:#}");
    let told = engine == Engine::MariaDb;
    for (deadlock, fate) in DEADLOCKS.iter().zip(&fates) {
        let finding = list.iter().find(|finding| finding["hazard"] == deadlock.hazard);
        // MySQL's headings are notes, and notes are not logged by default: the victim stands in a heading.
        check(finding.unwrap_or_else(|| panic!("no {}: {found:#}", deadlock.hazard)), deadlock, *fate, told);
    }
    assert!(ground.assert_fixes_run(&found).await >= 5);
    let inversion = list.iter().find(|finding| finding["hazard"] == "order-inversion").unwrap();
    let wants: Vec<&str> =
        inversion["transactions"].as_array().unwrap().iter().map(|t| t["wants"]["what"].as_str().unwrap()).collect();
    assert!(wants.contains(&"shop.orders, id = 10") && wants.contains(&"shop.inventories, id = 20"), "{wants:?}");
    if engine == Engine::MySql {
        // With headings.
        ground.run("set global log_error_verbosity = 3").await;
        let before = std::fs::read(&log).unwrap().len();
        let fate = ground.deadlock(&DEADLOCKS[0]).await;
        let bytes = std::fs::read(&log).unwrap();
        let found = findings(&[], &bytes[before..]);
        check(&found["findings"][0], &DEADLOCKS[0], fate, true);
    }
}

mod reports {
    use super::*;

    #[test]
    fn mariadb() {
        on(Engine::MariaDb, status_and_error_log(Engine::MariaDb));
    }

    #[test]
    fn mysql() {
        on(Engine::MySql, status_and_error_log(Engine::MySql));
    }
}
