//! The text of one or more statements as tokens: bounded, with its parameters numbered, cut at its semicolons.
//!
//! Everything that is found by looking at the text itself is found here, on tokens and never on raw text, so that quotes
//! and comments cannot mislead. Two bounds keep a hostile text from doing harm:
//! its length ([`MAX_TEXT`]), and the number of operators that can nest ([`MAX_CHAIN`]): the parser reads `a AND a AND ..` into
//! a tree that is as deep as the chain is long, and `a JOIN a JOIN ..` with a call inside the other, and neither counts as
//! depth to it. [`Nesting`] tells how deep a statement can go, so that it gets a stack that is large enough.

use std::collections::HashSet;

use sqlparser::{
    dialect::{Dialect as SqlDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace, Word},
};

use crate::{Dialect, Unreadable};

/// Longest text that is read, in bytes.
const MAX_TEXT: usize = 1 << 20;

/// Most operators and keywords that may nest in one another. A list by `IN` or `VALUES` has no such limit.
const MAX_CHAIN: usize = 1_000;

/// The parser of `dialect`.
pub(crate) fn grammar(dialect: Dialect) -> &'static dyn SqlDialect {
    match dialect {
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::MySql | Dialect::MariaDb => &MySqlDialect {},
        Dialect::Sqlite => &SQLiteDialect {},
    }
}

/// A text, cut.
pub(crate) struct Text {
    /// The tokens of each statement, without white space; none is empty.
    pub(crate) statements: Vec<(Vec<TokenWithSpan>, Nesting)>,
    /// See [`Footprint::parameters`](crate::Footprint::parameters).
    pub(crate) parameters: usize,
}

impl Text {
    pub(crate) fn read(sql: &str, dialect: Dialect) -> Result<Text, Unreadable> {
        if sql.len() > MAX_TEXT {
            let reason = format!("it is {} bytes long, more than the {MAX_TEXT} that are read", sql.len());
            return Err(Unreadable { reason });
        }
        let tokens = Tokenizer::new(grammar(dialect), sql)
            .tokenize_with_location()
            .map_err(|e| Unreadable { reason: e.to_string() })?;
        refuse_hidden(&tokens, dialect)?;
        let (tokens, parameters) = Parameters::number(without_space(tokens), dialect);
        let mut statements = Vec::new();
        for tokens in cut(tokens) {
            let nesting = Nesting::of(&tokens)?;
            statements.push((tokens, nesting));
        }
        Ok(Text { statements, parameters })
    }
}

/// `true` for that word, unquoted, in any case.
pub(crate) fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    word_of(token).is_some_and(|w| w.eq_ignore_ascii_case(word))
}

/// `true` when the tokens from `at` on are these words.
pub(crate) fn are_words(tokens: &[TokenWithSpan], at: usize, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(i, word)| is_word(tokens.get(at + i), word))
}

/// The unquoted word, if it is one.
pub(crate) fn word_of(token: Option<&TokenWithSpan>) -> Option<&str> {
    match &token?.token {
        Token::Word(Word { value, quote_style: None, .. }) => Some(value),
        _ => None,
    }
}

/// MariaDB runs what stands in `/*M! .. */`, which is a comment to the parser. (What stands in `/*! .. */` it reads.)
fn refuse_hidden(tokens: &[TokenWithSpan], dialect: Dialect) -> Result<(), Unreadable> {
    let hidden = tokens.iter().find(|token| {
        dialect == Dialect::MariaDb
            && matches!(&token.token, Token::Whitespace(Whitespace::MultiLineComment(text)) if text.starts_with("M!"))
    });
    match hidden {
        Some(token) => Err(Unreadable { reason: format!("SQL in a comment that MariaDB runs{}", token.span.start) }),
        None => Ok(()),
    }
}

/// Drops white space and comments, save for a line break after a string: PostgreSQL joins `'a'`, a line break, `'b'`.
fn without_space(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() / 2 + 1);
    for token in tokens {
        let keep = match &token.token {
            Token::EOF => false,
            Token::Whitespace(Whitespace::Newline) => {
                matches!(kept.last().map(|t| &t.token), Some(Token::SingleQuotedString(_)))
            }
            Token::Whitespace(_) => false,
            _ => true,
        };
        if keep {
            kept.push(token);
        }
    }
    kept
}

/// The numbering of parameters. `$n` and `?n` say theirs; a bare `?` has the next one, and so has SQLite's `:name` at
/// its first appearance.
struct Parameters {
    highest: usize,
    names: HashSet<String>,
}

