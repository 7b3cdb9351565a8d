//! The tables of results, as they are printed and as `docs/benchmarks.md` has them.

use std::fmt;

use crate::row::Row;

/// The sections, in the order in which the document has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Cost,
    Batch,
    Order,
    Late,
    Merge,
    Guard,
    Counter,
    Memory,
}

/// All results so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(Section, Row)>,
}

impl Section {
    pub(crate) const ALL: [Section; 8] = [
        Section::Cost,
        Section::Batch,
        Section::Order,
        Section::Late,
        Section::Merge,
        Section::Guard,
        Section::Counter,
        Section::Memory,
    ];

    fn title(self) -> &'static str {
        match self {
            Section::Cost => "What rowlock costs",
            Section::Batch => "A hundred rows in one call",
            Section::Order => "In order against in any order",
            Section::Late => "Late places",
            Section::Merge => "Merged hot rows",
            Section::Guard => "The guard",
            Section::Counter => "A conditional update",
            Section::Memory => "Memory",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Section::Cost => {
                "One row locked and changed: `BEGIN`, `SELECT .. FOR UPDATE` (`FOR NO KEY UPDATE` on PostgreSQL), `UPDATE`, `COMMIT`. \
                 The other side is the same on plain sqlx, on the same pool, which `Builder::connect` made; and on a pool with sqlx's \
                 settings, which asks each connection that it gives out whether it lives. Connections are set once to READ COMMITTED on \
                 MySQL and MariaDB and to a `lock_timeout` on PostgreSQL. Rows are drawn from 10,000, so that hardly anyone waits for a lock. Transactions a second."
            }
            Section::Batch => {
                "A hundred rows of 10,000 locked and read by one `tx.lock::<Item>(ids)`, against one locking statement a row in one \
                 transaction by hand; 1 client. *1 ms* is a proxy that adds that much to each round trip. The goals are for the locking; \
                 the whole transaction adds the same BEGIN, COMMIT and the pool's pings to both. Transactions a second."
            }
            Section::Order => {
                "Two of twenty hot rows, 16 clients. By hand the rows are locked one by one in random order, and the transaction is run \
                 again after a deadlock, up to ten times (PostgreSQL's `deadlock_timeout` is at its default of 1 s). Transactions a second."
            }
            Section::Late => {
                "Rows locked and changed one by one in random order, 16 clients: what rowlock makes of a loop over an unsorted payload, \
                 against the bound, the same rows locked in one call. Transactions a second."
            }
            Section::Merge => {
                "Subtractions by a merger against a conditional `UPDATE` each by hand, in one process with a pool of 32; each caller asks \
                 again as soon as it is answered. With a ledger, each request writes a row with its idempotency key and its outcome; \
                 by hand that is `BEGIN`, `INSERT .. ON CONFLICT DO NOTHING`, the `UPDATE`, `COMMIT`. Subtractions a second."
            }
            Section::Guard => {
                "What holding a statement to the order adds, when its text was seen before: ten rows are held, and the statement changes \
                 one of them. Nothing is sent."
            }
            Section::Counter => {
                "One subtracted from one hot row by `db.kind(..).update(N.subtract([(id, 1)]))`, with its exact outcome, against `BEGIN`, \
                 `SELECT .. FOR UPDATE`, `UPDATE`, `COMMIT` on plain sqlx. *1 ms* is a proxy that adds that much to each round trip. \
                 Subtractions a second."
            }
            Section::Memory => {
                "A transaction that locks two rows and changes them, after 100,000 transactions of the process against after 1,000."
            }
        }
    }

    fn heads(self) -> [&'static str; 7] {
        match self {
            Section::Memory => ["where", "what", "late", "early", "ratio", "middle half", "goal"],
            Section::Late => ["where", "what", "one by one", "in one call", "ratio", "middle half", "goal"],
            Section::Merge => ["where", "what", "merged", "by hand", "ratio", "middle half", "goal"],
            Section::Guard => ["where", "what", "the guard", "the statement", "ratio", "middle half", "goal"],
            _ => ["where", "what", "rowlock", "by hand", "ratio", "middle half", "goal"],
        }
    }
}

impl Table {
    /// Takes a row in, and prints it, since a run is long.
    pub(crate) fn push(&mut self, section: Section, row: Row) {
        eprintln!("{}: {}", section.title(), row.cells().join(" | "));
        self.rows.push((section, row));
    }

    /// How many goals were met, of how many.
    pub(crate) fn goals(&self) -> (usize, usize) {
        let goals = || self.rows.iter().filter_map(|(_, row)| row.target.as_ref());
        (goals().filter(|goal| goal.met).count(), goals().count())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in Section::ALL {
            let rows: Vec<&Row> = self.rows.iter().filter(|(of, _)| *of == section).map(|(_, row)| row).collect();
            if rows.is_empty() {
                continue;
            }
            writeln!(f, "\n## {}\n\n{}\n", section.title(), section.text())?;
            // Columns that no row of the section fills are left out.
            let cells: Vec<[String; 7]> = rows.iter().map(|row| row.cells()).collect();
            let shown: Vec<usize> = (0..7).filter(|&n| cells.iter().any(|row| row[n] != "-")).collect();
            let line = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
            writeln!(f, "{}", line(shown.iter().map(|&n| section.heads()[n]).collect()))?;
            writeln!(f, "{}", line(shown.iter().map(|_| "---").collect()))?;
            for row in &cells {
                writeln!(f, "{}", line(shown.iter().map(|&n| row[n].as_str()).collect()))?;
            }
        }
        Ok(())
    }
}
