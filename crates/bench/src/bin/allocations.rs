//! What a transaction allocates, early and late in a process's life: after a thousand transactions and after a hundred
//! thousand. A program of its own, since counting slows every allocation down.
//!
//! SQLite in memory, one connection, one thread: no server, and nothing else that allocates meanwhile.

#![allow(clippy::print_stdout, reason = "its lines are what it is for: the bench reads them")]

use std::alloc::System;

use anyhow::Result;
use rowlock::Db;
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

rowlock::lock_order! {
    order Ground {
        Item => "items" (id: i64),
    }
}

/// How many transactions one reading is the mean of.
const SAMPLE: u64 = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::raw_sql(
        "create table items (id integer primary key, n integer not null); insert into items values (1, 0), (2, 0)",
    )
    .execute(&pool)
    .await?;
    let db = Db::<Sqlite>::builder(Ground).open(pool).await?;
    let mut done = 0;
    let start = Region::new(ALLOCATOR);
    for at in [1_000, 100_000] {
        while done < at {
            change(&db).await?;
            done += 1;
        }
        let live = start.change();
        let sample = Region::new(ALLOCATOR);
        for _ in 0..SAMPLE {
            change(&db).await?;
            done += 1;
        }
        let change = sample.change();
        println!(
            "{at} {:.2} {:.1} {}",
            change.allocations as f64 / SAMPLE as f64,
            change.bytes_allocated as f64 / SAMPLE as f64,
            live.bytes_allocated as i64 - live.bytes_deallocated as i64
        );
    }
    Ok(())
}

async fn change(db: &Db<Sqlite>) -> rowlock::Result<()> {
    db.transaction(async |tx| {
        let mut tx = tx.lock::<Item>([2, 1]).await?;
        sqlx::query("update items set n = n + 1 where id = ?").bind(1i64).execute(&mut tx).await?;
        rowlock::query("update items set n = n + 1 where id = ?").bind(2i64).execute(&mut tx).await?;
        Ok(())
    })
    .await
}
