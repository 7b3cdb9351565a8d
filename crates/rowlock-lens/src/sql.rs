//! The text of a statement, made fit to be shown or compared: literals out, blanks single, long lists short.
//!
//! A lexer of its own, not the parser: statements in reports are cut in the middle, and still must not leak a literal.
//! Where it is not sure it takes more for a literal, never less: `"x"` is a string on MySQL, an unfinished quote runs to
//! the end.

use std::collections::HashMap;

use crate::report::Engine;

/// Longest list of values that is shown whole.
const SHOWN: usize = 4;
/// Longest statement that is shown, in characters.
const LONGEST: usize = 600;

/// Gives each literal that it meets a number of its own, the same for equal ones, so that a reader can tell that two
/// transactions mean the same row without being told which.
#[derive(Debug, Default)]
pub struct Redactor {
    show: bool,
    labels: HashMap<String, usize>,
}

/// A piece of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Word(&'a str),
    /// A name in quotes, a parameter, an operator.
    Sign(&'a str),
    Number(&'a str),
    /// With its quotes.
    Text(&'a str),
    Space(&'a str),
    Comment(&'a str),
}

impl<'a> Piece<'a> {
    fn text(&self) -> &'a str {
        match *self {
            Piece::Word(text)
            | Piece::Sign(text)
            | Piece::Number(text)
            | Piece::Text(text)
            | Piece::Comment(text)
            | Piece::Space(text) => text,
        }
    }
}

impl Redactor {
    /// `show`: literals and comments stay as they are (`--show-values`).
    pub fn new(show: bool) -> Redactor {
        Redactor { show, labels: HashMap::new() }
    }

    /// A value in place of which `<n>` stands, or the value.
    ///
    /// ```
    /// use rowlock_lens::Redactor;
    ///
    /// let mut redactor = Redactor::new(false);
    /// assert_eq!((redactor.value("20"), redactor.value("30"), redactor.value("20")), ("<1>".into(), "<2>".into(), "<1>".into()));
    /// assert_eq!(Redactor::new(true).value("20"), "20");
    /// ```
    pub fn value(&mut self, text: &str) -> String {
        if self.show {
            return text.to_owned();
        }
        let next = self.labels.len() + 1;
        format!("<{}>", self.labels.entry(bare(text).to_owned()).or_insert(next))
    }

    /// A statement for people: on one line, redacted, with long lists shortened.
    ///
    /// ```
    /// use rowlock_lens::{Engine, Redactor};
    ///
    /// let sql = "UPDATE users\n  SET name = 'Ann' -- by hand\n WHERE id IN (7, 8, 9, 10, 11, 12)";
    /// let mut redactor = Redactor::new(false);
    /// assert_eq!(redactor.statement(sql, Engine::Postgres), "UPDATE users SET name = <1> WHERE id IN (<2>, <3>, <4>, <5>, .. 2 more)");
    /// ```
    pub fn statement(&mut self, sql: &str, engine: Engine) -> String {
        let mut out = Out::default();
        let mut pieces = Pieces { rest: sql, engine }.peekable();
        let mut list = 0;
        let mut left_out = 0;
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Space(_) => out.space(),
                Piece::Comment(text) if self.show => {
                    // A comment to the end of the line would swallow what follows it on this one line.
                    let text = text.trim_start_matches("--").trim_start_matches('#').trim();
                    out.push(&if text.starts_with("/*") { text.to_owned() } else { format!("/* {text} */") });
                }
                Piece::Comment(_) => out.space(),
                Piece::Number(text) | Piece::Text(text) => {
                    list += 1;
                    if list > SHOWN {
                        left_out += 1;
                        let _ = self.value(text);
                    } else {
                        out.push(&self.value(text));
                    }
                }
                Piece::Sign(",") if list >= SHOWN && literal_follows(&mut pieces.clone()) => {}
                Piece::Sign(sign) => {
                    if left_out > 0 {
                        out.space = false;
                        out.push(&format!(", .. {left_out} more"));
                        left_out = 0;
                    }
                    if sign != "," {
                        list = 0;
                    }
                    out.push(sign);
                }
                Piece::Word(word) => {
                    list = 0;
                    if left_out > 0 {
                        out.space = false;
                        out.push(&format!(", .. {left_out} more "));
                        left_out = 0;
                    }
                    out.push(word);
                }
            }
        }
        if left_out > 0 {
            out.push(&format!(", .. {left_out} more"));
        }
        cut(out.text)
    }
}

/// The shape of a statement, by which deadlocks are grouped: no literals, no comments, lists of one length, lower case.
///
/// ```
/// use rowlock_lens::{Engine, shape};
///
/// assert_eq!(shape("DELETE FROM T  WHERE id IN (1,2, 3)", Engine::Postgres), shape("delete from t where id in ( 4 )", Engine::Postgres));
/// assert_eq!(shape("insert into t values (1, 'a'), (2, 'b')", Engine::MySql), "insert into t values(?)");
/// ```
pub fn shape(sql: &str, engine: Engine) -> String {
    let mut words: Vec<String> = Vec::new();
    let last = |words: &[String], back: usize| {
        words.len().checked_sub(back).and_then(|at| words.get(at)).cloned().unwrap_or_default()
    };
    for piece in (Pieces { rest: sql, engine }) {
        match piece {
            Piece::Space(_) | Piece::Comment(_) => {}
            Piece::Number(_) | Piece::Text(_) => words.push("?".to_owned()),
            Piece::Sign(sign) if is_parameter(sign) => words.push("?".to_owned()),
            Piece::Sign(sign) => words.push(sign.replace('`', "")),
            Piece::Word(word) => words.push(word.to_ascii_lowercase()),
        }
        // `?, ?` is `?`; so is `(?), (?)`.
        if last(&words, 1) == "?" && last(&words, 2) == "," && last(&words, 3) == "?" {
            words.truncate(words.len() - 2);
        }
        let ends =
            |tail: &[&str]| words.len() >= tail.len() && words.iter().rev().zip(tail.iter().rev()).all(|(a, b)| a == b);
        if ends(&["(", "?", ")", ",", "(", "?", ")"]) {
            words.truncate(words.len() - 4);
        }
    }
    while words.last().is_some_and(|word| word == ";") {
        words.pop();
    }
    let mut text = String::new();
    for word in words {
        let glued =
            matches!(word.as_str(), "," | ")" | "(" | "." | ";") || text.ends_with(['(', '.']) || text.is_empty();
        if !glued {
            text.push(' ');
        }
        text.push_str(&word);
    }
    text
}

/// A statement of a text, or a directive in a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statement<'a> {
    /// From 1.
    pub(crate) line: usize,
    /// Without its semicolon and the comments before it.
    pub(crate) text: &'a str,
}

