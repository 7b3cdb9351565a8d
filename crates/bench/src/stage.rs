//! All measurements on one engine, with its commits flushed or not.

use std::time::Duration;

use anyhow::Result;
use rowlock_testing::server::Servers;
use rowlock_testing::{Engine, Family, Proxy};

use crate::ground;
use crate::hand::Hand;
use crate::measure::batch::Part;
use crate::measure::{batch, cost, counter, guard, late, merge, order};
use crate::table::{Section, Table};
use crate::work::{Keys, Pace};

/// What is to be measured, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) engine: Engine,
    pub(crate) durable: bool,
    pub(crate) quick: bool,
    /// Empty: all.
    pub(crate) sections: &'a [Section],
}

/// One way of a round trip through the slow network: together 1 ms.
const EACH_WAY: Duration = Duration::from_micros(500);

impl Plan<'_> {
    fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }

    fn pace(&self, clients: usize, milliseconds: u64, rounds: usize) -> Pace {
        let (milliseconds, rounds) =
            if self.quick { (milliseconds / 2, rounds.min(4)) } else { (milliseconds, rounds) };
        Pace { clients, slice: Duration::from_millis(milliseconds), rounds }
    }

    pub(crate) fn place(&self) -> String {
        format!("{}, {}", self.engine, if self.durable { "durable" } else { "not durable" })
    }
}

/// Starts the engine's server, measures on it, and stops it. The server's version.
pub(crate) async fn run(plan: Plan<'_>, table: &mut Table) -> Result<String> {
    if plan.engine == Engine::Sqlite {
        let folder = std::env::temp_dir().join(format!("rowlock-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let url = format!("sqlite://{}?mode=rwc", folder.join("bench.db").display());
        let measured = on::<sqlx::Sqlite>(plan, &url, table).await;
        std::fs::remove_dir_all(&folder)?;
        return measured;
    }
    let servers = Servers::private()?;
    let servers = if plan.durable { servers.durable() } else { servers };
    let server = servers.start(plan.engine).await?;
    let measured = match plan.engine.family() {
        Family::Postgres => on::<sqlx::Postgres>(plan, &server.url, table).await,
        _ => on::<sqlx::MySql>(plan, &server.url, table).await,
    };
    servers.stop()?;
    measured
}

async fn on<E: Hand>(plan: Plan<'_>, url: &str, table: &mut Table) -> Result<String> {
    ground::lay(plan.engine, url).await?;
    let pragmas = pragmas(plan.engine, plan.durable);
    let db = ground::open::<E>(url, pragmas).await?;
    let pool = db.pool().clone();
    let place = plan.place();
    let server = plan.engine != Engine::Sqlite;
    if plan.wants(Section::Cost) {
        let plain = ground::plain_pool::<E>(url, pragmas).await?;
        let clients: &[usize] = if server { &[1, 16] } else { &[1] };
        for &clients in clients {
            for row in cost::run(&place, &db, [&pool, &plain], plan.pace(clients, 300, 20)).await? {
                table.push(Section::Cost, row);
            }
        }
        plain.close().await;
    }
    // A transaction that changes nothing flushes nothing: once is enough.
    if plan.wants(Section::Batch) && !plan.durable {
        let (one, rounds) = (1, 10);
        let row = batch::run(&place, "loopback", Part::Locking, (&db, &pool), plan.pace(one, 200, rounds)).await?;
        table.push(
            Section::Batch,
            match plan.engine.family() {
                Family::Postgres => row.at_least(2.5),
                Family::InnoDb => row.at_least(10.0),
                Family::Sqlite => row,
            },
        );
        let row = batch::run(&place, "loopback", Part::Whole, (&db, &pool), plan.pace(one, 200, rounds)).await?;
        table.push(Section::Batch, row);
        if server {
            let proxy = Proxy::delayed(url, EACH_WAY).await?;
            let db = ground::open::<E>(proxy.url(), pragmas).await?;
            let pool = db.pool().clone();
            for part in [Part::Locking, Part::Whole] {
                let row = batch::run(&place, "1 ms", part, (&db, &pool), plan.pace(one, 500, 5)).await?;
                table.push(Section::Batch, if part == Part::Locking { row.at_least(30.0) } else { row });
            }
            pool.close().await;
        }
    }
    if plan.wants(Section::Order) && server {
        // Deadlocks stall for a second on PostgreSQL: slices are to be longer than that.
        table.push(Section::Order, order::run(&place, &db, &pool, plan.pace(16, 3000, 3)).await?);
    }
    if plan.wants(Section::Late) && server && !plan.durable {
        for (count, of) in [(3, 20), (8, 20), (8, 5000)] {
            let keys = Keys { count, of };
            table.push(Section::Late, late::run(&place, &db, keys, plan.pace(16, 2000, 3)).await?);
        }
    }
    if plan.wants(Section::Counter) && server {
        table.push(Section::Counter, counter::run(&place, "loopback", (&db, &pool), plan.pace(16, 500, 10)).await?);
        let proxy = Proxy::delayed(url, EACH_WAY).await?;
        let db = ground::open::<E>(proxy.url(), pragmas).await?;
        let pool = db.pool().clone();
        let row = counter::run(&place, "1 ms", (&db, &pool), plan.pace(16, 1000, 10)).await?;
        let row = match (plan.engine.family(), plan.durable) {
            (Family::Postgres, true) => row.at_least(8.0),
            (Family::Postgres, false) => row.at_least(30.0),
            _ => row,
        };
        table.push(Section::Counter, row);
        pool.close().await;
    }
    if plan.wants(Section::Guard) && !plan.durable {
        for row in guard::run(&plan.engine.to_string(), &db).await? {
            table.push(Section::Guard, row);
        }
    }
    let version = db.version().to_owned();
    pool.close().await;
    if plan.wants(Section::Merge) {
        merge::run::<E>(plan, url, pragmas, table).await?;
    }
    Ok(version)
}

/// What each connection to SQLite is set to.
pub(crate) fn pragmas(engine: Engine, durable: bool) -> &'static str {
    match (engine, durable) {
        (Engine::Sqlite, true) => "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
        (Engine::Sqlite, false) => "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF",
        _ => "",
    }
}
