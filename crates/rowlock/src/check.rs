//! The check at start: a declared order against the live schema. Pure.
//!
//! What would make the order a fiction is an error: a table that is not there, a key that names more than one row, a key
//! whose equality is not that of its bytes (two spellings of one row sort to two places). What can lock or hide rows
//! behind a statement's text is *opaque*: named, and refused, warned of or allowed by [`Policy`].

mod behind;
mod counter;
mod finding;
mod key_type;
mod target;

pub(crate) use counter::{CounterColumn, counter};
pub use finding::{Finding, Policy, Report, Severity};
pub use target::{Checked, Target, TargetColumn};
pub(crate) use target::{full_name, quote};

use rowlock_footprint::{Table, TableName, UniqueKey};

use crate::{Catalog, Dialect, ResourceInfo};
use finding::{list, nearest};

/// Checks `order` against `catalog`: what the order needs to lock each resource, or all that stands against it.
///
/// # Errors
/// A [`Report`] with at least one finding of [`Severity::Error`]; its warnings are in it too.
pub fn check(order: &[ResourceInfo], catalog: &Catalog, opaque: Policy) -> Result<Checked, Report> {
    let mut report = Report::default();
    let tables: Vec<Option<&Table>> = order.iter().map(|r| find_table(r, catalog, &mut report)).collect();
    let resources: Vec<(&ResourceInfo, &Table)> =
        order.iter().zip(&tables).filter_map(|(r, table)| Some((r, (*table)?))).collect();

    let mut targets = Vec::with_capacity(order.len());
    for (n, (resource, table)) in resources.iter().enumerate() {
        if let Some((first, _)) = resources[..n].iter().find(|(_, other)| other.name == table.name) {
            report.error(
                resource,
                &table.name,
                format!("`{}` and `{}` are one table", first.table, resource.table),
                format!("declare it once, as `{}`: a row has one place in the order", first.name),
            );
        }
        targets.extend(target(resource, table, catalog, &mut report));
        behind::look(&resources, n, catalog, opaque, &mut report);
    }
    if catalog.triggers_hidden {
        report.opaque_all(
            opaque,
            "this user may not see triggers, so whether the tables have some is not known",
            "grant trigger on the database to the user that rowlock connects as, or allow it by policy",
        );
    }
    if report.errors() == 0 { Ok(Checked { targets, report }) } else { Err(report) }
}

fn find_table<'c>(resource: &ResourceInfo, catalog: &'c Catalog, report: &mut Report) -> Option<&'c Table> {
    let name = TableName::parse(resource.table);
    let Some(table) = catalog.table(&name) else {
        let elsewhere = |t: &&Table| t.name.name == name.name;
        let way_out = match catalog.schema.tables().find(elsewhere) {
            Some(table) => format!("there is `{}`: declare it with its schema", table.name),
            None => {
                let known: Vec<String> = catalog.schema.tables().map(|table| spelled(&table.name, catalog)).collect();
                match nearest(resource.table, known.iter().map(String::as_str)) {
                    near if near.is_empty() => "run the migrations that make it, or correct the name".into(),
                    near => format!("the nearest names are {}", list(&near)),
                }
            }
        };
        let path = match &name.schema {
            Some(_) => String::new(),
            None => format!(" in {}", list(&catalog.schema.search_path)),
        };
        report.error(resource, &name, format!("there is no table `{name}`{path}"), way_out);
        return None;
    };
    let details = catalog.details(&table.name);
    if let Some(kind) = details.and_then(|d| d.kind) {
        report.error(
            resource,
            &table.name,
            format!("it is a {kind}, and only the rows of a base table can be locked in an order"),
            "declare the table that the rows stand in".into(),
        );
        return None;
    }
    if let Some(engine) = details.and_then(|d| d.engine.as_deref()).filter(|engine| *engine != "InnoDB") {
        report.error(
            resource,
            &table.name,
            format!("its storage engine is {engine}, which has no row locks as InnoDB has them"),
            format!("alter table {} engine = InnoDB", target::full_name(catalog.dialect, &table.name)),
        );
    }
    if details.is_some_and(|d| d.inherited) {
        report.error(
            resource,
            &table.name,
            "it has inheriting children, and its keys are not unique among their rows".into(),
            "partition it instead (a partitioned table's keys are unique), or declare a table without children".into(),
        );
    }
    Some(table)
}

/// As an order would write it: without its schema when the search path finds it so.
fn spelled(name: &TableName, catalog: &Catalog) -> String {
    let bare = TableName { schema: None, name: name.name.clone() };
    match catalog.schema.table(&bare) {
        Some(found) if found.name == *name => bare.to_string(),
        _ => name.to_string(),
    }
}

/// Columns as SQL has them: in quotes where they need some.
fn spelled_columns(dialect: Dialect, columns: &[String]) -> String {
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let spelled = columns.iter().map(|name| if plain(name) { name.clone() } else { quote(dialect, name) });
    spelled.collect::<Vec<_>>().join(", ")
}

