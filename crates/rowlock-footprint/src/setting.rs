//! What a statement sets beside its rows: for the session, or in what names mean.
//!
//! Found by its words, as the kinds of statements are ([`statement`](crate::statement)). PostgreSQL's `SET LOCAL`, MySQL's
//! user variables (`SET @n = 1`) and MariaDB's `SET STATEMENT` end with the transaction, mean nothing to others, or end with
//! the statement: those set nothing here.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::{
    Dialect, Effect, Setting,
    text::{are_words, is_word, word_of},
};

/// Who the session is, or where it looks for a name: PostgreSQL's `"$user"` follows the role, and so does which rows its row
/// security shows.
const NAMES: [&str; 4] = ["search_path", "schema", "role", "session_authorization"];

/// PRAGMAs whose argument is what they are asked about, and those that do a work and set nothing.
#[rustfmt::skip]
const ASKS: [&str; 17] = [
    "table_info", "table_xinfo", "table_list", "index_info", "index_list", "index_xinfo", "foreign_key_list",
    "foreign_key_check", "integrity_check", "quick_check", "optimize", "wal_checkpoint", "incremental_vacuum",
    // These are of the file, and of the transaction.
    "user_version", "application_id", "schema_version", "defer_foreign_keys",
];

/// What the statement of these tokens sets.
pub(crate) fn settings(tokens: &[TokenWithSpan], dialect: Dialect) -> Vec<Setting> {
    let mut found = match dialect {
        Dialect::Postgres => of_postgres(tokens),
        Dialect::MySql | Dialect::MariaDb => of_mysql(tokens, dialect).unwrap_or_default(),
        Dialect::Sqlite => of_sqlite(tokens),
    };
    found.dedup();
    found
}

fn of_postgres(tokens: &[TokenWithSpan]) -> Vec<Setting> {
    let first = word_of(tokens.first()).unwrap_or_default().to_ascii_lowercase();
    let mut found = Vec::new();
    match first.as_str() {
        "set" => found.extend(set_of_postgres(tokens)),
        "reset" | "discard" if is_word(tokens.get(1), "all") || first == "discard" => {
            found.push(names(first.to_ascii_uppercase()));
        }
        "reset" => found.extend(of_name(named(tokens, 1), true)),
        "listen" | "unlisten" | "deallocate" => found.push(lasts(first.to_ascii_uppercase())),
        "update" if tokens.iter().take(5).any(|t| is_word(Some(t), "pg_settings")) => {
            found.push(names("pg_settings".into()));
        }
        _ => {}
    }
    for at in 0..tokens.len() {
        if is_word(tokens.get(at), "set_config") && tokens.get(at + 1).map(|t| &t.token) == Some(&Token::LParen) {
            found.extend(configured(&tokens[at + 2..]));
        }
    }
    found
}

fn set_of_postgres(tokens: &[TokenWithSpan]) -> Option<Setting> {
    let local = is_word(tokens.get(1), "local");
    // `SET SESSION AUTHORIZATION` is a name of two words.
    let scoped = local || (is_word(tokens.get(1), "session") && !is_word(tokens.get(2), "authorization"));
    let at = if scoped { 2 } else { 1 };
    let own = is_word(tokens.get(at), "constraints");
    let setting = of_name(named(tokens, at), !local)?;
    (!own).then_some(setting)
}

/// `set_config(name, value, is_local)`, from after its parenthesis. A name that is not in the text could be any.
fn configured(tokens: &[TokenWithSpan]) -> Option<Setting> {
    let mut depth = 0_usize;
    let end = tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return true,
            Token::RParen => depth -= 1,
            _ => {}
        }
        false
    })?;
    let name = match tokens.first().map(|t| &t.token) {
        Some(Token::SingleQuotedString(name)) if tokens.get(1).map(|t| &t.token) == Some(&Token::Comma) => name,
        _ => return Some(names("set_config".into())),
    };
    let last = tokens.get(end.checked_sub(1)?);
    let local =
        is_word(last, "true") || matches!(last.map(|t| &t.token), Some(Token::SingleQuotedString(t)) if is_true(t));
    of_name(name.clone(), !local)
}

fn is_true(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "t" | "true" | "on" | "yes" | "1")
}

/// A setting of that name, if it is one that matters: what changes names does so within the transaction, too.
fn of_name(name: String, stays: bool) -> Option<Setting> {
    match NAMES.iter().any(|n| name.eq_ignore_ascii_case(n)) || name == "session authorization" {
        true => Some(names(name)),
        false => stays.then(|| lasts(name)),
    }
}

/// The setting whose name begins at `at`: a word, quoted or not, or dotted ones; in PostgreSQL's grammar a few have two.
fn named(tokens: &[TokenWithSpan], at: usize) -> String {
    for two in ["session authorization", "time zone"] {
        let words: Vec<&str> = two.split(' ').collect();
        if are_words(tokens, at, &words) {
            return two.to_owned();
        }
    }
    let mut name = String::new();
    for token in tokens.get(at..).unwrap_or_default() {
        match &token.token {
            Token::Word(word) if name.is_empty() || name.ends_with('.') => {
                name.push_str(&word.value.to_ascii_lowercase())
            }
            Token::Period => name.push('.'),
            _ => break,
        }
    }
    name
}

fn of_mysql(tokens: &[TokenWithSpan], dialect: Dialect) -> Option<Vec<Setting>> {
    if is_word(tokens.first(), "use") {
        return Some(vec![names("USE".into())]);
    }
    if !is_word(tokens.first(), "set") || (dialect == Dialect::MariaDb && is_word(tokens.get(1), "statement")) {
        return None;
    }
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut begins = true;
    for (at, token) in tokens.iter().enumerate().skip(1) {
        if std::mem::take(&mut begins) {
            found.extend(assigned(tokens, at));
        }
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma => begins = depth == 0,
            _ => {}
        }
    }
    Some(found)
}

