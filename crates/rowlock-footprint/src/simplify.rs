//! What is taken out of a statement's tokens, or written otherwise, because the parser does not know it and it does not
//! matter to locks.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::{
    Dialect,
    text::{are_words, is_word, word_of},
};

/// The statement in words that the parser knows.
pub(crate) fn simplify(mut tokens: Vec<TokenWithSpan>, dialect: Dialect) -> Vec<TokenWithSpan> {
    if let Some(at) = (0..tokens.len()).find(|&i| are_words(&tokens, i, &["between", "symmetric"])) {
        tokens.remove(at + 1);
    }
    if is_word(tokens.first(), "table") {
        long_form_of_table(&mut tokens);
    }
    if dialect.is_innodb() {
        drop_modifiers(&mut tokens);
        if is_word(tokens.first(), "update") {
            tokens = join_by_words(tokens);
        }
        drop_into_variables(&mut tokens);
        drop_sequence_words(&mut tokens);
    } else {
        drop_conflict_expression(&mut tokens);
        tokens = drop_subscripts(tokens);
        replace_current_of(&mut tokens);
    }
    tokens
}

/// `TABLE t` is `SELECT * FROM t`, which the parser knows as a statement.
fn long_form_of_table(tokens: &mut Vec<TokenWithSpan>) {
    let place = tokens[0].span;
    let long = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
    tokens.splice(0..1, long.map(|token| TokenWithSpan { token, span: place }));
}

/// MySQL's `UPDATE LOW_PRIORITY IGNORE`, `DELETE QUICK`, and `DELETE t.* FROM t`.
fn drop_modifiers(tokens: &mut Vec<TokenWithSpan>) {
    const MODIFIERS: [&str; 4] = ["low_priority", "quick", "ignore", "delayed"];
    if !["update", "delete", "replace"].iter().any(|w| is_word(tokens.first(), w)) {
        return;
    }
    let end = (1..tokens.len()).find(|&i| !MODIFIERS.iter().any(|m| is_word(tokens.get(i), m))).unwrap_or(tokens.len());
    tokens.drain(1..end);
    if is_word(tokens.first(), "delete") {
        let end = (1..tokens.len()).find(|&i| is_word(tokens.get(i), "where")).unwrap_or(tokens.len());
        let star = |at: usize| at + 1 < end && tokens[at].token == Token::Period && tokens[at + 1].token == Token::Mul;
        let stars: Vec<bool> = (0..tokens.len()).map(|at| star(at) || (at > 0 && star(at - 1))).collect();
        let mut stars = stars.into_iter();
        tokens.retain(|_| stars.next() != Some(true));
    }
}

/// MySQL's `UPDATE a, b SET ..` as `UPDATE a CROSS JOIN b SET ..`.
fn join_by_words(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut depth = 0_usize;
    let mut before_set = true;
    let mut out = Vec::with_capacity(tokens.len() + 1);
    for token in tokens {
        before_set &= depth > 0 || !is_word(Some(&token), "set");
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if before_set && depth == 0 && token.token == Token::Comma {
            let word = |w| TokenWithSpan { token: Token::make_keyword(w), span: token.span };
            out.extend(["CROSS", "JOIN"].map(word));
        } else {
            out.push(token);
        }
    }
    out
}

/// MySQL's `SELECT .. INTO @a, @b`.
fn drop_into_variables(tokens: &mut Vec<TokenWithSpan>) {
    let is_variable = |t: Option<&TokenWithSpan>| word_of(t).is_some_and(|w| w.starts_with('@'));
    let Some(at) = (0..tokens.len()).find(|&i| is_word(tokens.get(i), "into") && is_variable(tokens.get(i + 1))) else {
        return;
    };
    let mut end = at + 2;
    while tokens.get(end).map(|t| &t.token) == Some(&Token::Comma) && is_variable(tokens.get(end + 1)) {
        end += 2;
    }
    tokens.drain(at..end);
}

/// MariaDB's `NEXT VALUE FOR s`: what is left reads as a column, whose value is as little known.
fn drop_sequence_words(tokens: &mut Vec<TokenWithSpan>) {
    let opens = |at: usize| {
        ["next", "previous"].iter().any(|w| is_word(tokens.get(at), w)) && are_words(tokens, at + 1, &["value", "for"])
    };
    let found: Vec<usize> = (0..tokens.len()).filter(|&at| opens(at)).collect();
    let mut found = found.into_iter().peekable();
    let mut at = 0;
    tokens.retain(|_| {
        found.next_if(|first| first + 3 <= at);
        let inside = found.peek().is_some_and(|first| (*first..*first + 3).contains(&at));
        at += 1;
        !inside
    });
}

/// The target of an `ON CONFLICT` that is an expression; without it, it stands for every unique key.
fn drop_conflict_expression(tokens: &mut Vec<TokenWithSpan>) {
    let Some(at) = (0..tokens.len()).find(|&i| are_words(tokens, i, &["on", "conflict"])) else { return };
    if tokens.get(at + 2).map(|t| &t.token) != Some(&Token::LParen) {
        return;
    }
    let mut depth = 0_usize;
    let mut plain = true;
    let mut end = at + 2;
    while let Some(token) = tokens.get(end) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(_) | Token::Comma => {}
            _ => plain = false,
        }
        plain &= depth < 2 && !is_word(Some(token), "collate");
        end += 1;
        if depth == 0 {
            break;
        }
    }
    if !plain {
        // Its WHERE belongs to the target and goes, too.
        while end < tokens.len() && !is_word(tokens.get(end), "do") {
            end += 1;
        }
        tokens.drain(at + 2..end);
    }
}

/// PostgreSQL's `SET a[1] = ..`: the column is assigned, whatever part of it.
fn drop_subscripts(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut in_set = false;
    let mut target = false;
    // Of a subscript that is left out, and of anything else.
    let (mut left_out, mut depth) = (0_usize, 0_usize);
    for token in tokens {
        if depth == 0 && left_out == 0 && is_word(Some(&token), "set") {
            (in_set, target) = (true, true);
        }
        in_set &= depth > 0 || !["where", "from"].iter().any(|w| is_word(Some(&token), w));
        match &token.token {
            Token::LBracket if left_out > 0 || (in_set && target && depth == 0) => left_out += 1,
            Token::RBracket if left_out > 0 => {
                left_out -= 1;
                continue;
            }
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => target = true,
            Token::Eq => target = false,
            _ => {}
        }
        if left_out == 0 {
            out.push(token);
        }
    }
    out
}

/// `WHERE CURRENT OF cursor` names a row that the text does not show, as `WHERE TRUE` does.
fn replace_current_of(tokens: &mut Vec<TokenWithSpan>) {
    if let Some(at) = (0..tokens.len()).find(|&i| are_words(tokens, i, &["where", "current", "of"]))
        && at + 3 < tokens.len()
    {
        let place = tokens[at + 1].span;
        tokens.splice(at + 1..at + 4, [TokenWithSpan { token: Token::make_keyword("TRUE"), span: place }]);
    }
}
