//! `lock_order!`, the macro of [rowlock](https://docs.rs/rowlock); see its documentation there.
//!
//! A procedural macro, since all pairs of resources are written out flat: that costs the compiler 0.4 s for 200 resources
//! and names both resources in an error. A recursive `macro_rules!` stops at 128 (docs/adr/0002).

mod declaration;

use declaration::Declaration;
use proc_macro::TokenStream;
use quote::quote;

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
        let columns = resource.columns.iter().map(|c| c.name.to_string());
        let types = resource.columns.iter().map(|c| &c.key);
        quote! {
            ::rowlock::ResourceInfo {
                name: #name,
                table: #table,
                columns: &[#(#columns),*],
                types: &[#(<#types as ::rowlock::KeyColumn>::TYPE),*],
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
        let later = order.resources[index..].iter().map(|r| &r.name);
        quote! {
            #[doc = #doc]
            #(#attributes)*
            #visibility enum #ident {}
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
