//! Where a load runs: a shop that is there, or one of its own on a fresh database that goes when it is done.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection};

use crate::database::{AnyShop, Database};
use crate::load::Load;
use crate::serve::{Running, new_secret, signer};
use crate::settings::Settings;
use crate::webhook::Signer;

/// Where the load runs.
pub(crate) struct Ground {
    url: String,
    signer: Arc<Signer>,
    own: Option<Own>,
}

/// A shop that the load has started.
struct Own {
    running: Running,
    fresh: Fresh,
}

/// A database that was made for the load.
enum Fresh {
    Directory(PathBuf),
    Server { server: Database, name: String, place: String },
}

impl Ground {
    /// Looks for the shop, or starts one.
    pub(crate) async fn prepare(settings: &Settings, load: &Load) -> Result<Self> {
        if let Some(url) = &load.url {
            let signer = Arc::new(signer(settings)?);
            return Ok(Self { url: url.clone(), signer, own: None });
        }
        let (fresh, mut own) = fresh(settings).await?;
        own.addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        own.webhook_secret = Some(new_secret());
        let running = match Running::start(&own).await {
            Ok(running) => running,
            Err(error) => {
                fresh.remove().await?;
                return Err(error);
            }
        };
        Ok(Self {
            url: format!("http://{}", running.addr()),
            signer: running.signer(),
            own: Some(Own { running, fresh }),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn signer(&self) -> Arc<Signer> {
        self.signer.clone()
    }

    /// The shop that was started, if one was.
    pub(crate) fn shop(&self) -> Option<&Arc<AnyShop>> {
        self.own.as_ref().map(|own| own.running.shop())
    }

    /// For people: which shop, and where its data is.
    pub(crate) fn describe(&self) -> String {
        match &self.own {
            None => format!("load on the shop at {}", self.url),
            Some(own) => format!("load on a shop of its own, data in {}", own.fresh.place()),
        }
    }

    /// Stops what was started. The place of the data, if it is kept.
    pub(crate) async fn leave(self, keep: bool) -> Result<Option<String>> {
        let Some(own) = self.own else { return Ok(None) };
        own.running.stop().await?;
        if keep {
            return Ok(Some(own.fresh.place()));
        }
        own.fresh.remove().await?;
        Ok(None)
    }
}

impl Fresh {
    fn place(&self) -> String {
        match self {
            Self::Directory(directory) => directory.display().to_string(),
            Self::Server { place, .. } => place.clone(),
        }
    }

    async fn remove(self) -> Result<()> {
        match self {
            Self::Directory(directory) => {
                std::fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))
            }
            Self::Server { server, name, .. } => {
                let force = if matches!(server, Database::Postgres(_)) { " with (force)" } else { "" };
                execute(&server, format!("drop database {name}{force}")).await
            }
        }
    }
}

/// Makes a database, and the settings of a shop on it.
async fn fresh(settings: &Settings) -> Result<(Fresh, Settings)> {
    let name = format!("shop_load_{:012x}", rand::random::<u64>() >> 16);
    let mut own = settings.clone();
    match Database::of(settings)? {
        Database::Sqlite(_) if settings.database.is_some() => {
            bail!("--database: a load on SQLite makes its own file; leave this out, or give --url of a running shop")
        }
        Database::Sqlite(_) => {
            let directory = std::env::temp_dir().join(name);
            own.data = directory.clone();
            Ok((Fresh::Directory(directory), own))
        }
        server @ (Database::Postgres(_) | Database::MySql(_)) => {
            execute(&server, format!("create database {name}")).await.context("cannot make a database for the load")?;
            let url = settings.database.as_deref().unwrap_or_default();
            own.database = Some(with_name(url, &name));
            let place = Database::of(&own)?.place();
            Ok((Fresh::Server { server, name, place }, own))
        }
    }
}

/// The URL of another database of the same server.
fn with_name(url: &str, name: &str) -> String {
    let (base, query) = url.split_once('?').map_or((url, String::new()), |(base, query)| (base, format!("?{query}")));
    let host = base.find("://").map_or(0, |at| at + 3);
    let end = base[host..].find('/').map_or(base.len(), |at| host + at);
    format!("{}/{name}{query}", &base[..end])
}

/// The name in the text is the load's own: letters, digits and underscores.
async fn execute(server: &Database, sql: String) -> Result<()> {
    match server {
        Database::Postgres(url) => {
            let mut conn = PgConnection::connect(url).await?;
            conn.execute(AssertSqlSafe(sql)).await?;
            conn.close().await?;
        }
        Database::MySql(url) => {
            let mut conn = MySqlConnection::connect(url).await?;
            conn.execute(AssertSqlSafe(sql)).await?;
            conn.close().await?;
        }
        Database::Sqlite(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::with_name;

    #[test]
    fn the_name_is_replaced_and_all_else_stays() {
        assert_eq!(with_name("postgres://u:p@h:1/db?sslmode=disable", "x"), "postgres://u:p@h:1/x?sslmode=disable");
        assert_eq!(with_name("mysql://root@h:3306", "x"), "mysql://root@h:3306/x");
    }
}
