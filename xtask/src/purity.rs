//! The pure crates stay pure: no runtime and no driver among what they are built from.

use anyhow::{Result, bail};

use crate::command::{command, quietly};

/// Crates without I/O (ARCHITECTURE.md); those that the workspace does not have are left out.
const PURE: [&str; 2] = ["rowlock-footprint", "rowlock-lens"];
/// What they must not be built from.
const IMPURE: [&str; 4] = ["tokio", "sqlx", "sqlx-core", "mio"];

/// Reads the tree of normal dependencies of each pure crate.
pub(crate) fn check() -> Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let members = quietly(&mut command(&cargo, &["tree", "--workspace", "--depth", "0", "--prefix", "none"]))?;
    for pure in PURE.into_iter().filter(|pure| names(&members).any(|name| name == *pure)) {
        let arguments = ["tree", "--edges", "normal", "--prefix", "none", "--package", pure];
        let tree = quietly(&mut command(&cargo, &arguments))?;
        if let Some(impure) = names(&tree).find(|name| IMPURE.contains(name)) {
            bail!("{pure} must stay pure, and is built from {impure}: `cargo tree -e normal -p {pure} -i {impure}`");
        }
        println!("{pure} is pure: ok");
    }
    Ok(())
}

/// The packages' names in `cargo tree`'s output.
fn names(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().filter_map(|line| line.split(' ').next())
}
