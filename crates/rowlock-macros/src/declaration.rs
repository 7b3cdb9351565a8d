//! What stands between the braces of `lock_order!`, read and checked.

use std::collections::HashMap;

use syn::{
    Attribute, Ident, LitStr, Result, Token, Type, Visibility, braced,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    spanned::Spanned,
    token,
};

/// At most this many columns in a key: the tuples for which `rowlock::Key` is implemented.
const MAX_COLUMNS: usize = 4;

pub(crate) struct Declaration {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    pub(crate) resources: Vec<Resource>,
}

pub(crate) struct Resource {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) name: Ident,
    pub(crate) table: LitStr,
    pub(crate) columns: Vec<Column>,
}

pub(crate) struct Column {
    /// As the database has it: a name, a keyword of Rust's too, or in quotes what is no name of Rust's.
    pub(crate) name: LitStr,
    pub(crate) key: Type,
}

mod keyword {
    syn::custom_keyword!(order);
}

impl Declaration {
    pub(crate) fn names(&self) -> String {
        self.resources.iter().map(|r| format!("`{}`", r.name)).collect::<Vec<_>>().join(", then ")
    }
}

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !input.peek(keyword::order) {
            return Err(input.error(
                "lock_order!: expected `order NAME { .. }`, as in\n    lock_order! { pub order Shop { Order => \"orders\" (id: i64) } }",
            ));
        }
        input.parse::<keyword::order>()?;
        let name: Ident = input.parse()?;
        let body;
        braced!(body in input);
        let mut resources: Vec<Resource> = Vec::new();
        while !body.is_empty() {
            resources.push(body.parse()?);
            if !body.is_empty() && body.parse::<Option<Token![,]>>()?.is_none() {
                return Err(body.error("lock_order!: expected `,` before the next resource"));
            }
        }
        if resources.is_empty() {
            return Err(syn::Error::new(name.span(), format!("lock_order!: `{name}` declares no resource")));
        }
        refuse_twins(&name, &resources)?;
        Ok(Declaration { attributes, visibility, name, resources })
    }
}

/// A table has one place in the order, and so has a name.
fn refuse_twins(order: &Ident, resources: &[Resource]) -> Result<()> {
    let mut names: HashMap<String, ()> = HashMap::from([(order.to_string(), ())]);
    let mut tables: HashMap<String, &Ident> = HashMap::new();
    for resource in resources {
        let (name, table) = (&resource.name, resource.table.value());
        if name == order {
            return Err(syn::Error::new(
                name.span(),
                format!("lock_order!: `{name}` is the name of the order; a resource needs another"),
            ));
        }
        if names.insert(name.to_string(), ()).is_some() {
            return Err(syn::Error::new(
                name.span(),
                format!("lock_order!: `{name}` is declared twice; a resource has one place in the order"),
            ));
        }
        // Case does not tell tables apart everywhere; two that differ by it alone are one slip more often than two tables.
        if let Some(first) = tables.insert(table.to_ascii_lowercase(), name) {
            return Err(syn::Error::new(
                resource.table.span(),
                format!(
                    "lock_order!: `{first}` and `{name}` both name the table \"{table}\"; a table has one place in the order"
                ),
            ));
        }
    }
    Ok(())
}

impl Parse for Resource {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let name: Ident = input.parse()?;
        input.parse::<Token![=>]>()?;
        let table: LitStr = input.parse()?;
        check_table(&table)?;
        if !input.peek(token::Paren) {
            return Err(input.error(format!(
                "lock_order!: expected the columns of the key of `{name}`, as in `{name} => \"{}\" (id: i64)`",
                table.value()
            )));
        }
        let list;
        parenthesized!(list in input);
        let columns: Vec<Column> = Punctuated::<Column, Token![,]>::parse_terminated(&list)?.into_iter().collect();
        match columns.len() {
            1..=MAX_COLUMNS => {}
            0 => {
                return Err(syn::Error::new(
                    name.span(),
                    format!("lock_order!: `{name}` needs the columns of its key, as in `(id: i64)`"),
                ));
            }
            n => {
                return Err(syn::Error::new(
                    columns[MAX_COLUMNS].name.span(),
                    format!("lock_order!: the key of `{name}` has {n} columns; at most {MAX_COLUMNS} can be a key"),
                ));
            }
        }
        for (n, column) in columns.iter().enumerate() {
            if columns[..n].iter().any(|c| c.name.value() == column.name.value()) {
                return Err(syn::Error::new(
                    column.name.span(),
                    format!("lock_order!: the key of `{name}` names `{}` twice", column.name.value()),
                ));
            }
        }
        Ok(Resource { attributes, name, table, columns })
    }
}

fn check_table(table: &LitStr) -> Result<()> {
    let text = table.value();
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 2 || parts.iter().any(|p| p.trim().is_empty() || p.trim() != *p) {
        return Err(syn::Error::new(
            table.span(),
            format!("lock_order!: \"{text}\" is not a table's name; write \"table\" or \"schema.table\""),
        ));
    }
    Ok(())
}

impl Parse for Column {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = if input.peek(LitStr) {
            input.parse::<LitStr>()?
        } else {
            let name = input.call(Ident::parse_any)?;
            LitStr::new(&name.unraw().to_string(), name.span())
        };
        if name.value().trim().is_empty() {
            return Err(syn::Error::new(name.span(), "lock_order!: a key column needs its name"));
        }
        input.parse::<Token![:]>()?;
        let key: Type = input.parse()?;
        if matches!(key, Type::Tuple(_) | Type::Reference(_)) {
            return Err(syn::Error::new(
                key.span(),
                "lock_order!: a key column has an owned type of one column, such as i64, Uuid or String",
            ));
        }
        Ok(Column { name, key })
    }
}
