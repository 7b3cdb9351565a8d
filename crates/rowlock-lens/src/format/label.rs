//! The labels of PostgreSQL's records (ERROR, DETAIL, CONTEXT, ..), in its languages and in drivers' spellings.

use std::sync::LazyLock;

use regex::{Match, Regex};

use crate::postgres::{ENGLISH, LANGUAGES};

/// Longest prefix, in bytes.
const LONGEST_PREFIX: usize = 300;

/// What a label begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Message,
    Detail,
    Hint,
    Context,
    Statement,
    /// QUERY, LOCATION, BACKTRACE: of the same report, and of no use here.
    Aside,
    /// Another record's.
    Other,
}

/// All words, and one pattern for them.
pub(super) struct Labels {
    /// One label, with its colon.
    pub(super) any: Regex,
    pub(super) words: Vec<(String, Label)>,
}

pub(super) static LABELS: LazyLock<Option<Labels>> = LazyLock::new(|| {
    let mut words: Vec<(String, Label)> = Vec::new();
    let kinds = [Label::Message, Label::Detail, Label::Hint, Label::Context, Label::Statement];
    for language in std::iter::once(&ENGLISH).chain(&LANGUAGES) {
        words.extend(language.labels.iter().zip(kinds).map(|(word, label)| ((*word).to_owned(), label)));
    }
    // JDBC's and psql's in other cases.
    let more =
        [("Detail", Label::Detail), ("Hint", Label::Hint), ("Where", Label::Context), ("Context", Label::Context)];
    words.extend(more.map(|(word, label)| (word.to_owned(), label)));
    words.extend(
        ["QUERY", "LOCATION", "BACKTRACE", "Position", "Internal Query"].map(|word| (word.to_owned(), Label::Aside)),
    );
    let others = [
        "LOG",
        "WARNING",
        "NOTICE",
        "INFO",
        "DEBUG",
        "FATAL",
        "PANIC",
        "СООБЩЕНИЕ",
        "LOGG",
        "ჟურნალი",
        "ЗАПИСУВАННЯ",
        "日志",
        "로그",
    ];
    words.extend(others.map(|word| (word.to_owned(), Label::Other)));
    // The longest first: an alternation takes the first that fits.
    words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
    let list: Vec<String> = words.iter().map(|(word, _)| regex::escape(word)).collect();
    Some(Labels { any: Regex::new(&format!(r"(?:{}) ?[:：]", list.join("|"))).ok()?, words })
});

/// The first label of a line that stands where a record's could, with what is before it.
pub(super) fn label(line: &str) -> Option<(Label, Match<'_>)> {
    let labels = LABELS.as_ref()?;
    let head =
        line.char_indices().take_while(|(at, _)| *at < LONGEST_PREFIX).last().map_or(0, |(at, c)| at + c.len_utf8());
    let found = labels.any.find(line.get(..head)?)?;
    let word = found.as_str().trim_end_matches([':', '：', ' ']);
    let (_, label) = labels.words.iter().find(|(text, _)| text == word)?;
    Some((*label, found))
}
