//! `lock_order!`, the macro of [rowlock](https://docs.rs/rowlock); see its documentation there.
//!
//! A procedural macro, since all pairs of resources are written out flat: that costs the compiler 0.05 s for 50 resources
//! and about 1 s for 200, and names both resources in an error. A recursive `macro_rules!` stops at 128 (docs/adr/0002).

mod declaration;

use declaration::Declaration;
use proc_macro::TokenStream;
use proc_macro2::{Group, Span, TokenTree};
use quote::{quote, quote_spanned};

/// Declares the lock order of a system: a line's position is its rank. Documented where it is exported, in `rowlock`.
#[proc_macro]
pub fn lock_order(input: TokenStream) -> TokenStream {
    match syn::parse::<Declaration>(input) {
        Ok(declaration) => expand(&declaration).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

fn expand(order: &Declaration) -> proc_macro2::TokenStream {
    let (attributes, visibility, name) = (&order.attributes, &order.visibility, &order.name);
    let name_text = name.to_string();
    let order_doc = format!("The lock order `{name_text}`: {}.", order.names());
    let infos = order.resources.iter().map(|resource| {
        let (name, table) = (resource.name.to_string(), &resource.table);
        let (ident, columns) = (&resource.name, resource.columns.iter().map(|c| &c.name));
        quote! {
            ::rowlock::ResourceInfo {
                name: #name,
                table: #table,
                columns: &[#(#columns),*],
                // By way of the resource: a type that is no key is told once, where it stands.
                types: <#ident as ::rowlock::Resource>::TYPES,
            }
        }
    });
    let resources = order.resources.iter().enumerate().map(|(index, resource)| {
        let (attributes, ident) = (&resource.attributes, &resource.name);
        let doc = format!("Rows of `{}`, at rank {index} of the lock order `{name_text}`.", resource.table.value());
        let rank = u16::try_from(index).unwrap_or(u16::MAX);
        let types: Vec<_> = resource.columns.iter().map(|c| &c.key).collect();
        let key = match &types[..] {
            [one] => quote!(#one),
            many => quote!((#(#many),*)),
        };
        // The compiler shows where a resource is declared: on its own line.
        let visibility = respanned(quote!(#visibility), ident.span());
        let declared = quote_spanned!(ident.span()=> #visibility enum #ident {});
        let later = order.resources[index..].iter().map(|r| &r.name);
        quote! {
            #[doc = #doc]
            #(#attributes)*
            #[allow(dead_code, reason = "what only statements write has a place all the same")]
            #declared
            impl ::rowlock::Resource for #ident {
                type Order = #name;
                type Key = #key;
                const RANK: u16 = #rank;
            }
            #(
                #[diagnostic::do_not_recommend]
                impl ::rowlock::Before<#later> for #ident {}
            )*
        }
    });
    quote! {
        #[doc = #order_doc]
        #(#attributes)*
        #[derive(Clone, Copy, Debug)]
        #visibility struct #name;
        impl ::rowlock::LockOrder for #name {
            const NAME: &'static str = #name_text;
            const RESOURCES: &'static [::rowlock::ResourceInfo] = &[#(#infos),*];
        }
        #(#resources)*
    }
}

/// The same tokens, said to stand at `span`.
fn respanned(tokens: proc_macro2::TokenStream, span: Span) -> proc_macro2::TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Group(group) => {
                let mut group = Group::new(group.delimiter(), respanned(group.stream(), span));
                group.set_span(span);
                TokenTree::Group(group)
            }
            mut token => {
                token.set_span(span);
                token
            }
        })
        .collect()
}
