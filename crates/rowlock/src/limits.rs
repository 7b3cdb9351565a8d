//! Whether the server has room for the pools. A server that is full refuses log-ins and health checks too.

use sqlx::{MySqlPool, PgPool, Row};

use crate::check::{Finding, Severity};

/// What a server lets in, and what is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Connections that this user can have, reserved ones left out.
    pub(crate) limit: u64,
    /// Connections that are open now, the pool's own included.
    pub(crate) open: u64,
}

/// The smallest of the limits that PostgreSQL holds this user to: the server's, the database's and the role's.
pub(crate) async fn of_postgres(pool: &PgPool) -> Result<Room, sqlx::Error> {
    const SQL: &str = "
        select least(
                   current_setting('max_connections')::int8 - current_setting('superuser_reserved_connections')::int8
                       - coalesce(current_setting('reserved_connections', true), '0')::int8,
                   (select nullif(datconnlimit, -1) from pg_database where datname = current_database()),
                   (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user)) as most,
               (select count(*) from pg_stat_activity where backend_type = 'client backend') as open";
    let row = sqlx::raw_sql(SQL).fetch_one(pool).await?;
    let (limit, open): (i64, i64) = (row.try_get("most")?, row.try_get("open")?);
    Ok(Room { limit: limit.try_into().unwrap_or(0), open: open.try_into().unwrap_or(0) })
}

/// MySQL and MariaDB keep one connection more than `max_connections` for an administrator.
pub(crate) async fn of_mysql(pool: &MySqlPool) -> Result<Room, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let most = sqlx::raw_sql(
        "select cast(if(@@max_user_connections > 0, least(@@max_user_connections, @@max_connections), @@max_connections)
                     as unsigned)",
    );
    let limit: u64 = most.fetch_one(&mut *connection).await?.try_get(0)?;
    let status = sqlx::raw_sql("show global status like 'Threads_connected'").fetch_one(&mut *connection).await?;
    let open: String = status.try_get_unchecked(1)?;
    Ok(Room { limit, open: open.parse().unwrap_or(0) })
}

impl Room {
    /// What stands against `processes` pools of at most `most` connections, one of which has `mine` open.
    pub(crate) fn finding(self, most: u32, processes: u32, mine: u32) -> Option<Finding> {
        let Room { limit, open } = self;
        let wanted = u64::from(most) * u64::from(processes);
        let pools = if processes == 1 { "a pool".into() } else { format!("{processes} pools") };
        if wanted > limit {
            return Some(Finding::of_server(
                Severity::Warning,
                format!(
                    "{pools} of {most} connections can ask for {wanted}, and the server lets {limit} in ({open} are open now): \
                     the last are refused, and so is everyone else"
                ),
                format!(
                    "at most {} connections a pool, or a pooler in front, or a higher max_connections",
                    limit / u64::from(processes.max(1))
                ),
            ));
        }
        let others = open.saturating_sub(mine.into());
        let left = limit.saturating_sub(others);
        (u64::from(most) > left).then(|| {
            Finding::of_server(
                Severity::Warning,
                format!(
                    "this pool of {most} connections has room for {left}: the server lets {limit} in, and others have \
                     {others} open now"
                ),
                "smaller pools, or a pooler in front, or a higher max_connections".into(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_the_pools_is_held_against_the_limit() {
        let room = Room { limit: 97, open: 20 };
        assert_eq!(room.finding(10, 9, 1), None);
        let finding = room.finding(10, 10, 1).unwrap();
        assert!(
            finding.what.starts_with("10 pools of 10 connections can ask for 100, and the server lets 97 in (20 are")
        );
        assert!(finding.way_out.starts_with("at most 9 connections a pool"));
    }

    #[test]
    fn what_others_have_open_is_no_room() {
        let room = Room { limit: 97, open: 90 };
        assert_eq!(room.finding(10, 1, 5), None);
        let finding = room.finding(20, 1, 1).unwrap();
        assert!(finding.what.contains("has room for 8"), "{finding}");
    }

    rowlock_testing::engines! { postgres:
        async fn the_smallest_limit_counts(db: rowlock_testing::TestDb) -> Result<(), sqlx::Error> {
            let pool = db.postgres().await;
            let room = of_postgres(&pool).await?;
            assert!(room.open >= 1 && room.limit > 3, "{room:?}");
            let most: u64 = db.value("show max_connections").await.parse().unwrap();
            assert!(room.limit < most, "some are reserved: {room:?} of {most}");
            db.execute(&format!("alter database {} connection limit 7", db.name())).await;
            assert_eq!(of_postgres(&pool).await?.limit, 7);
            Ok(())
        }
    }

    rowlock_testing::engines! { innodb:
        async fn what_is_open_is_counted(db: rowlock_testing::TestDb) -> Result<(), sqlx::Error> {
            let room = of_mysql(&db.mysql().await).await?;
            let most: u64 = db.value("select @@max_connections").await.parse().unwrap();
            assert!(room.open >= 1 && room.limit == most, "{room:?} of {most}");
            Ok(())
        }
    }
}
