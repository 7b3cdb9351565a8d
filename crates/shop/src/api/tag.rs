//! Entity tags: the version of a thing, as HTTP says it (RFC 9110, sections 8.8.3 and 13.1).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::problem::Problem;

/// The tag of a version: `"7"`.
pub(crate) fn of(version: i64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// The versions that an `If-Match` names, of which the thing must be one. The header is required: who does not say what
/// he has read would undo what others have done since.
pub(crate) struct IfMatch(pub(crate) Vec<i64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let required = |why| Problem::new(StatusCode::PRECONDITION_REQUIRED, "if-match", why);
        match tags(&parts.headers, &header::IF_MATCH)? {
            None => Err(required("say which version was read: `If-Match` with the `ETag` of its page")),
            // Any version is no version that was read.
            Some(Tags::Any) => Err(required("`*` names no version: `If-Match` with the `ETag` of the page is needed")),
            // A weak tag never matches here.
            Some(Tags::Of(tags)) => {
                Ok(Self(tags.into_iter().filter(|tag| !tag.weak).filter_map(|tag| tag.version).collect()))
            }
        }
    }
}

/// Whether an `If-None-Match` names this version: the client has it already.
pub(crate) fn has(headers: &HeaderMap, version: i64) -> Result<bool, Problem> {
    Ok(match tags(headers, &header::IF_NONE_MATCH)? {
        None => false,
        Some(Tags::Any) => true,
        Some(Tags::Of(tags)) => tags.iter().any(|tag| tag.version == Some(version)),
    })
}

#[derive(Debug, PartialEq)]
enum Tags {
    Any,
    Of(Vec<Tag>),
}

#[derive(Debug, PartialEq)]
struct Tag {
    weak: bool,
    /// `None`: it is none of the shop's tags.
    version: Option<i64>,
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let mut tags = Vec::new();
    let mut any = false;
    for value in headers.get_all(name) {
        let malformed = || {
            let why = format!("{name} is a list of tags in quotes: `\"7\"`");
            Problem::new(StatusCode::BAD_REQUEST, "bad-tag", why).at(name.as_str())
        };
        let text = value.to_str().map_err(|_| malformed())?;
        if text.trim() == "*" {
            any = true;
            continue;
        }
        tags.extend(list(text).ok_or_else(malformed)?);
    }
    Ok(match (any, tags.is_empty()) {
        (true, _) => Some(Tags::Any),
        (false, false) => Some(Tags::Of(tags)),
        (false, true) => None,
    })
}

/// `"7", W/"8"`. A tag may have a comma in it.
fn list(text: &str) -> Option<Vec<Tag>> {
    let mut tags = Vec::new();
    let mut rest = text.trim();
    loop {
        let (weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let (tag, after) = quoted.strip_prefix('"')?.split_once('"')?;
        let digits =
            !tag.is_empty() && tag.bytes().all(|b| b.is_ascii_digit()) && (tag == "0" || !tag.starts_with('0'));
        tags.push(Tag { weak, version: tag.parse().ok().filter(|_| digits) });
        rest = match after.trim_start() {
            "" => return Some(tags),
            more => more.strip_prefix(',')?.trim_start(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<(bool, Option<i64>)>> {
        list(text).map(|tags| tags.into_iter().map(|tag| (tag.weak, tag.version)).collect())
    }

    #[test]
    fn tags_are_read_strictly() {
        assert_eq!(read("\"7\""), Some(vec![(false, Some(7))]));
        assert_eq!(read(" \"0\" , W/\"12\",\"a,b\" "), Some(vec![(false, Some(0)), (true, Some(12)), (false, None)]));
        // Not what the shop gives out, though they are tags: no other spelling of a version.
        for other in ["\"07\"", "\"+7\"", "\"-7\"", "\"\"", "\" 7\"", "\"9223372036854775808\""] {
            assert_eq!(read(other), Some(vec![(false, None)]), "{other}");
        }
        for malformed in ["7", "\"7", "\"7\" \"8\"", "\"7\",", ",", "", "w/\"7\"", "*"] {
            assert_eq!(read(malformed), None, "{malformed}");
        }
        assert_eq!(of(12), "\"12\"");
    }
}
