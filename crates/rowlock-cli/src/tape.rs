//! An input to look through: chunk by chunk, with looks around a place on the way.
//!
//! A plain file is read in chunks that stay in the processor's cache, and what surrounds a place is read again. A stream
//! keeps what lies a bounded distance back. Neither holds more of a longer input.
//!
//! (Mapping the file would want unsafe code, and is not faster: the kernel's copy of a chunk is cheaper than the page faults.)

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use indicatif::ProgressBar;

/// Of a plain file: half of a usual second-level cache.
const CHUNK: usize = 256 << 10;
/// How far back a look can go in a stream, in bytes.
pub(crate) const HISTORY: usize = 1 << 20;
/// What a stream's buffer holds beside its history.
const AHEAD: usize = 3 << 20;

/// An input.
pub(crate) struct Tape {
    source: Source,
    buffer: Vec<u8>,
    /// Where `buffer` begins in the input.
    start: u64,
    /// How much of `buffer` is filled.
    filled: usize,
    ended: bool,
    bar: ProgressBar,
}

enum Source {
    File(File),
    Stream(Box<dyn Read>),
}

impl Tape {
    pub(crate) fn of_file(file: File, bar: ProgressBar) -> Tape {
        Tape { source: Source::File(file), buffer: vec![0; CHUNK], start: 0, filled: 0, ended: false, bar }
    }

    pub(crate) fn of_stream(reader: Box<dyn Read>, bar: ProgressBar) -> Tape {
        Tape {
            source: Source::Stream(reader),
            buffer: vec![0; HISTORY + AHEAD],
            start: 0,
            filled: 0,
            ended: false,
            bar,
        }
    }

    /// The input from `at` on: as much as is at hand, and more than `overlap` bytes unless the input ends. `at` never goes
    /// back by more than `overlap`.
    pub(crate) fn chunk(&mut self, at: u64, overlap: usize) -> io::Result<&[u8]> {
        let held = |tape: &Tape| (tape.start + tape.filled as u64).saturating_sub(at) as usize;
        if at < self.start || held(self) <= overlap {
            match &self.source {
                Source::File(_) => self.read_chunk(at)?,
                Source::Stream(_) => self.advance(at, overlap + 1)?,
            }
        }
        let from = at.saturating_sub(self.start) as usize;
        Ok(self.buffer.get(from..self.filled).unwrap_or_default())
    }

    /// Whether the chunk that was given last goes to the input's end.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// The input from `from` to `to`, as far as it goes and is still at hand; where it begins; and whether the input ends
    /// with it.
    pub(crate) fn window(&mut self, from: u64, to: u64) -> io::Result<(Cow<'_, [u8]>, u64, bool)> {
        if let Source::File(file) = &self.source {
            let mut bytes = vec![0; to.saturating_sub(from) as usize];
            let filled = read_full(&mut bytes, from, |into, at| file.read_at(into, at))?;
            let ends = filled < bytes.len();
            bytes.truncate(filled);
            return Ok((Cow::Owned(bytes), from, ends));
        }
        let from = from.max(self.start);
        let ahead = to.saturating_sub(from) as usize;
        self.advance(from, ahead)?;
        let begin = from.saturating_sub(self.start) as usize;
        let end = (begin + ahead).min(self.filled);
        let ends = self.ended && end == self.filled;
        Ok((Cow::Borrowed(self.buffer.get(begin..end).unwrap_or_default()), from, ends))
    }

    fn read_chunk(&mut self, at: u64) -> io::Result<()> {
        let Source::File(file) = &self.source else { return Ok(()) };
        self.filled = read_full(&mut self.buffer, at, |into, at| file.read_at(into, at))?;
        self.start = at;
        self.ended = self.filled < self.buffer.len();
        self.bar.set_position(at + self.filled as u64);
        Ok(())
    }

    /// Reads a stream until `ahead` bytes from `at` on are at hand, and keeps its history.
    fn advance(&mut self, at: u64, ahead: usize) -> io::Result<()> {
        let Source::Stream(reader) = &mut self.source else { return Ok(()) };
        loop {
            let from = at.saturating_sub(self.start) as usize;
            if self.ended || self.filled >= from + ahead {
                return Ok(());
            }
            if self.filled == self.buffer.len() {
                let old = from.min(self.filled).saturating_sub(HISTORY);
                if old > 0 {
                    self.buffer.copy_within(old..self.filled, 0);
                    self.start += old as u64;
                    self.filled -= old;
                } else {
                    // A look further ahead than the buffer is long.
                    self.buffer.resize(self.buffer.len() * 2, 0);
                }
            }
            let free = self.buffer.get_mut(self.filled..).unwrap_or_default();
            match reader.read(free) {
                Ok(0) => self.ended = true,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn read_full(into: &mut [u8], at: u64, read: impl Fn(&mut [u8], u64) -> io::Result<usize>) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(free) = into.get_mut(filled..).filter(|free| !free.is_empty()) {
        match read(free, at + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
