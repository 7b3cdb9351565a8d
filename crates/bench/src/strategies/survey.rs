//! The survey: which cells, on which servers, and the document that it writes.

use std::{
    fmt::Write as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use rowlock_testing::{Connection, Engine, Family, Proxy, server::Servers};

use super::{
    cell::{self, Cell},
    chart,
    draw::Spread,
    way::Way,
};
use crate::{
    ground::{self, CONNECTIONS},
    hand::Hand,
    machine, stage,
};

/// What `bench strategies` takes.
#[derive(Args)]
pub(crate) struct Survey {
    /// Only these (pg15, pg18, mariadb, mysql, sqlite)
    #[arg(long = "engine", value_parser = crate::engine)]
    engines: Vec<Engine>,
    /// Only these spreads of the wanted rows
    #[arg(long = "keys")]
    spreads: Vec<Spread>,
    /// Only ways whose names have this in them
    #[arg(long = "way")]
    ways: Vec<String>,
    /// Numbers of callers
    #[arg(long, value_delimiter = ',', default_value = "1,16,256")]
    callers: Vec<usize>,
    /// Milliseconds that the network adds to a round trip
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    delay: Vec<u64>,
    /// Only with commits flushed
    #[arg(long, conflicts_with = "not_durable")]
    durable: bool,
    /// Only with commits not flushed
    #[arg(long)]
    not_durable: bool,
    /// How long each cell is measured, in milliseconds
    #[arg(long, default_value_t = 1000)]
    time: u64,
    /// The folder that gets strategies.md and strategies.svg
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What the cells of one table have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) engine: Engine,
    pub(crate) durable: bool,
    /// Milliseconds that the network adds to a round trip.
    pub(crate) delay: u64,
}

impl Place {
    pub(crate) fn title(self) -> String {
        let commit = if self.durable { "durable" } else { "not durable" };
        match self.delay {
            0 => format!("{}, {commit}", self.engine),
            ms => format!("{}, {commit}, {ms} ms of network", self.engine),
        }
    }
}

