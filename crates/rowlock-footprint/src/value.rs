//! Values: what an expression of the text says about a key.

use sqlparser::ast::{self, CastKind, DataType, Expr, UnaryOperator};

use crate::{Dialect, Literal, Value};

/// The value of an expression that names no column: a literal or a parameter, through casts and signs.
/// `None`: it is neither, and may name a column.
pub(crate) fn constant(expr: &Expr, dialect: Dialect) -> Option<Value> {
    match expr {
        Expr::Nested(inner) => constant(inner, dialect),
        Expr::Value(value) => literal(&value.value, dialect),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match constant(expr, dialect)? {
            Value::Literal(Literal::Integer(n)) => {
                Some(n.checked_neg().map_or(Value::Unknown, |n| Value::Literal(Literal::Integer(n))))
            }
            _ => Some(Value::Unknown),
        },
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => constant(expr, dialect),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            constant(expr, dialect).map(|value| cast(value, data_type))
        }
        Expr::Convert { expr, data_type: Some(data_type), .. } => {
            constant(expr, dialect).map(|value| cast(value, data_type))
        }
        Expr::TypedString(typed) => literal(&typed.value.value, dialect).map(|value| cast(value, &typed.data_type)),
        // MySQL's character set introducer: _utf8mb4'x'.
        Expr::Prefixed { value, .. } => constant(value, dialect),
        // A user variable of the session.
        Expr::Identifier(ident)
            if dialect.is_innodb() && ident.quote_style.is_none() && ident.value.starts_with('@') =>
        {
            Some(Value::Unknown)
        }
        _ => None,
    }
}

fn literal(value: &ast::Value, dialect: Dialect) -> Option<Value> {
    use ast::Value as V;
    let text = |s: &String| Value::Literal(Literal::Text(s.clone()));
    Some(match value {
        V::Number(digits, _) => digits.parse().map_or(Value::Unknown, |n| Value::Literal(Literal::Integer(n))),
        V::SingleQuotedString(s)
        | V::EscapedStringLiteral(s)
        | V::UnicodeStringLiteral(s)
        | V::NationalStringLiteral(s) => text(s),
        V::DollarQuotedString(s) => text(&s.value),
        // Elsewhere a string in double quotes is a name.
        V::DoubleQuotedString(s) if dialect.is_innodb() => text(s),
        V::DoubleQuotedString(_) => return None,
        // On PostgreSQL X'..' is a bit string, which is no key.
        V::HexStringLiteral(digits) if dialect != Dialect::Postgres => {
            hex(digits).map_or(Value::Unknown, |bytes| Value::Literal(Literal::Bytes(bytes)))
        }
        V::Null => Value::Literal(Literal::Null),
        V::Placeholder(name) => parameter(name).map_or(Value::Unknown, Value::Parameter),
        _ => Value::Unknown,
    })
}

/// The index of a placeholder, which `text` has numbered; `None` for a named one.
pub(crate) fn parameter(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// A cast keeps the value, unless it is to a type of some length, which may cut it; a literal takes the kind that it is
/// cast to.
fn cast(value: Value, to: &DataType) -> Value {
    if may_cut(to) {
        return Value::Unknown;
    }
    match value {
        Value::Literal(Literal::Text(text)) if is_integer(to) => {
            text.trim().parse().map_or(Value::Unknown, |n| Value::Literal(Literal::Integer(n)))
        }
        Value::Literal(Literal::Text(text)) if matches!(to, DataType::Bytea) => match text.strip_prefix("\\x") {
            Some(digits) => hex(digits).map_or(Value::Unknown, |bytes| Value::Literal(Literal::Bytes(bytes))),
            None if !text.contains('\\') => Value::Literal(Literal::Bytes(text.into_bytes())),
            None => Value::Unknown,
        },
        Value::Literal(Literal::Integer(n)) if is_text(to) => Value::Literal(Literal::Text(n.to_string())),
        other => other,
    }
}

fn may_cut(to: &DataType) -> bool {
    match to {
        DataType::Text
        | DataType::Uuid
        | DataType::Bytea
        | DataType::Varchar(None)
        | DataType::CharacterVarying(None)
        | DataType::Custom(_, _)
        | DataType::Array(_)
        | DataType::Unspecified => false,
        // PostgreSQL's `char` has one character; MySQL's in a cast, as many as there are: one cannot tell here.
        DataType::Char(_) | DataType::Character(_) => true,
        other if is_integer(other) => false,
        other => other.to_string().contains('('),
    }
}

fn is_integer(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::SmallInt(_)
            | DataType::Int(_)
            | DataType::Integer(_)
            | DataType::BigInt(_)
            | DataType::Int2(_)
            | DataType::Int4(_)
            | DataType::Int8(_)
            | DataType::Signed
            | DataType::SignedInteger
            | DataType::Unsigned
            | DataType::UnsignedInteger
    )
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Text | DataType::Varchar(None) | DataType::CharacterVarying(None) | DataType::Char(None)
    )
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let nibble = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

/// The elements of an array that is compared with `= ANY (..)`: of `ARRAY[..]`, of `'{1,2}'`, or the one bound value
/// that holds them all.
pub(crate) fn elements(expr: &Expr, dialect: Dialect) -> Option<Vec<Value>> {
    match expr {
        Expr::Nested(inner) => elements(inner, dialect),
        Expr::Array(array) => Some(array.elem.iter().map(|e| constant(e, dialect).unwrap_or(Value::Unknown)).collect()),
        Expr::Cast { expr, data_type, .. } => {
            let inner = match data_type {
                DataType::Array(
                    ast::ArrayElemTypeDef::SquareBracket(inner, _) | ast::ArrayElemTypeDef::AngleBracket(inner),
                ) => inner,
                _ => return elements(expr, dialect),
            };
            Some(elements(expr, dialect)?.into_iter().map(|value| cast(value, inner)).collect())
        }
        other => match constant(other, dialect)? {
            Value::Parameter(n) => Some(vec![Value::ParameterArray(n)]),
            Value::Literal(Literal::Text(text)) => array_text(&text),
            _ => None,
        },
    }
}

/// PostgreSQL's text form of an array, as long as no element needs quotes.
fn array_text(text: &str) -> Option<Vec<Value>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.contains(['{', '}', '"', '\\']) {
        return None;
    }
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    Some(
        inner
            .split(',')
            .map(str::trim)
            .map(|item| if item.eq_ignore_ascii_case("null") { Literal::Null } else { Literal::Text(item.to_owned()) })
            .map(Value::Literal)
            .collect(),
    )
}
