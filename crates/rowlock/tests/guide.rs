//! The guide hangs together: each page is a doc test, is named on its first page, and links to what is there.

#![allow(clippy::unwrap_used, reason = "the helpers of a test fail as the test does")]

use std::{fs, path::Path};

fn pages() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let mut pages: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    pages.sort();
    pages
}

#[test]
fn every_page_is_tested_and_found_from_the_first() {
    let (library, pages) = (include_str!("../src/lib.rs"), pages());
    let first = &pages.iter().find(|(name, _)| name == "README.md").unwrap().1;
    for (name, text) in pages.iter().filter(|(name, _)| name != "README.md") {
        assert!(library.contains(&format!("\"docs/guide/{name}\"")), "{name} is not among the pages of src/lib.rs");
        assert!(first.contains(&format!("({name})")), "{name} is not in the table of docs/guide/README.md");
        // A block without a language, or of another, is not a test.
        let fences = text.lines().filter(|line| line.starts_with("```")).step_by(2);
        for fence in fences {
            assert!(["```rust", "```rust,no_run"].contains(&fence), "{name}: {fence}");
        }
    }
}

#[test]
fn every_link_of_the_guide_leads_somewhere() {
    let pages = pages();
    for (name, text) in &pages {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (target, heading) = target.split_once('#').map_or((target, None), |(page, id)| (page, Some(id)));
            let page = pages.iter().find(|(page, _)| page == target);
            let here =
                page.is_some_and(|(_, text)| heading.is_none_or(|id| text.lines().any(|line| is_heading(line, id))));
            assert!(here || target.starts_with("http"), "{name} links to {target} {heading:?}");
        }
    }
}

/// Whether a line is the heading that a link's `#id` leads to, by the rule that code hosts have for it.
fn is_heading(line: &str, id: &str) -> bool {
    let Some(title) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim()) else { return false };
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).eq(id.chars())
}