/// One assignment of MySQL's `SET`; none for a user variable.
fn assigned(tokens: &[TokenWithSpan], mut at: usize) -> Option<Setting> {
    const SCOPES: [&str; 5] = ["global", "session", "local", "persist", "persist_only"];
    if tokens.get(at).map(|t| &t.token) == Some(&Token::AtSign) {
        return None;
    }
    if SCOPES.iter().any(|scope| is_word(tokens.get(at), scope)) {
        at += 1;
    }
    let name = named(tokens, at);
    let Some(system) = name.strip_prefix("@@") else {
        return (!name.starts_with('@')).then(|| lasts(name));
    };
    let own = system.split_once('.').filter(|(scope, _)| SCOPES.contains(scope)).map_or(system, |(_, own)| own);
    Some(lasts(own.to_owned()))
}

fn of_sqlite(tokens: &[TokenWithSpan]) -> Vec<Setting> {
    let word = word_of(tokens.first()).unwrap_or_default().to_ascii_uppercase();
    if matches!(word.as_str(), "ATTACH" | "DETACH") {
        return vec![names(word)];
    }
    if word != "PRAGMA" || !tokens.iter().any(|t| matches!(t.token, Token::Eq | Token::LParen)) {
        return Vec::new();
    }
    let name = named(tokens, 1);
    let own = name.rsplit('.').next().unwrap_or_default();
    if ASKS.contains(&own) { Vec::new() } else { vec![lasts(format!("PRAGMA {own}"))] }
}

fn names(name: String) -> Setting {
    Setting { name, effect: Effect::Names }
}

fn lasts(name: String) -> Setting {
    Setting { name, effect: Effect::Lasts }
}

#[cfg(test)]
mod tests {
    use crate::{Dialect, Effect, Schema, analyze};

    fn of(sql: &str, dialect: Dialect) -> Vec<String> {
        let footprint = analyze(sql, dialect, &Schema::default()).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let word = |effect| if effect == Effect::Names { "names" } else { "lasts" };
        footprint.settings.iter().map(|s| format!("{} {}", word(s.effect), s.name)).collect()
    }

    fn all(dialect: Dialect, cases: &[(&str, &[&str])]) {
        for (sql, expected) in cases {
            assert_eq!(of(sql, dialect), *expected, "{sql}");
        }
    }

    #[test]
    fn of_postgres() {
        all(
            Dialect::Postgres,
            &[
                ("set local search_path = b", &["names search_path"]),
                ("SET SESSION \"search_path\" TO b", &["names search_path"]),
                ("set /* quiet */ schema 'b'", &["names schema"]),
                ("reset search_path", &["names search_path"]),
                ("reset all", &["names RESET"]),
                ("discard temp", &["names DISCARD"]),
                ("select 1; set local role b", &["names role"]),
                ("set local session authorization b", &["names session authorization"]),
                ("set session authorization default", &["names session authorization"]),
                ("reset role", &["names role"]),
                ("select pg_catalog.set_config('Search_Path', f($1), true)", &["names Search_Path"]),
                ("select set_config($1, $2, true)", &["names set_config"]),
                ("select set_config('app.tenant', (select 'x'), true)", &[]),
                ("select set_config('app.tenant', $1, false)", &["lasts app.tenant"]),
                ("select set_config('app.tenant', $1, $2)", &["lasts app.tenant"]),
                ("update pg_settings set setting = 'b' where name = 'search_path'", &["names pg_settings"]),
                ("set local statement_timeout = 5", &[]),
                ("set statement_timeout = 5", &["lasts statement_timeout"]),
                ("set session app.tenant = 'search_path'", &["lasts app.tenant"]),
                ("set time zone 'UTC'", &["lasts time zone"]),
                ("reset statement_timeout", &["lasts statement_timeout"]),
                ("set constraints all deferred", &[]),
                ("listen a", &["lasts LISTEN"]),
                ("notify a", &[]),
                ("select 'set search_path = b'", &[]),
            ],
        );
    }

    #[test]
    fn of_mysql() {
        for dialect in [Dialect::MySql, Dialect::MariaDb] {
            all(
                dialect,
                &[
                    ("use b", &["names USE"]),
                    ("select 1; use `b`", &["names USE"]),
                    ("set @a = 1, @b = (1, 2)", &[]),
                    ("set @a := 1, sql_mode = concat('a', 'b'), @c = 2", &["lasts sql_mode"]),
                    ("SET SESSION Sort_Buffer_Size = 1", &["lasts sort_buffer_size"]),
                    ("set @@session.sql_mode = ''", &["lasts sql_mode"]),
                    ("set @@sql_mode = ''", &["lasts sql_mode"]),
                    ("set global max_connections = 5", &["lasts max_connections"]),
                    ("set names utf8mb4", &["lasts names"]),
                    ("set role b", &["lasts role"]),
                ],
            );
        }
        all(Dialect::MariaDb, &[("set statement max_statement_time = 1 for select 1", &[])]);
    }

    #[test]
    fn of_sqlite() {
        all(
            Dialect::Sqlite,
            &[
                ("attach 'x' as y", &["names ATTACH"]),
                ("detach y", &["names DETACH"]),
                ("pragma foreign_keys = off", &["lasts PRAGMA foreign_keys"]),
                ("PRAGMA main.cache_size(5)", &["lasts PRAGMA cache_size"]),
                ("pragma foreign_keys", &[]),
                ("pragma table_info(t)", &[]),
                ("pragma main.user_version = 5", &[]),
                ("pragma defer_foreign_keys = on", &[]),
            ],
        );
    }
}
