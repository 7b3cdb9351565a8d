//! What the guard has against a lock or a statement, in words that its author can act on where it stands.

use std::fmt;

use rowlock_footprint::Strength;

use crate::error::KindName;

/// A lock that was asked for out of order.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The kind of transaction.
    pub kind: KindName,
    /// The place that was asked for, in words: `` `Order` 7 ``.
    pub asked: String,
    /// The place that is held and lies above it, in words.
    pub held: String,
    /// For a rise of strength on a row that is held: from which to which.
    pub rise: Option<(Strength, Strength)>,
    /// For a row that the statement would make: its resource.
    pub made: Option<&'static str>,
    /// The statement's text, where it was a statement of the user's own.
    pub statement: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { kind, asked, held, rise, made, statement } = self;
        match (rise, made) {
            (_, Some(_)) => write!(f, "lock order: {kind} makes {asked} while it holds {held}")?,
            (Some((from, to)), None) => write!(
                f,
                "lock strength: {kind} holds {asked} {from} and asks for {to}; another may hold it {from} and ask the same"
            )?,
            (None, None) => write!(f, "lock order: {kind} asks for {asked} while it holds {held}")?,
        }
        write!(f, "{}{}", if rise.is_some() && made.is_none() { ": " } else { "; " }, self.way_out())?;
        match statement {
            Some(sql) => write!(f, " (statement: {})", shorten(sql)),
            None => Ok(()),
        }
    }
}

impl Violation {
    /// What the author can do where this stands.
    fn way_out(&self) -> String {
        let Violation { asked, held, rise, made, .. } = self;
        let resource = asked.split('`').nth(1).unwrap_or(asked);
        // Which rows a statement has locked is not known: what is asked for has to come before that statement.
        let before = match held.strip_prefix("some rows of ") {
            Some(_) => format!("the statement that locked {held}"),
            None => held.clone(),
        };
        match (rise, made) {
            (_, Some(resource)) if asked.starts_with("some rows of ") => {
                format!(
                    "make them before {before}, or name their keys, one `VALUES` after the other, under `tx.guard_creation::<{resource}>(..)`"
                )
            }
            (_, Some(resource)) => {
                format!("make it first, or take `tx.guard_creation::<{resource}>(..)` for its key before")
            }
            (Some((_, to)), None) => match to {
                Strength::Update => format!("take {to} first, by `.update()` of its lock"),
                _ => format!("take {to} first"),
            },
            (None, None) if asked.starts_with("creation of ") => {
                format!("take `tx.guard_creation::<{resource}>(..)` before {before}")
            }
            (None, None) if asked.starts_with("some rows of ") => {
                format!("find them by `tx.lock_where::<{resource}>(..)`, before {before}")
            }
            (None, None) if asked.starts_with("a row of ") => format!(
                "bind its key through `rowlock::query`, so that it can be had without waiting, or lock it before {before}"
            ),
            // It was not there, and is now; and of what is held, nothing lies above it.
            (None, None) if asked == held => {
                "another has made it meanwhile: run the transaction again, which `Late::Restart` does by itself".into()
            }
            (None, None) if *held != before => format!("lock {asked} before {before}"),
            (None, None) => format!("lock {asked} first"),
        }
    }
}

impl std::error::Error for Violation {}

/// A statement that the guard refused, before it was sent.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The kind of transaction.
    pub kind: KindName,
    /// What is wrong, and the way out.
    pub reason: String,
    /// The statement's text.
    pub statement: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: refused a statement: {} (statement: {})", self.kind, self.reason, shorten(&self.statement))
    }
}

impl std::error::Error for Refusal {}

/// At most this much of a statement goes into a message.
const SHOWN: usize = 300;

fn shorten(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len().min(SHOWN));
    for word in sql.split_whitespace() {
        if text.len() + word.len() > SHOWN {
            text.push_str(" ..");
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_tells_what_can_be_done() {
        let of = |asked: &str, held: &str, rise, made| {
            let (asked, held, kind) = (asked.to_owned(), held.to_owned(), KindName::named("pay"));
            Violation { kind, asked, held, rise, made, statement: None }.to_string()
        };
        let (row, rows, hidden) = ("`Line` 5", "some rows of `Line`", "a row of `Line`");
        let rise = Some((Strength::NoKeyUpdate, Strength::Update));
        for (message, expected) in [
            (
                of(row, "`Line` 7", None, None),
                "lock order: pay asks for `Line` 5 while it holds `Line` 7; lock `Line` 5 first",
            ),
            (of(row, rows, None, None), "; lock `Line` 5 before the statement that locked some rows of `Line`"),
            (
                of(row, row, None, None),
                "; another has made it meanwhile: run the transaction again, which `Late::Restart` does by itself",
            ),
            (
                of(rows, rows, None, None),
                "; find them by `tx.lock_where::<Line>(..)`, before the statement that locked some rows of `Line`",
            ),
            (of(rows, "`Note` 1", None, None), "; find them by `tx.lock_where::<Line>(..)`, before `Note` 1"),
            (
                of(hidden, row, None, None),
                "; bind its key through `rowlock::query`, so that it can be had without waiting, or lock it before `Line` 5",
            ),
            (
                of("creation of `Line` (slot 3)", row, None, None),
                "; take `tx.guard_creation::<Line>(..)` before `Line` 5",
            ),
            (of(row, row, rise, None), "ask the same: take update first, by `.update()` of its lock"),
            (
                of(row, "`Line` 7", None, Some("Line")),
                "; make it first, or take `tx.guard_creation::<Line>(..)` for its key before",
            ),
            (
                of(rows, row, None, Some("Line")),
                "; make them before `Line` 5, or name their keys, one `VALUES` after the other, under `tx.guard_creation::<Line>(..)`",
            ),
        ] {
            assert!(message.ends_with(expected), "{message}");
        }
    }
}
