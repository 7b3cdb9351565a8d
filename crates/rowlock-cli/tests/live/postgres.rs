//! PostgreSQL's three log formats, with several prefixes.

use std::path::Path;

use rowlock_testing::Engine;

use crate::ground::{Deadlock, Ground, explain, findings, on};

const SCHEMA: &str = "create table orders (id bigint primary key, status text); \
    create table inventories (id bigint primary key, stock int, sku text unique); \
    create table order_lines (id bigserial primary key, order_id bigint references orders, n int); \
    insert into orders select 7310000000000 + n, 'new' from generate_series(1, 50) n; \
    insert into inventories select 7310000000000 + n, 5, 's' || n from generate_series(1, 50) n";

/// Their keys are longer than any process's number, time or count, so that one that is found in what is told is a value.
const DEADLOCKS: [Deadlock; 7] = [
    Deadlock {
        a: [
            "update orders set status = 'placed' where id = 7310000000010",
            "update inventories set stock = 4 where id = 7310000000020",
        ],
        b: [
            "update inventories set stock = stock - 1 where id = 7310000000020",
            "update orders set status = 'paid' where id = 7310000000010",
        ],
        hazard: "order-inversion",
    },
    Deadlock {
        a: [
            "update inventories set stock = 1 where id = 7310000000031",
            "update inventories set stock = 1 where id = 7310000000032",
        ],
        b: [
            "update inventories set stock = 2 where id = 7310000000032",
            "update inventories set stock = 2 where id = 7310000000031",
        ],
        hazard: "unsorted-keys",
    },
    Deadlock {
        a: [
            "insert into inventories values (7310000000100, 1, 'sku-a')",
            "insert into inventories values (7310000000101, 1, 'sku-b')",
        ],
        b: [
            "insert into inventories values (7310000000101, 1, 'sku-c')",
            "insert into inventories values (7310000000100, 1, 'sku-d')",
        ],
        hazard: "duplicate-insert",
    },
    Deadlock {
        a: [
            "insert into order_lines (order_id, n) values (7310000000011, 1)",
            "select * from inventories where id = 7310000000012 for update",
        ],
        b: [
            "select * from inventories where id = 7310000000012 for update",
            "delete from orders where id = 7310000000011",
        ],
        hazard: "hidden-foreign-key-lock",
    },
    Deadlock {
        a: [
            "select * from orders where id = 7310000000021 for share",
            "update orders set status = 'y' where id = 7310000000021",
        ],
        b: [
            "select * from orders where id = 7310000000021 for share",
            "update orders set status = 'z' where id = 7310000000021",
        ],
        hazard: "lock-upgrade",
    },
    Deadlock {
        a: ["select pg_advisory_xact_lock(7)", "update orders set status = 'x' where id = 7310000000020"],
        b: ["update orders set status = 'x' where id = 7310000000020", "select pg_advisory_xact_lock(7)"],
        hazard: "advisory-mixed",
    },
    Deadlock {
        a: ["select * from orders where id = 7310000000022", "lock table orders in access exclusive mode"],
        b: ["select * from orders where id = 7310000000023", "lock table inventories, orders in access exclusive mode"],
        hazard: "ddl-after-rows",
    },
];

/// Of `log_line_prefix`: usual ones, RDS's, one with a session id, one without a process, and one glued to the label.
const PREFIXES: [&str; 6] = ["%m [%p] ", "%m [%p] %q%u@%d ", "%t:%r:%u@%d:[%p]:", "%c: [%l-1] ", "%a ", "%tEEST"];

/// A server with the collector on, which csvlog and jsonlog need.
async fn collecting(engine: Engine) -> Ground {
    let mut ground = Ground::start(engine).await;
    let logs = ground.server.dir.join("logs");
    let settings = [
        "logging_collector = on".to_owned(),
        "log_destination = 'stderr,csvlog,jsonlog'".to_owned(),
        format!("log_directory = '{}'", logs.display()),
        "log_filename = 'pg.log'".to_owned(),
        "log_file_mode = '0644'".to_owned(),
        "log_statement = 'all'".to_owned(),
    ];
    for setting in settings {
        ground.run(&format!("alter system set {setting}")).await;
    }
    ground.servers.crash(engine).unwrap();
    ground.server = ground.servers.restart(engine).await.unwrap();
    ground.run(SCHEMA).await;
    ground
}

async fn set_prefix(ground: &Ground, prefix: &str) {
    ground.run(&format!("alter system set log_line_prefix = '{prefix}'")).await;
    ground.run("select pg_reload_conf()::text").await;
    while ground.run("select current_setting('log_line_prefix')").await.as_deref() != Some(prefix) {
        tokio::task::yield_now().await;
    }
}

/// The collector writes a record whole, and some time after the client has its error.
async fn until_written(log: &Path, deadlocks: usize) -> Vec<u8> {
    loop {
        let bytes = std::fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        // What follows the last of them is written: the other's next statement.
        let behind = text.rfind("deadlock detected").and_then(|at| text.get(at..)).unwrap_or_default();
        if text.matches("deadlock detected").count() >= deadlocks && behind.contains("rollback") {
            return bytes;
        }
        tokio::task::yield_now().await;
    }
}