impl Parameters {
    /// Rewrites each placeholder of `tokens` to `$n` (or leaves a named one as it is) and returns the highest n.
    fn number(tokens: Vec<TokenWithSpan>, dialect: Dialect) -> (Vec<TokenWithSpan>, usize) {
        let mut parameters = Parameters { highest: 0, names: HashSet::new() };
        let mut numbered = Vec::with_capacity(tokens.len());
        let mut tokens = tokens.into_iter().peekable();
        while let Some(mut token) = tokens.next() {
            if dialect == Dialect::Sqlite
                && matches!(token.token, Token::Colon | Token::AtSign)
                && let Some(name) = word_of(tokens.peek()).map(|w| format!("{}{w}", token.token))
            {
                tokens.next();
                token.token = Token::Placeholder(name);
            }
            if let Token::Placeholder(text) = &token.token {
                token.token = Token::Placeholder(parameters.place(text));
            }
            numbered.push(token);
        }
        (numbered, parameters.highest)
    }

    fn place(&mut self, text: &str) -> String {
        let number = match text.get(1..) {
            Some("") if text == "?" => self.highest.saturating_add(1),
            Some(digits) if text.starts_with(['?', '$']) && digits.bytes().all(|b| b.is_ascii_digit()) => {
                // More than a server takes (65,535) is a number all the same: only its order of size matters.
                digits.parse().unwrap_or(usize::MAX)
            }
            _ => {
                if self.names.insert(text.to_owned()) {
                    self.highest = self.highest.saturating_add(1);
                }
                return text.to_owned();
            }
        };
        self.highest = self.highest.max(number);
        format!("${number}")
    }
}

/// Cuts at semicolons. The body of a routine or trigger has semicolons of its own: such a `CREATE` takes all that follows.
fn cut(tokens: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut statements = Vec::new();
    let mut current: Vec<TokenWithSpan> = Vec::new();
    for token in tokens {
        if token.token != Token::SemiColon || has_body(&current) {
            current.push(token);
        } else if !current.is_empty() {
            statements.push(std::mem::take(&mut current));
        }
    }
    if !current.is_empty() {
        statements.push(current);
    }
    statements
}

fn has_body(tokens: &[TokenWithSpan]) -> bool {
    const ROUTINES: [&str; 5] = ["function", "procedure", "trigger", "event", "package"];
    is_word(tokens.first(), "create")
        && tokens.iter().take(8).any(|t| ROUTINES.iter().any(|r| is_word(Some(t), r)))
        && tokens.iter().any(|t| is_word(Some(t), "begin"))
}

/// How deep the tree of a statement can be, and the calls that read it: an upper bound.
#[derive(Clone, Copy)]
pub(crate) struct Nesting(usize);

impl Nesting {
    fn of(tokens: &[TokenWithSpan]) -> Result<Nesting, Unreadable> {
        // Operators since the last comma, for each parenthesis that is open; and their sum.
        let mut open: Vec<usize> = vec![0];
        let mut depth = 0;
        let mut deepest = 0;
        for token in tokens {
            match &token.token {
                Token::LParen | Token::LBracket | Token::LBrace => open.push(0),
                Token::RParen | Token::RBracket | Token::RBrace if open.len() > 1 => {
                    depth -= open.pop().unwrap_or(0);
                    // What stands in parentheses can itself be a link of a chain: `a[1][1]`, `f()()`.
                    add_link(&mut open, &mut depth);
                }
                Token::Comma => depth -= open.last_mut().map(std::mem::take).unwrap_or(0),
                Token::Word(word) if word.keyword == Keyword::NoKeyword => {}
                Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) => {}
                _ => add_link(&mut open, &mut depth),
            }
            if depth > MAX_CHAIN {
                let reason = format!(
                    "more than {MAX_CHAIN} operators in one expression{}; write a list (IN, = ANY, VALUES) instead",
                    token.span.start
                );
                return Err(Unreadable { reason });
            }
            deepest = deepest.max(depth + open.len());
        }
        Ok(Nesting(deepest))
    }

    /// Runs `work` where there is stack enough for a statement of this depth.
    pub(crate) fn with_stack<T>(self, work: impl FnOnce() -> T) -> T {
        // The dearest is a join in a join: 900 of them overflowed 32 MiB of stack in a debug build and ran in 64 MiB; in a
        // release build, 4 and 8 MiB.
        let level = if cfg!(debug_assertions) { 80 << 10 } else { 16 << 10 };
        let needed = (256 << 10) + self.0.saturating_mul(level).min(MAX_STACK);
        stacker::maybe_grow(needed, needed + (256 << 10), work)
    }
}

/// Enough for [`MAX_CHAIN`]; the parser bounds what nests in parentheses.
const MAX_STACK: usize = 96 << 20;

fn add_link(open: &mut [usize], depth: &mut usize) {
    if let Some(count) = open.last_mut() {
        *count += 1;
        *depth += 1;
    }
}
