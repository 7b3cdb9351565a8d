//! What a check found: where, what, and the way out.

use std::fmt;

use rowlock_footprint::TableName;

use crate::ResourceInfo;

/// What to do about what the lock model cannot look into: triggers, rules, row security, cascades to tables outside of
/// the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// It is an error.
    Refuse,
    /// It is a warning.
    #[default]
    Warn,
    /// It is known, and not spoken of.
    Allow,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The order can hold, but see to it.
    Warning,
    /// The order cannot hold.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One thing that stands against the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The resource, by its type's name; `None` when it concerns the server, the user or the pool.
    pub resource: Option<&'static str>,
    /// Its table.
    pub table: Option<TableName>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub way_out: String,
}

impl Finding {
    /// Something about the server, the user or the pool.
    pub(crate) fn of_server(severity: Severity, what: String, way_out: String) -> Finding {
        Finding { severity, resource: None, table: None, what, way_out }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity)?;
        match (self.resource, &self.table) {
            (Some(resource), Some(table)) => write!(f, "`{resource}` (table `{table}`): ")?,
            (Some(resource), None) => write!(f, "`{resource}`: ")?,
            _ => {}
        }
        write!(f, "{}\n  way out: {}", self.what, self.way_out)
    }
}

/// All that a check found, errors and warnings, in the order of the resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each of them.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Nothing was found.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// How many findings are errors.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error).count()
    }

    pub(super) fn error(&mut self, resource: &ResourceInfo, table: &TableName, what: String, way_out: String) {
        self.add(Severity::Error, resource, table, what, way_out);
    }

    pub(super) fn warning(&mut self, resource: &ResourceInfo, table: &TableName, what: String, way_out: String) {
        self.add(Severity::Warning, resource, table, what, way_out);
    }

    pub(super) fn opaque(
        &mut self,
        policy: Policy,
        resource: &ResourceInfo,
        table: &TableName,
        what: String,
        way_out: String,
    ) {
        match policy {
            Policy::Refuse => self.error(resource, table, what, way_out),
            Policy::Warn => self.warning(resource, table, what, way_out),
            Policy::Allow => {}
        }
    }

    /// Something opaque that concerns all tables.
    pub(super) fn opaque_all(&mut self, policy: Policy, what: &str, way_out: &str) {
        let severity = match policy {
            Policy::Refuse => Severity::Error,
            Policy::Warn => Severity::Warning,
            Policy::Allow => return,
        };
        self.findings.push(Finding::of_server(severity, what.into(), way_out.into()));
    }

    fn add(&mut self, severity: Severity, resource: &ResourceInfo, table: &TableName, what: String, way_out: String) {
        let (resource, table) = (Some(resource.name), Some(table.clone()));
        self.findings.push(Finding { severity, resource, table, what, way_out });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (errors, warnings) = (self.errors(), self.findings.len() - self.errors());
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        write!(
            f,
            "the lock order and the schema: {errors} error{}, {warnings} warning{}",
            plural(errors),
            plural(warnings)
        )?;
        self.findings.iter().try_for_each(|finding| write!(f, "\n{finding}"))
    }
}

impl std::error::Error for Report {}

/// `` `a`, `b` and `c` ``.
pub(super) fn list(names: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) }
}

/// Up to three of `known` that `name` may be a slip of, nearest first.
pub(super) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Vec<&'k str> {
    let limit = (name.chars().count() / 3).max(2);
    let mut near: Vec<(usize, &str)> = known
        .map(|other| (edits(&name.to_lowercase(), &other.to_lowercase()), other))
        .filter(|(n, _)| *n <= limit)
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, other)| other).collect()
}

/// How many letters to add, drop or change (Levenshtein's distance).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_named_and_a_stranger_is_not() {
        let known = ["orders", "order_lines", "inventories", "Order"];
        assert_eq!(nearest("order", known.into_iter()), ["Order", "orders"]);
        assert_eq!(nearest("inventory", known.into_iter()), ["inventories"]);
        assert!(nearest("payments", known.into_iter()).is_empty());
        assert_eq!((edits("", "abc"), edits("kitten", "sitting")), (3, 3));
    }

    #[test]
    fn a_report_counts_and_lists() {
        let mut report = Report::default();
        let order = ResourceInfo { name: "Order", table: "orders", columns: &["id"], types: &[] };
        report.error(&order, &TableName::parse("public.orders"), "it is a view".into(), "declare the table".into());
        assert_eq!(
            report.to_string(),
            "the lock order and the schema: 1 error, 0 warnings\n\
             error: `Order` (table `public.orders`): it is a view\n  way out: declare the table"
        );
    }
}