/// Cuts a text at its semicolons. A comment that begins with `-- rowlock:` stands for itself, and ends the statement before it.
pub(crate) fn split(text: &str, engine: Engine) -> Vec<Statement<'_>> {
    let mut statements = Vec::new();
    // Where the statement at hand begins, and its line.
    let mut begins: Option<(usize, usize)> = None;
    let (mut at, mut line) = (0, 1);
    let mut routine = Routine::default();
    for piece in (Pieces { rest: text, engine }) {
        let own = piece.text();
        let directive =
            matches!(piece, Piece::Comment(_)) && own.trim_start_matches('-').trim_start().starts_with("rowlock:");
        let ends = directive || (piece == Piece::Sign(";") && !routine.is_open());
        if ends {
            if let Some((begin, line)) = begins.take() {
                let text = text.get(begin..at).unwrap_or_default().trim_end();
                statements.push(Statement { line, text });
            }
            routine = Routine::default();
        }
        match piece {
            Piece::Comment(text) if directive => statements.push(Statement { line, text: text.trim_end() }),
            Piece::Space(_) | Piece::Comment(_) => {}
            _ if ends => {}
            _ => {
                begins.get_or_insert((at, line));
                routine.meet(own);
            }
        }
        at += own.len();
        line += own.matches('\n').count();
    }
    if let Some((begin, line)) = begins {
        statements.push(Statement { line, text: text.get(begin..).unwrap_or_default().trim_end() });
    }
    statements
}

/// Whether a semicolon stands in the body of a trigger or routine of MySQL's: between its BEGIN and its END.
#[derive(Default)]
struct Routine {
    words: usize,
    create: bool,
    routine: bool,
    depth: usize,
    /// `END IF`, `END LOOP`: the word behind END closes nothing.
    after_end: bool,
}

impl Routine {
    fn meet(&mut self, word: &str) {
        let word = word.to_ascii_lowercase();
        self.words += 1;
        self.create |= self.words == 1 && word == "create";
        self.routine |=
            self.create && self.words < 16 && matches!(word.as_str(), "trigger" | "procedure" | "function" | "event");
        if !self.routine {
            return;
        }
        match word.as_str() {
            "end" => self.depth = self.depth.saturating_sub(1),
            "begin" | "case" | "if" | "loop" | "while" | "repeat" if self.depth > 0 && !self.after_end => {
                self.depth += 1
            }
            "begin" if !self.after_end => self.depth += 1,
            _ => {}
        }
        self.after_end = word == "end";
    }

    fn is_open(&self) -> bool {
        self.depth > 0
    }
}

/// A literal without its quotes, as a decoded key would be written.
fn bare(text: &str) -> &str {
    let inner = text.strip_prefix(['\'', '"']).and_then(|t| t.strip_suffix(['\'', '"']));
    inner.unwrap_or(text)
}

fn is_parameter(sign: &str) -> bool {
    sign == "?" || sign.strip_prefix('$').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn literal_follows<'a>(pieces: &mut impl Iterator<Item = Piece<'a>>) -> bool {
    let next = pieces.find(|piece| !matches!(piece, Piece::Space(_) | Piece::Comment(_)));
    matches!(next, Some(Piece::Number(_) | Piece::Text(_)))
}

fn cut(text: String) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} ..", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[derive(Default)]
struct Out {
    text: String,
    space: bool,
}

impl Out {
    fn space(&mut self) {
        self.space = true;
    }