fn target(resource: &ResourceInfo, table: &Table, catalog: &Catalog, report: &mut Report) -> Option<Target> {
    let mut columns = Vec::with_capacity(resource.columns.len());
    for (name, key_type) in resource.columns.iter().zip(resource.types) {
        // Column names are told apart by case on PostgreSQL only.
        let same = |c: &&rowlock_footprint::Column| match catalog.dialect {
            Dialect::Postgres => c.name == *name,
            _ => c.name.eq_ignore_ascii_case(name),
        };
        let Some(column) = table.columns.iter().find(same) else {
            let near = nearest(name, table.columns.iter().map(|c| c.name.as_str()));
            let way_out = if near.is_empty() {
                format!("its columns are {}", list(table.columns.iter().map(|c| &c.name)))
            } else {
                format!("the nearest names are {}", list(&near))
            };
            report.error(resource, &table.name, format!("it has no column `{name}`"), way_out);
            continue;
        };
        match key_type::fit(catalog, table, column, *key_type) {
            Ok(()) => columns.push(TargetColumn::new(catalog.dialect, column, *key_type)),
            Err((what, way_out)) => report.error(resource, &table.name, what, way_out),
        }
    }
    if columns.len() < resource.columns.len() {
        return None;
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let key = find_key(resource, table, &names, catalog, report)?;
    let hidden = catalog.details(&table.name).map_or(&[][..], |details| &details.hidden);
    Some(Target::new(catalog.dialect, resource, table, key, columns, hidden))
}

/// The primary key or unique key in exactly these columns, whatever their order in it.
fn find_key<'t>(
    resource: &ResourceInfo,
    table: &'t Table,
    names: &[&str],
    catalog: &Catalog,
    report: &mut Report,
) -> Option<&'t UniqueKey> {
    let same_columns =
        |key: &&UniqueKey| key.columns.len() == names.len() && names.iter().all(|n| key.columns.iter().any(|c| c == n));
    let is_primary = |key: &UniqueKey| key.columns == table.primary_key;
    let whole = table.unique_keys.iter().filter(same_columns).filter(|key| !key.partial);
    let key = whole.clone().find(|key| is_primary(key)).or_else(|| whole.clone().next());
    let (name, quoted) = (target::full_name(catalog.dialect, &table.name), list(names));
    let Some(key) = key else {
        let part = table.unique_keys.iter().find(|key| same_columns(key) && key.partial);
        let what = match part {
            Some(key) => format!("unique key `{}` covers only part of the rows or of the values of {quoted}", key.name),
            None => format!("{quoted} is no primary or unique key: a key must name one row"),
        };
        let has: Vec<String> = table
            .unique_keys
            .iter()
            .filter(|key| !key.partial)
            .map(|key| format!("`{}` ({})", key.name, spelled_columns(catalog.dialect, &key.columns)))
            .collect();
        let has = if has.is_empty() { String::new() } else { format!("; its keys are {}", has.join(", ")) };
        let columns: Vec<String> = names.iter().map(|n| quote(catalog.dialect, n)).collect();
        let way_out =
            format!("alter table {name} add unique ({}), or declare a key that it has{has}", columns.join(", "));
        let way_out = match catalog.dialect {
            Dialect::Sqlite => way_out.replace(
                &format!("alter table {name} add unique "),
                &format!("create unique index .. on {} ", quote(catalog.dialect, &table.name.name)),
            ),
            _ => way_out,
        };
        report.error(resource, &table.name, what, way_out);
        return None;
    };
    let nullable: Vec<&str> =
        names.iter().copied().filter(|n| table.column(n).is_some_and(|column| column.nullable)).collect();
    if !nullable.is_empty() {
        let what = format!("{} may be NULL, and rows of NULL have no place in the order", list(&nullable));
        match catalog.dialect {
            // A primary key of SQLite's oldest kind takes NULLs; no key of Rust is NULL.
            Dialect::Sqlite if is_primary(key) => {
                report.warning(
                    resource,
                    &table.name,
                    what,
                    "declare the column NOT NULL (SQLite's primary keys do not)".into(),
                );
            }
            Dialect::Postgres => {
                let column = quote(catalog.dialect, nullable[0]);
                report.error(
                    resource,
                    &table.name,
                    what,
                    format!("alter table {name} alter column {column} set not null"),
                );
            }
            _ => report.error(resource, &table.name, what, "declare the column NOT NULL".into()),
        }
    }
    // InnoDB locks the entry of the index that finds the row, then the row in its primary key.
    if catalog.dialect.is_innodb() && !is_primary(key) && !table.primary_key.is_empty() {
        report.warning(
            resource,
            &table.name,
            format!(
                "`{}` is not the primary key: a lock by it takes the index entry and then the row, and a statement that \
                 comes by the primary key and changes {quoted} takes them in the other order",
                key.name
            ),
            format!(
                "declare the resource by its primary key ({})",
                spelled_columns(catalog.dialect, &table.primary_key)
            ),
        );
    }
    Some(key)
}
