//! The tables that a query reads: what lies beneath a view.

use std::ops::ControlFlow;

use sqlparser::{ast::visit_relations, parser::Parser};

use crate::{
    Dialect, TableName, name,
    statement::MAX_DEPTH,
    text::{Text, grammar},
};

/// The tables and views that are named in `sql`, a single query; none where it cannot be read. (A CTE's name is among
/// them.)
///
/// ```
/// use rowlock_footprint::{Dialect, TableName, relations};
///
/// let sql = "select `a`.`id` AS `id` from (`shop`.`orders` `a` join `shop`.`lines` `b` on((`a`.`id` = `b`.`order_id`)))";
/// assert_eq!(relations(sql, Dialect::MariaDb), [TableName::parse("shop.orders"), TableName::parse("shop.lines")]);
/// assert!(relations("select from from", Dialect::MariaDb).is_empty());
/// ```
pub fn relations(sql: &str, dialect: Dialect) -> Vec<TableName> {
    let Ok(mut text) = Text::read(sql, dialect) else { return Vec::new() };
    let Some((tokens, nesting)) = text.statements.pop().filter(|_| text.statements.is_empty()) else {
        return Vec::new();
    };
    nesting.with_stack(|| {
        let parser = Parser::new(grammar(dialect)).with_recursion_limit(MAX_DEPTH);
        let Ok(statement) = parser.with_tokens_with_locations(tokens).parse_statement() else { return Vec::new() };
        let mut found: Vec<TableName> = Vec::new();
        let _ = visit_relations(&statement, |relation| {
            let name = name::table_name(relation, dialect);
            if !found.contains(&name) {
                found.push(name);
            }
            ControlFlow::<()>::Continue(())
        });
        found
    })
}