    fn push(&mut self, piece: &str) {
        if self.space && !self.text.is_empty() {
            self.text.push(' ');
        }
        self.space = false;
        self.text.push_str(piece);
    }
}

/// Cuts a text into pieces; never fails, whatever stands in it.
#[derive(Clone)]
struct Pieces<'a> {
    rest: &'a str,
    engine: Engine,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let rest = self.rest;
        let first = rest.chars().next()?;
        let second = rest.chars().nth(1);
        let mysql = self.engine != Engine::Postgres;
        let (length, make): (usize, fn(&'a str) -> Piece<'a>) = match (first, second) {
            (c, _) if c.is_whitespace() || c.is_control() => {
                (run(rest, |c| c.is_whitespace() || c.is_control()), Piece::Space)
            }
            ('-', Some('-')) => (rest.find('\n').unwrap_or(rest.len()), Piece::Comment),
            ('#', _) if mysql => (rest.find('\n').unwrap_or(rest.len()), Piece::Comment),
            ('/', Some('*')) => (rest.find("*/").map_or(rest.len(), |at| at + 2), Piece::Comment),
            // Smart quotes: what a chat program made of straight ones.
            ('\'' | '‘' | '’', _) => (quoted(rest, &['\'', '’'], mysql), Piece::Text),
            ('"' | '“' | '”', _) if mysql => (quoted(rest, &['"', '”'], true), Piece::Text),
            ('"', _) => (quoted(rest, &['"'], false), Piece::Sign),
            ('`', _) => (quoted(rest, &['`'], false), Piece::Sign),
            ('$', Some(c)) if c.is_ascii_digit() => {
                (1 + run(rest.get(1..).unwrap_or_default(), |c| c.is_ascii_digit()), Piece::Sign)
            }
            ('$', _) if !mysql => match dollar(rest) {
                Some(length) => (length, Piece::Text),
                None => (1, Piece::Sign),
            },
            ('e' | 'E' | 'x' | 'X' | 'b' | 'B' | 'n' | 'N', Some('\'')) => {
                let escapes = mysql || first.eq_ignore_ascii_case(&'e');
                (1 + quoted(rest.get(1..).unwrap_or_default(), &['\''], escapes), Piece::Text)
            }
            (c, _) if c.is_ascii_digit() => (run(rest, |c| c.is_alphanumeric() || c == '.' || c == '_'), Piece::Number),
            (c, _) if c.is_alphabetic() || c == '_' || c == '@' => {
                (run(rest, |c| c.is_alphanumeric() || matches!(c, '_' | '$' | '@')), Piece::Word)
            }
            (c, _) => (c.len_utf8(), Piece::Sign),
        };
        let (piece, rest) = rest.split_at_checked(length.max(1)).unwrap_or((rest, ""));
        self.rest = rest;
        Some(make(piece))
    }
}

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// The length of a quoted text with its quotes; a doubled quote is part of it, and so is an escaped one.
fn quoted(text: &str, ends: &[char], escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            chars.next();
        } else if ends.contains(&c) {
            if chars.peek().is_some_and(|(_, next)| *next == c) {
                chars.next();
            } else if !escapes && c == '\'' && text.get(..at).is_some_and(|before| before.ends_with('\\')) {
                // With standard_conforming_strings off, the string goes on: where it ends, cannot be told.
                return text.len();
            } else {
                return at + c.len_utf8();
            }
        }
    }
    text.len()
}

/// The length of `$tag$ .. $tag$`.
fn dollar(text: &str) -> Option<usize> {
    let tag_end = text.get(1..)?.find('$')? + 2;
    let tag = text.get(..tag_end)?;
    let inside = tag.get(1..tag.len() - 1)?;
    if !inside.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let body = text.get(tag_end..)?;
    Some(body.find(tag).map_or(text.len(), |at| tag_end + at + tag.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(sql: &str, engine: Engine) -> String {
        Redactor::new(false).statement(sql, engine)
    }

    #[test]
    fn strings_of_every_kind_go() {
        for sql in [
            "select 'secret'",
            "select E'a\\'secret'",
            "select 'it\\'s secret'",
            "select $a$secret$a$",
            "select U&'secret'",
            "select 'secret",
        ] {
            let shown = redacted(sql, Engine::Postgres);
            assert!(!shown.contains("secret"), "{sql}: {shown}");
        }
        for sql in [
            "select 'a\\'secret'",
            "select \"secret\"",
            "select x'5ec2e7', 0xsecret",
            "select 1 # secret",
            "select _utf8'secret'",
        ] {
            let shown = redacted(sql, Engine::MySql);
            assert!(!shown.contains("secret") && !shown.contains("5ec2e7"), "{sql}: {shown}");
        }
    }

    #[test]
    fn names_and_parameters_stay() {
        assert_eq!(redacted("select \"a 1\".b2, $1 from `x`", Engine::Postgres), "select \"a 1\".b2, $1 from `x`");
        assert_eq!(
            redacted("select `a 1`, @v from t2 where id = ?", Engine::MariaDb),
            "select `a 1`, @v from t2 where id = ?"
        );
    }
}
