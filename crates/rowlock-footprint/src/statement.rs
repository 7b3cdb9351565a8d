//! Which statement it is: told by its first words, so that the many statements that lock no rows, or whole tables, need
//! no grammar. Only what can lock rows goes to the parser.

use sqlparser::{
    ast::{SetExpr, Statement},
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};

use crate::{
    Cause, Dialect, Rows, Strength, Unreadable, Verb,
    analyze::Analysis,
    function, locking,
    name::written,
    scope::Output,
    simplify::simplify,
    text::{are_words, grammar, is_word, word_of},
};

/// How deep a statement may nest. The parser's own bound is 50, which generated SQL can reach.
pub(crate) const MAX_DEPTH: usize = 100;

impl Analysis<'_> {
    /// One statement, which is not empty.
    pub(crate) fn tokens(&mut self, tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        self.inside(tokens, false)
    }

    /// The statement in an EXPLAIN, a cursor or a COPY, none of which can stand in another.
    fn wrapped(&mut self, tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        self.inside(tokens, true)
    }

    fn inside(&mut self, tokens: Vec<TokenWithSpan>, wrapped: bool) -> Result<(), Unreadable> {
        let word = match tokens.first().map(|t| &t.token) {
            Some(Token::LParen) => "select".to_owned(),
            _ => word_of(tokens.first()).unwrap_or_default().to_ascii_lowercase(),
        };
        let wraps = matches!(word.as_str(), "explain" | "describe" | "desc" | "analyze" | "declare" | "copy")
            || (word == "set" && is_word(tokens.get(1), "statement"));
        if wrapped && wraps {
            return Err(Unreadable { reason: format!("{word} inside another statement") });
        }
        let verb = match word.as_str() {
            "select" | "with" | "values" | "table" | "insert" | "replace" | "update" | "delete" | "merge" => {
                return self.parse(tokens);
            }
            "explain" | "describe" | "desc" => return self.explain(tokens),
            // MariaDB's EXPLAIN ANALYZE.
            "analyze" if self.dialect == Dialect::MariaDb && !is_word(tokens.get(1), "table") => {
                return self.explain(tokens);
            }
            "declare" => return self.cursor(tokens),
            // MariaDB: `SET STATEMENT max_statement_time = 1 FOR SELECT ..`.
            "set" if self.dialect == Dialect::MariaDb && is_word(tokens.get(1), "statement") => {
                return self.after_for(tokens, 0);
            }
            "copy" => return self.copy(tokens),
            "load" if self.dialect.is_innodb() => {
                let into = tokens.iter().position(|t| is_word(Some(t), "table")).unwrap_or(tokens.len());
                self.bulk(&tokens, into + 1);
                Verb::Write
            }
            "prepare" if is_word(tokens.get(1), "transaction") => Verb::TransactionControl,
            "start" if is_word(tokens.get(1), "transaction") => Verb::TransactionControl,
            "begin" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" | "xa" => {
                Verb::TransactionControl
            }
            "set" if sets_transaction(&tokens) => Verb::TransactionControl,
            // InnoDB locks what is read for a variable: `SET @a = (SELECT ..)`.
            "set" if self.dialect.is_innodb() && tokens.iter().any(|t| is_word(Some(t), "select")) => Verb::Opaque,
            "set" | "reset" | "discard" | "use" | "pragma" | "attach" | "detach" | "deallocate" | "listen"
            | "unlisten" | "notify" => Verb::Session,
            "show" | "fetch" | "move" | "close" | "help" => Verb::Read,
            "create" if self.makes_temporary(&tokens) => Verb::Session,
            "create" | "alter" | "drop" | "truncate" | "lock" | "unlock" | "vacuum" | "analyze" | "reindex"
            | "cluster" | "refresh" | "comment" | "grant" | "revoke" | "rename" | "optimize" | "repair" | "check"
            | "checksum" | "flush" | "reassign" | "security" | "import" | "checkpoint" => Verb::TableLock,
            "call" | "do" | "execute" | "exec" | "prepare" | "kill" | "handler" | "start" | "stop" | "load"
            | "install" | "uninstall" | "binlog" | "signal" | "resignal" | "shutdown" | "restart" => {
                if matches!(word.as_str(), "call" | "execute" | "exec") {
                    let (name, _) = written(&tokens, 1, self.dialect);
                    self.opaque(name.to_string());
                }
                Verb::Opaque
            }
            _ => {
                let first = tokens.first().map_or_else(String::new, |t| format!("`{}`{}", t.token, t.span.start));
                return Err(Unreadable { reason: format!("no statement begins with {first}") });
            }
        };
        self.verb(verb);
        Ok(())
    }

    /// `CREATE TEMPORARY TABLE`, which locks nothing of others.
    fn makes_temporary(&mut self, tokens: &[TokenWithSpan]) -> bool {
        const BEFORE: [&str; 6] = ["or", "replace", "global", "local", "temp", "temporary"];
        let at = 1 + tokens.iter().skip(1).take_while(|t| BEFORE.iter().any(|w| is_word(Some(t), w))).count();
        let temporary = tokens[..at].iter().any(|t| is_word(Some(t), "temp") || is_word(Some(t), "temporary"));
        if !temporary || !is_word(tokens.get(at), "table") {
            return false;
        }
        let at = if are_words(tokens, at + 1, &["if", "not", "exists"]) { at + 4 } else { at + 1 };
        let (name, _) = written(tokens, at, self.dialect);
        self.footprint.temporary.push(name);
        true
    }

    fn parse(&mut self, tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        let (tokens, clauses) = locking::take_clauses(simplify(tokens, self.dialect), self.dialect);
        let mut parser =
            Parser::new(grammar(self.dialect)).with_recursion_limit(MAX_DEPTH).with_tokens_with_locations(tokens);
        let statement = parser.parse_statement().map_err(|e| Unreadable { reason: e.to_string() })?;
        let rest = parser.peek_token();
        if rest.token != Token::EOF {
            let reason = format!("the statement should end before `{}`{}", rest.token, rest.span.start);
            return Err(Unreadable { reason });
        }
        self.clauses = clauses;
        for name in function::unknown(&statement, self.dialect) {
            self.opaque(name);
        }
        let read = self.statement(&statement);
        self.ctes.clear();
        self.outputs.clear();
        read.map(|_| ())
    }

    /// A statement of the parser; what it returns, when it stands in a CTE.
    pub(crate) fn statement(&mut self, statement: &Statement) -> Result<Output, Unreadable> {
        let before = self.shares_reads;
        self.shares_reads |= self.shares_what_it_reads(statement);
        let known = self.known_statement(statement);
        self.shares_reads = before;
        known
    }

    fn known_statement(&mut self, statement: &Statement) -> Result<Output, Unreadable> {
        match statement {
            Statement::Query(query) => {
                // `WITH .. UPDATE` is a query to the parser, too.
                return match (&*query.body, &query.with) {
                    (SetExpr::Insert(s) | SetExpr::Update(s) | SetExpr::Delete(s) | SetExpr::Merge(s), None) => {
                        self.statement(s)
                    }
                    _ => Ok(self.query(query, &[])),
                };
            }
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Merge(merge) => self.merge(merge),
            other => {
                let start: String = other.to_string().chars().take(40).collect();
                return Err(Unreadable { reason: format!("the model does not know this statement: {start}") });
            }
        }
        self.verb(Verb::Write);
        Ok(Output::unknown())
    }

    /// Only ANALYZE runs the statement.
    fn explain(&mut self, mut tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        let mut at = 1;
        let mut runs = is_word(tokens.first(), "analyze");
        if tokens.get(1).map(|t| &t.token) == Some(&Token::LParen)
            && word_of(tokens.get(2))
                .is_some_and(|w| !matches!(w.to_ascii_lowercase().as_str(), "select" | "with" | "values"))
        {
            while let Some(token) = tokens.get(at) {
                let off = ["false", "off"].iter().any(|w| is_word(tokens.get(at + 1), w))
                    || matches!(tokens.get(at + 1).map(|t| &t.token), Some(Token::Number(n, _)) if n == "0");
                runs |= is_word(Some(token), "analyze") && !off;
                at += 1;
                if token.token == Token::RParen {
                    break;
                }
            }
        } else {
            const STATEMENTS: [&str; 9] =
                ["select", "with", "values", "table", "insert", "replace", "update", "delete", "merge"];
            while let Some(token) = tokens.get(at) {
                if token.token == Token::LParen || STATEMENTS.iter().any(|w| is_word(Some(token), w)) {
                    break;
                }
                runs |= is_word(Some(token), "analyze");
                at += 1;
            }
        }
        let explained = tokens.split_off(at.min(tokens.len()));
        if runs && !explained.is_empty() {
            return self.wrapped(explained);
        }
        self.verb(Verb::Read);
        Ok(())
    }

    /// `DECLARE .. CURSOR FOR ..`: its rows are locked as they are fetched, which is counted here.
    fn cursor(&mut self, tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        let cursor = tokens.iter().position(|t| is_word(Some(t), "cursor")).unwrap_or(tokens.len());
        self.after_for(tokens, cursor)
    }

    /// The statement after the first `FOR` from `at` on.
    fn after_for(&mut self, mut tokens: Vec<TokenWithSpan>, at: usize) -> Result<(), Unreadable> {
        match (at..tokens.len()).find(|&i| is_word(tokens.get(i), "for")) {
            Some(end) if end + 1 < tokens.len() => self.wrapped(tokens.split_off(end + 1)),
            _ => {
                let first = tokens.first().map_or_else(String::new, |t| t.span.start.to_string());
                Err(Unreadable { reason: format!("a statement is missing after FOR{first}") })
            }
        }
    }

    fn copy(&mut self, mut tokens: Vec<TokenWithSpan>) -> Result<(), Unreadable> {
        if tokens.get(1).map(|t| &t.token) == Some(&Token::LParen) {
            let mut depth = 0_usize;
            let end = tokens.iter().position(|t| {
                match t.token {
                    Token::LParen => depth += 1,
                    Token::RParen => depth = depth.saturating_sub(1),
                    _ => {}
                }
                t.token == Token::RParen && depth == 0
            });
            tokens.truncate(end.unwrap_or(tokens.len()));
            let query = tokens.split_off(2);
            return if query.is_empty() { Ok(()) } else { self.wrapped(query) };
        }
        if tokens.iter().any(|t| is_word(Some(t), "from")) {
            self.bulk(&tokens, 1);
            self.verb(Verb::Write);
        }
        Ok(())
    }

    /// Rows that come from a file, into the table whose name begins at `at`.
    fn bulk(&mut self, tokens: &[TokenWithSpan], at: usize) {
        let (written, _) = written(tokens, at, self.dialect);
        let (name, table) = self.find(written);
        if self.is_view(table) {
            return;
        }
        self.lock(&name, Strength::Update, Rows::Unknown, Cause::Insert);
        self.fires(table);
        for key in table.into_iter().flat_map(|t| &t.foreign_keys) {
            self.lock(&key.parent, Strength::KeyShare, Rows::Unknown, Cause::ForeignKey(key.name.clone()));
        }
    }
}

/// `SET TRANSACTION`, `SET SESSION CHARACTERISTICS AS TRANSACTION`, `SET autocommit`.
fn sets_transaction(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().skip(1).take(6).any(|t| is_word(Some(t), "transaction"))
        || tokens
            .iter()
            .skip(1)
            .take(4)
            .any(|t| word_of(Some(t)).is_some_and(|w| w.trim_start_matches('@').eq_ignore_ascii_case("autocommit")))
}