async fn each_format_tells_each_hazard(engine: Engine) {
    let ground = collecting(engine).await;
    let mut fates = Vec::new();
    for deadlock in &DEADLOCKS {
        fates.push(ground.deadlock(deadlock).await);
    }
    let logs = ground.server.dir.join("logs");
    for (file, format) in [("pg.log", "stderr"), ("pg.csv", "csvlog"), ("pg.json", "jsonlog")] {
        let path = logs.join(file);
        until_written(&path, DEADLOCKS.len()).await;
        let found = findings(&[path.to_str().unwrap()], b"");
        let list = found["findings"].as_array().unwrap();
        assert_eq!(list.len(), DEADLOCKS.len(), "{found:#}");
        for (deadlock, fate) in DEADLOCKS.iter().zip(&fates) {
            let finding = list.iter().find(|finding| finding["hazard"] == deadlock.hazard);
            let finding = finding.unwrap_or_else(|| panic!("no {} in {file}: {found:#}", deadlock.hazard));
            assert_eq!(finding["format"], format);
            let of = |pid: i64| {
                let name = format!("process {pid}");
                let mut all = finding["transactions"].as_array().unwrap().iter();
                all.find(|transaction| transaction["session"] == name.as_str()).unwrap()
            };
            assert_eq!(finding["victim"]["transaction"], of(fate.failed)["name"], "{finding:#}");
            let mut statements = [&of(fate.failed)["statement"], &of(fate.survived)["statement"]]
                .map(|s| s.as_str().unwrap().to_owned());
            let mut expected = [deadlock.a[1], deadlock.b[1]].map(str::to_owned);
            statements.sort();
            expected.sort();
            assert_eq!(statements, expected, "{finding:#}");
            // log_statement has the statements before.
            let mut earlier = [&of(fate.failed)["earlier"][0], &of(fate.survived)["earlier"][0]]
                .map(|s| s.as_str().unwrap().to_owned());
            let mut expected = [deadlock.a[0], deadlock.b[0]].map(str::to_owned);
            earlier.sort();
            expected.sort();
            assert_eq!(earlier, expected, "{finding:#}");
        }
    }
    // The same bytes, compressed and through a pipe, tell the same.
    let path = logs.join("pg.log");
    let bytes = std::fs::read(&path).unwrap();
    let count = |value: &serde_json::Value| value["findings"].as_array().unwrap().len();
    assert_eq!(count(&findings(&[], &bytes)), DEADLOCKS.len());
    let folder = tempfile::tempdir().unwrap();
    for (program, end) in [("gzip", "gz"), ("zstd", "zst")] {
        let output = std::process::Command::new(program).arg("-c").arg(&path).output();
        // zstd's program is not on every machine; its own test stands in tests/command.rs.
        let Ok(output) = output else { continue };
        let packed = folder.path().join(format!("pg.log.{end}"));
        std::fs::write(&packed, [output.stdout.clone(), output.stdout].concat()).unwrap();
        let found = findings(&[packed.to_str().unwrap()], b"");
        assert_eq!(
            (count(&found), found["summary"]["deadlocks"].as_u64()),
            (DEADLOCKS.len(), Some(2 * DEADLOCKS.len() as u64))
        );
    }
    assert!(ground.assert_fixes_run(&findings(&[path.to_str().unwrap()], b"")).await >= 5);
    // Without --show-values, no value of the statements is told.
    let (text, _) = explain(&[path.to_str().unwrap()], b"");
    for value in ["'placed'", "'paid'", "'sku-", "73100000000"] {
        assert!(!text.contains(value), "{value} in {text}");
    }
}

async fn each_prefix_is_read(engine: Engine) {
    let ground = collecting(engine).await;
    for prefix in PREFIXES {
        set_prefix(&ground, prefix).await;
        ground.deadlock(&DEADLOCKS[0]).await;
    }
    let path = ground.server.dir.join("logs/pg.log");
    until_written(&path, PREFIXES.len()).await;
    let found = findings(&[path.to_str().unwrap()], b"");
    assert_eq!(found["summary"]["deadlocks"].as_u64(), Some(PREFIXES.len() as u64), "{found:#}");
    let list = found["findings"].as_array().unwrap();
    assert!(list.iter().all(|finding| finding["hazard"] == "order-inversion"), "{found:#}");
}

mod formats {
    use super::*;

    #[test]
    fn pg15() {
        on(Engine::Pg15, each_format_tells_each_hazard(Engine::Pg15));
    }

    #[test]
    fn pg18() {
        on(Engine::Pg18, each_format_tells_each_hazard(Engine::Pg18));
    }
}

mod prefixes {
    use super::*;

    #[test]
    fn pg15() {
        on(Engine::Pg15, each_prefix_is_read(Engine::Pg15));
    }

    #[test]
    fn pg18() {
        on(Engine::Pg18, each_prefix_is_read(Engine::Pg18));
    }
}
