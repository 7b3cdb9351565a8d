//! What happens behind a statement's text: triggers, rules, row security, cascades, parents of partitions.

use rowlock_footprint::{Action, ForeignKey, Table, TableName};

use super::{Policy, Report, finding::list};
use crate::{Catalog, ResourceInfo};

/// Looks at the resource of rank `n` among those that have a table.
pub(super) fn look(
    resources: &[(&ResourceInfo, &Table)],
    n: usize,
    catalog: &Catalog,
    policy: Policy,
    report: &mut Report,
) {
    let Some((resource, table)) = resources.get(n).copied() else { return };
    let mut opaque = |what, way_out: &str| report.opaque(policy, resource, &table.name, what, way_out.into());
    if !table.triggers.is_empty() {
        opaque(
            format!("trigger {} may lock rows that no statement names", list(&table.triggers)),
            "lock what the trigger locks beforehand, in order, and allow it by policy",
        );
    }
    if !table.rules.is_empty() {
        opaque(
            format!("rule {} rewrites statements", list(&table.rules)),
            "replace the rule (a trigger, or a statement of your own), or allow it by policy",
        );
    }
    if table.row_security {
        opaque(
            "row security is on for this user: a row that a policy hides is missing without an error, and is not locked"
                .into(),
            "connect as a role with BYPASSRLS, or allow it by policy where a hidden row is as good as none",
        );
    }
    let is_resource = |name: &TableName| resources.iter().any(|(_, other)| other.name == *name);
    let ancestors = catalog.ancestors(&table.name);
    match ancestors.iter().find(|name| is_resource(name)) {
        Some(parent) => report.error(
            resource,
            &table.name,
            format!("it is a part of `{parent}`, which is a resource too: its rows would have two places"),
            format!("declare `{parent}` alone"),
        ),
        None if !ancestors.is_empty() => opaque(
            format!("it is a part of {}, by which its rows can be locked unseen", list(&ancestors)),
            "declare the whole table instead of its part",
        ),
        None => {}
    }
    cascades(resources, n, catalog, policy, report);
}

/// A cascade to a later resource is what the guard expects; to an earlier one it is named; to a table that is no
/// resource it is opaque, and so is what goes on from there.
fn cascades(resources: &[(&ResourceInfo, &Table)], n: usize, catalog: &Catalog, policy: Policy, report: &mut Report) {
    let Some((resource, table)) = resources.get(n).copied() else { return };
    let mut seen = vec![&table.name];
    let mut next = vec![(&table.name, String::new())];
    while let Some((parent, by_way_of)) = next.pop() {
        let mut children: Vec<(&Table, &ForeignKey)> = catalog.schema.children(parent).collect();
        children.sort_by_key(|(child, key)| (&child.name, &key.name));
        for (child, key) in children {
            let Some(event) = event(key) else { continue };
            // A partition repeats the foreign keys of the table that it is a part of.
            if catalog
                .ancestors(&child.name)
                .iter()
                .any(|a| catalog.schema.children(parent).any(|(c, _)| c.name == **a))
            {
                continue;
            }
            let what = format!("{event} locks rows of `{}`{by_way_of} (foreign key `{}`)", child.name, key.name);
            match resources.iter().position(|(_, other)| other.name == child.name) {
                Some(rank) if rank < n => report.warning(
                    resource,
                    &table.name,
                    format!("{what}, and `{}` comes before it in the order", resources[rank].0.name),
                    format!("lock those rows first, or declare `{}` after `{}`", resources[rank].0.name, resource.name),
                ),
                Some(_) => {}
                None => {
                    if seen.contains(&&child.name) {
                        continue;
                    }
                    seen.push(&child.name);
                    next.push((&child.name, format!(" by way of `{}`", child.name)));
                    report.opaque(
                        policy,
                        resource,
                        &table.name,
                        format!("{what}, which is no resource"),
                        format!("declare `{}` after `{}`, or allow it by policy", child.name, resource.name),
                    );
                }
            }
        }
    }
}

/// Which statements on the parent lock the children.
fn event(key: &ForeignKey) -> Option<&'static str> {
    let writes = |action| matches!(action, Action::Cascade | Action::SetNull | Action::SetDefault);
    match (writes(key.on_delete), writes(key.on_update)) {
        (true, true) => Some("a DELETE, or a change of the key,"),
        (true, false) => Some("a DELETE"),
        (false, true) => Some("a change of the key"),
        (false, false) => None,
    }
}
