//! What `check` and `order` look at: inputs, the engine and the schema that they run on, read into workloads.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rowlock_lens::{Engine, Isolation, Source, Workload};

/// Longest file that is read, in bytes: what people write by hand, and dumps without data.
const LONGEST: u64 = 64 << 20;

/// Which inputs, on which schema.
#[derive(Args)]
pub(crate) struct Sources {
    /// Scenario files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    inputs: Vec<String>,
    /// The server that runs them, where a file does not say
    #[arg(long, value_enum, env = "ROWLOCK_ENGINE")]
    engine: Option<EngineName>,
    /// How isolated its transactions run, where a file does not say; else as the server does that nobody has told
    #[arg(long, value_enum, env = "ROWLOCK_ISOLATION")]
    isolation: Option<IsolationName>,
    /// A file with the DDL of the tables, as pg_dump --schema-only or mysqldump --no-data write it
    #[arg(long, value_name = "FILE", env = "ROWLOCK_SCHEMA")]
    schema: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum EngineName {
    Postgres,
    #[value(name = "mysql")]
    MySql,
    #[value(name = "mariadb")]
    MariaDb,
}

#[derive(Clone, Copy, ValueEnum)]
enum IsolationName {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// What was read.
#[derive(Default)]
pub(crate) struct Inputs {
    /// Each with its file, as it was named.
    pub(crate) workloads: Vec<(String, Workload)>,
    /// Those that could not be read, and why.
    pub(crate) failures: Vec<String>,
}

impl Sources {
    /// Reads all of them.
    pub(crate) fn read(&self) -> Result<Inputs> {
        let schema = self.schema.as_deref().map(|file| Ok::<_, anyhow::Error>((file, read(file)?))).transpose()?;
        let schema = schema.as_ref().map(|(file, text)| Source { file, text });
        let engine = self.engine.map(EngineName::engine);
        let isolation = self.isolation.map(IsolationName::isolation);
        let mut inputs = Inputs::default();
        for file in &self.inputs {
            let workload = read(file).and_then(|text| {
                rowlock_lens::scenario(Source { file, text: &text }, engine, schema).context("read a scenario")
            });
            match workload {
                Ok(mut workload) => {
                    workload.isolation = workload.isolation.or(isolation);
                    inputs.workloads.push((file.clone(), workload));
                }
                Err(error) => inputs.failures.push(format!("{error:#}")),
            }
        }
        Ok(inputs)
    }
}

impl EngineName {
    fn engine(self) -> Engine {
        match self {
            EngineName::Postgres => Engine::Postgres,
            EngineName::MySql => Engine::MySql,
            EngineName::MariaDb => Engine::MariaDb,
        }
    }
}

impl IsolationName {
    fn isolation(self) -> Isolation {
        match self {
            IsolationName::ReadCommitted => Isolation::ReadCommitted,
            IsolationName::RepeatableRead => Isolation::RepeatableRead,
            IsolationName::Serializable => Isolation::Serializable,
        }
    }
}

fn read(name: &str) -> Result<String> {
    let mut text = Vec::new();
    let source: Box<dyn Read> = match name {
        "-" => Box::new(io::stdin().lock()),
        file => Box::new(File::open(file).with_context(|| format!("open {file}"))?),
    };
    source.take(LONGEST + 1).read_to_end(&mut text).with_context(|| format!("read {name}"))?;
    if text.len() as u64 > LONGEST {
        bail!(
            "{name} is longer than {LONGEST} bytes: give a dump without data (pg_dump --schema-only, mysqldump --no-data)"
        );
    }
    String::from_utf8(text).with_context(|| format!("read {name}: it is not UTF-8 text"))
}
