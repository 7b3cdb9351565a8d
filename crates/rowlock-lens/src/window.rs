//! A piece of an input around a marker, as lines: what formats look at.

use std::borrow::Cow;

/// A piece of an input in which [`markers`](crate::markers) found something.
///
/// Pure: the caller holds the input and cuts the piece out, and is asked for a larger one when this one was too small.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The bytes; they need not be UTF-8, and may begin and end anywhere.
    pub bytes: &'a [u8],
    /// Where in `bytes` the marker is.
    pub hit: usize,
    /// Whether the input ends with these bytes.
    pub ends: bool,
}

/// Longest line that is looked at, in bytes: one that is longer is cut there.
const LONGEST_LINE: usize = 1 << 20;

/// A line, and which line of the window it came from: a wrapper can make several of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) number: usize,
    pub(crate) text: Cow<'a, str>,
}

/// The lines of a window, and which of them has the marker.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    pub(crate) all: Vec<Line<'a>>,
    pub(crate) hit: usize,
    /// The marker, to find it again in what a wrapper made of its line.
    pub(crate) marker: &'static str,
    pub(crate) ends: bool,
}

impl<'a> Window<'a> {
    pub(crate) fn lines(&self, marker: &'static str) -> Lines<'a> {
        // A marker that begins with a line break is in the line behind it.
        let hit = self.hit.saturating_add(usize::from(marker.starts_with('\n'))).min(self.bytes.len());
        let mut all = Vec::new();
        let (mut at, mut hit_line) = (0, 0);
        // A window that begins in the middle of a line begins with the rest of it, which is no line.
        for (number, bytes) in self.bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = bytes.get(..bytes.len().min(LONGEST_LINE)).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            all.push(Line { number, text: String::from_utf8_lossy(line) });
            if at <= hit {
                hit_line = number;
            }
            at += bytes.len() + 1;
        }
        Lines { all, hit: hit_line, marker: marker.trim_start(), ends: self.ends }
    }

    /// Where the line of that number begins, counted from the window's first; the window's end when there is no such line.
    pub(crate) fn line_start(&self, number: usize) -> usize {
        match number.checked_sub(1) {
            None => 0,
            Some(before) => memchr::memchr_iter(b'\n', self.bytes).nth(before).map_or(self.bytes.len(), |at| at + 1),
        }
    }
}

impl<'a> Lines<'a> {
    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        self.all.get(at).map(|line| &*line.text)
    }

    /// The line with the marker.
    pub(crate) fn hit_text(&self) -> &str {
        self.text(self.hit).unwrap_or_default()
    }

    /// Each line as `change` makes it; what it does not know stays. `None` when it does not know the marker's line.
    pub(crate) fn map(&self, mut change: impl FnMut(&str) -> Option<String>) -> Option<Lines<'a>> {
        // Most wrappers fit nothing here: the marker's line tells at once.
        change(self.hit_text())?;
        let mut hit = None;
        let mut all = Vec::with_capacity(self.all.len());
        for (at, line) in self.all.iter().enumerate() {
            let Some(changed) = change(&line.text) else {
                all.push(line.clone());
                continue;
            };
            for text in changed.split('\n') {
                if at == self.hit && hit.is_none() && text.contains(self.marker) {
                    hit = Some(all.len());
                }
                all.push(Line { number: line.number, text: Cow::Owned(text.trim_end_matches('\r').to_owned()) });
            }
        }
        Some(Lines { all, hit: hit?, marker: self.marker, ends: self.ends })
    }
}
