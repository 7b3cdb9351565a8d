//! Locking clauses, as tokens.
//!
//! sqlparser 0.64 knows `FOR UPDATE` and `FOR SHARE` with one table, and neither `FOR NO KEY UPDATE`, `FOR KEY SHARE`,
//! `LOCK IN SHARE MODE`, `OF a, b` nor MariaDB's `WAIT n`. So each clause is read here, and the parser is given
//! `FOR UPDATE OF "<mark>"` in its place, whose mark says which clause it was.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};

use crate::{
    Dialect, Strength, Wait,
    name::fold_word,
    text::{are_words, is_word},
};

/// What a clause asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) strength: Strength,
    pub(crate) wait: Wait,
    /// The names after `OF`, folded, without their schemas. Empty: all tables.
    pub(crate) of: Vec<String>,
}

/// Takes the locking clauses out of a statement's tokens and leaves marks.
pub(crate) fn take_clauses(tokens: Vec<TokenWithSpan>, dialect: Dialect) -> (Vec<TokenWithSpan>, Vec<Clause>) {
    // Most statements have none, and then nothing is copied.
    if !(0..tokens.len()).any(|at| opening(&tokens, at).is_some()) {
        return (tokens, Vec::new());
    }
    let mut out = Vec::with_capacity(tokens.len());
    let mut clauses = Vec::new();
    // For each open parenthesis: whether it is one in which FOR is an argument (`substring(x from 1 for share)`).
    let mut arguments: Vec<bool> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].token {
            Token::LParen => {
                let before = at.checked_sub(1).and_then(|i| tokens.get(i));
                arguments.push(is_word(before, "substring") || is_word(before, "overlay"));
            }
            Token::RParen => {
                arguments.pop();
            }
            _ => {}
        }
        match opening(&tokens, at) {
            Some((strength, length)) if arguments.last() != Some(&true) => {
                let (clause, next) = rest(&tokens, at + length, strength, dialect);
                out.extend(mark(clauses.len(), &tokens[at]));
                clauses.push(clause);
                at = next;
            }
            _ => {
                out.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    (out, clauses)
}

/// The clause that a mark stands for.
pub(crate) fn marked<'c>(clauses: &'c [Clause], mark: &str) -> Option<&'c Clause> {
    clauses.get(mark.parse::<usize>().ok()?)
}

/// The strength and the number of words, if a locking clause opens at `at`.
fn opening(tokens: &[TokenWithSpan], at: usize) -> Option<(Strength, usize)> {
    const OPENINGS: [(&[&str], Strength); 5] = [
        (&["for", "update"], Strength::Update),
        (&["for", "no", "key", "update"], Strength::NoKeyUpdate),
        (&["for", "share"], Strength::Share),
        (&["for", "key", "share"], Strength::KeyShare),
        (&["lock", "in", "share", "mode"], Strength::Share),
    ];
    OPENINGS.iter().find(|(words, _)| are_words(tokens, at, words)).map(|(words, strength)| (*strength, words.len()))
}

/// What follows the strength, and where it ends.
fn rest(tokens: &[TokenWithSpan], mut at: usize, strength: Strength, dialect: Dialect) -> (Clause, usize) {
    let mut clause = Clause { strength, wait: Wait::Wait, of: Vec::new() };
    if is_word(tokens.get(at), "of") {
        loop {
            at += 1;
            // Only the last part of `schema.table` names the table.
            while let Some(Token::Word(word)) = tokens.get(at).map(|t| &t.token) {
                at += 1;
                if tokens.get(at).map(|t| &t.token) != Some(&Token::Period) {
                    clause.of.push(fold_word(&word.value, word.quote_style, dialect));
                    break;
                }
                at += 1;
            }
            if tokens.get(at).map(|t| &t.token) != Some(&Token::Comma) {
                break;
            }
        }
    }
    if is_word(tokens.get(at), "nowait") {
        clause.wait = Wait::NoWait;
        at += 1;
    } else if are_words(tokens, at, &["skip", "locked"]) {
        clause.wait = Wait::SkipLocked;
        at += 2;
    } else if is_word(tokens.get(at), "wait")
        && let Some(Token::Number(seconds, _)) = tokens.get(at + 1).map(|t| &t.token)
    {
        // MariaDB: a limited wait is a wait; none is none.
        if seconds.bytes().all(|b| b == b'0') {
            clause.wait = Wait::NoWait;
        }
        at += 2;
    }
    (clause, at)
}

fn mark(number: usize, place: &TokenWithSpan) -> [TokenWithSpan; 4] {
    let word = |value: &str, quote_style, keyword| TokenWithSpan {
        token: Token::Word(Word { value: value.to_owned(), quote_style, keyword }),
        span: place.span,
    };
    [
        word("FOR", None, Keyword::FOR),
        word("UPDATE", None, Keyword::UPDATE),
        word("OF", None, Keyword::OF),
        word(&number.to_string(), Some('"'), Keyword::NoKeyword),
    ]
}