impl Survey {
    pub(crate) async fn run(self) -> Result<()> {
        let began = Instant::now();
        let load = machine::load();
        let all = [Engine::Pg15, Engine::Pg18, Engine::MariaDb, Engine::MySql, Engine::Sqlite];
        let (mut cells, mut versions) = (Vec::new(), Vec::new());
        for engine in all.into_iter().filter(|engine| self.engines.is_empty() || self.engines.contains(engine)) {
            for durable in [true, false] {
                if (durable && self.not_durable) || (!durable && self.durable) {
                    continue;
                }
                match self.on(engine, durable, &mut cells).await.with_context(|| format!("survey {engine}")) {
                    Ok(version) if durable || self.not_durable => versions.push(format!("{engine} ({version})")),
                    Ok(_) => {}
                    // Its packages change under us: a run without it is one, and says so.
                    Err(error) if engine == Engine::MySql => {
                        versions.push(format!("MySQL not measured ({error:#})"));
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let document = self.document(&cells, &versions, &load, began)?;
        match &self.out {
            Some(folder) => {
                std::fs::create_dir_all(folder)?;
                std::fs::write(folder.join("strategies.md"), document)?;
                std::fs::write(folder.join("strategies.svg"), chart::draw(&cells, &machine::describe()))?;
            }
            None => eprintln!("\n{document}"),
        }
        Ok(())
    }

    /// All cells of one engine. Its version.
    async fn on(&self, engine: Engine, durable: bool, cells: &mut Vec<(Place, Cell)>) -> Result<String> {
        if engine == Engine::Sqlite {
            let folder = std::env::temp_dir().join(format!("rowlock-survey-{}", std::process::id()));
            std::fs::create_dir_all(&folder)?;
            let url = format!("sqlite://{}?mode=rwc", folder.join("bench.db").display());
            let measured = self.at::<sqlx::Sqlite>(Place { engine, durable, delay: 0 }, &url, cells).await;
            std::fs::remove_dir_all(&folder)?;
            return measured;
        }
        let servers = Servers::private()?;
        let servers = if durable { servers.durable() } else { servers };
        let server = servers.start(engine).await?;
        let mut version = String::new();
        for &delay in &self.delay {
            let proxy = match delay {
                0 => None,
                // Half of it each way.
                ms => Some(Proxy::delayed(&server.url, Duration::from_millis(ms) / 2).await?),
            };
            let url = proxy.as_ref().map_or(server.url.as_str(), |proxy| proxy.url());
            let place = Place { engine, durable, delay };
            ground::lay(engine, &server.url).await?;
            version = match engine.family() {
                Family::Postgres => self.at::<sqlx::Postgres>(place, url, cells).await?,
                _ => self.at::<sqlx::MySql>(place, url, cells).await?,
            };
        }
        servers.stop()?;
        Ok(version)
    }

    async fn at<E: Hand>(&self, place: Place, url: &str, cells: &mut Vec<(Place, Cell)>) -> Result<String> {
        if place.engine == Engine::Sqlite {
            ground::lay(place.engine, url).await?;
        }
        let mut connection = Connection::open(place.engine, url).await?;
        connection.run("alter table items add version bigint not null default 0").await?;
        connection.run("update items set n = 1000000000000").await?;
        connection.close().await?;
        let pragmas = stage::pragmas(place.engine, place.durable);
        let db = ground::open::<E>(url, pragmas).await?;
        let time = Duration::from_millis(self.time);
        for spread in Spread::ALL {
            if !self.spreads.is_empty() && !self.spreads.contains(&spread) {
                continue;
            }
            for &callers in &self.callers {
                for way in Way::ALL {
                    // Claims go to whatever is free.
                    if way == Way::SkipLocked && spread != Spread::Hot {
                        continue;
                    }
                    let name = way.name();
                    if !self.ways.is_empty() && !self.ways.iter().any(|part| name.contains(part.as_str())) {
                        continue;
                    }
                    let what = || format!("{}, {} rows, {callers} callers", way.name(), spread.name());
                    let cell = cell::measure(&db, way, spread, callers, time).await.with_context(what)?;
                    eprintln!("{}: {}: {:.0}/s, p99 {:.1} ms", place.title(), what(), cell.rate, cell.p99);
                    cells.push((place, cell));
                }
            }
        }
        let version = db.version().to_owned();
        db.pool().close().await;
        Ok(version)
    }

    fn document(&self, cells: &[(Place, Cell)], versions: &[String], load: &str, began: Instant) -> Result<String> {
        let mut text = format!("# The strategies, measured\n\nWritten by `cargo xtask bench {}`.\n\n", command());
        writeln!(
            text,
            "- date: {}; {} s in all; load average at the start {load}",
            machine::date(),
            began.elapsed().as_secs()
        )?;
        writeln!(
            text,
            "- machine: {}; callers and server on the same machine, over loopback TCP",
            machine::describe()
        )?;
        writeln!(text, "- servers: {}", versions.join(", "))?;
        writeln!(text, "- {}", crate::SETTINGS)?;
        writeln!(
            text,
            "- each cell: {} ms after a fifth of that as a start; one process, a pool of {CONNECTIONS}; each caller asks \
             again as soon as it is answered",
            self.time
        )?;
        text.push_str(LEGEND);
        let mut places: Vec<Place> = cells.iter().map(|(place, _)| *place).collect();
        places.dedup();
        for place in places {
            writeln!(text, "\n## {}", place.title())?;
            let here = || cells.iter().filter(|(at, _)| *at == place).map(|(_, cell)| cell);
            for spread in Spread::ALL {
                for &callers in &self.callers {
                    let rows: Vec<&Cell> = here().filter(|c| c.spread == spread && c.callers == callers).collect();
                    if !rows.is_empty() {
                        writeln!(text, "\n### {} rows, {callers} callers\n\n{HEAD}", spread.name())?;
                        rows.iter().try_for_each(|cell| writeln!(text, "{}", line(cell)))?;
                    }
                }
            }
        }
        Ok(text)
    }
}

/// The arguments of this run that say what was measured.
fn command() -> String {
    let mut words = std::env::args().skip(1);
    let mut said = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" => drop(words.next()),
            word if word.starts_with("--out=") => {}
            _ => said.push(word),
        }
    }
    said.join(" ")
}

const LEGEND: &str = "
What the columns are:

- *done/s*: calls that took one off (for two rows: off both), a second.
- *p50, p99*: milliseconds that such a call took. Those that were still under way when the time was over count with their age.
- *locked*: the median of the milliseconds for which the row was locked, as the client sees it: from the answer of the lock to
  the answer of COMMIT; for a conditional update the whole round trip, which is more.
- *again*: attempts that a deadlock or a conflict of versions ended, for each call that was done.
- *refused*: calls that were turned away (NOWAIT, nothing free to claim) or given up after ten attempts, of all that ended.
- *pool empty*: the share of the time in which the pool had no connection to give: whoever comes then waits, whatever it wants.

*Hot* is one row that all want; for ways that take two rows, two of twenty. *Zipf* and *uniform* draw from 10,000 rows. *By hand* is
plain sqlx; the rest is rowlock.
";

const HEAD: &str = "| way | done/s | p50 | p99 | locked | again | refused | pool empty |\n\
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

fn line(cell: &Cell) -> String {
    format!(
        "| {} | {} | {} | {} | {} | {:.2} | {:.0} % | {:.0} % |",
        cell.way.name(),
        crate::row::rate(cell.rate),
        time(Some(cell.p50)),
        time(Some(cell.p99)),
        time(cell.held),
        cell.again,
        cell.refused * 100.0,
        cell.empty * 100.0
    )
}

fn time(milliseconds: Option<f64>) -> String {
    match milliseconds {
        Some(ms) if ms.is_finite() && ms >= 10.0 => format!("{ms:.0}"),
        Some(ms) if ms.is_finite() => format!("{ms:.2}"),
        _ => "-".into(),
    }
}
