//! What is locked, found out by trying: a second session asks for the row at each strength without waiting.
//!
//! Servers' own views of row locks have holes (pgrowlocks fails on partitioned tables and does not see later locks on a
//! version that the transaction wrote itself, `data_locks` hides implicit locks); a refused request has none.

use rowlock_footprint::Strength;

use crate::connection::code;
use crate::session::Outcome;
use crate::{Connection, Engine, Family, TestDb};

impl TestDb {
    /// The strength at which somebody holds the row of `table` that `condition` names; `None` when nobody does, or when
    /// the row is not there for other transactions. Each request is made in a transaction of its own.
    ///
    /// The condition should name the primary key: InnoDB locks what it scans. SQLite has one lock for the whole file,
    /// which counts as held at [`Strength::Update`].
    pub async fn held(&self, table: &str, condition: &str) -> Option<Strength> {
        let mut connection = self.connect().await;
        if self.family() == Family::Sqlite {
            return self.file_held(&mut connection).await;
        }
        let mut refused = Vec::new();
        for &(strength, clause) in clauses(self.engine()) {
            let request = format!("select 1 from {table} where {condition} {clause}");
            if self.refused(&mut connection, &request).await {
                refused.push(strength);
            }
        }
        let _ = connection.close().await;
        // The weaker a request that is refused, the stronger the lock that refuses it. InnoDB has the outer two only.
        let weakest = refused.first()?;
        Some(match (weakest, self.family()) {
            (Strength::KeyShare, _) | (Strength::Share, Family::InnoDb) => Strength::Update,
            (Strength::Share, _) => Strength::NoKeyUpdate,
            (Strength::Update, Family::Postgres) => Strength::KeyShare,
            (Strength::NoKeyUpdate | Strength::Update, _) => Strength::Share,
        })
    }

    async fn refused(&self, connection: &mut Connection, request: &str) -> bool {
        let refused = async {
            connection.run("begin").await?;
            let answer = connection.run(request).await;
            connection.run("rollback").await?;
            match answer {
                Ok(_) => Ok(false),
                // MariaDB gives the code of a lock wait timeout, at once.
                Err(error) if matches!(code(&error).as_deref(), Some("55P03" | "3572" | "1205")) => Ok(true),
                Err(error) => Err(error),
            }
        };
        match refused.await {
            Ok(refused) => refused,
            Err(error) => panic!("{}: `{request}`: {error}", self.engine()),
        }
    }

    async fn file_held(&self, connection: &mut Connection) -> Option<Strength> {
        let taken = async {
            connection.run("pragma busy_timeout = 0").await?;
            connection.run("begin immediate").await?;
            connection.run("rollback").await
        };
        match taken.await {
            Ok(_) => None,
            Err(error) if code(&error).as_deref() == Some("5") => Some(Strength::Update),
            Err(error) => panic!("{}: {error}", self.engine()),
        }
    }

    /// Whether a statement would wait (on SQLite: would be refused as busy) if another session sent it now. It is tried
    /// in a transaction that is rolled back; finds what `held` cannot: inserted rows, gaps, table locks.
    pub async fn would_wait(&self, sql: &str) -> bool {
        let mut session = self.session("probe").await;
        session.run("begin").await;
        let waits = match session.step(sql).await {
            Outcome::Blocked { .. } => {
                session.cancel().await;
                session.outcome().await;
                true
            }
            outcome => self.engine() == Engine::Sqlite && outcome.code() == Some("5"),
        };
        session.step("rollback").await;
        session.close().await;
        waits
    }
}

/// The requests, weakest first.
fn clauses(engine: Engine) -> &'static [(Strength, &'static str)] {
    match engine {
        Engine::Pg15 | Engine::Pg18 | Engine::PgBouncer => &[
            (Strength::KeyShare, "for key share nowait"),
            (Strength::Share, "for share nowait"),
            (Strength::NoKeyUpdate, "for no key update nowait"),
            (Strength::Update, "for update nowait"),
        ],
        Engine::MySql => &[(Strength::Share, "for share nowait"), (Strength::Update, "for update nowait")],
        Engine::MariaDb => &[(Strength::Share, "lock in share mode nowait"), (Strength::Update, "for update nowait")],
        Engine::Sqlite => &[],
    }
}
