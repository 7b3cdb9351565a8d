//! Opening inputs: plain files, standard input, pipes, and what gzip or zstd compressed, told by its first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::progress;
use crate::tape::Tape;

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What a frame is decoded by.
const CHUNK: usize = 256 << 10;
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Opens an input; `-` is standard input.
pub(crate) fn open(name: &str) -> Result<Tape> {
    if name == "-" {
        return stream(Box::new(io::stdin().lock()), ProgressBar::hidden()).context("read standard input");
    }
    let file = File::open(name).with_context(|| format!("open {name}"))?;
    let metadata = file.metadata().with_context(|| format!("look at {name}"))?;
    if metadata.is_dir() {
        anyhow::bail!("{name} is a directory: name the files in it ({name}/*)");
    }
    let bar = progress::bar(name, metadata.len());
    let mut head = [0; 4];
    if metadata.is_file() {
        let read = file.read_at(&mut head, 0).with_context(|| format!("read {name}"))?;
        if !is_compressed(head.get(..read).unwrap_or_default()) {
            return Ok(Tape::of_file(file, bar));
        }
    }
    stream(Box::new(file), bar).with_context(|| format!("read {name}"))
}

fn is_compressed(head: &[u8]) -> bool {
    head.starts_with(&GZIP) || head.starts_with(&ZSTD)
}

fn stream(mut reader: Box<dyn Read>, bar: ProgressBar) -> io::Result<Tape> {
    let mut head = Vec::new();
    reader.by_ref().take(4).read_to_end(&mut head)?;
    let (gzip, zstd) = (head.starts_with(&GZIP), head.starts_with(&ZSTD));
    let whole = BufReader::with_capacity(1 << 18, bar.wrap_read(Cursor::new(head).chain(reader)));
    let reader: Box<dyn Read> = match (gzip, zstd) {
        (true, _) => Box::new(MultiGzDecoder::new(whole)),
        (_, true) => Box::new(Zstd { source: whole, frame: FrameDecoder::new(), open: false }),
        _ => Box::new(whole),
    };
    Ok(Tape::of_stream(reader, bar))
}

/// All frames of a zstd file, one after the other.
struct Zstd<R> {
    source: R,
    frame: FrameDecoder,
    /// `frame` is in the middle of one.
    open: bool,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let invalid = |error: FrameDecoderError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        loop {
            let read = if self.open { self.frame.read(into)? } else { 0 };
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            if self.open && !self.frame.is_finished() {
                self.frame.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBytes(CHUNK)).map_err(invalid)?;
                continue;
            }
            self.open = false;
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.frame.init(&mut self.source) {
                Ok(()) => self.open = true,
                // pzstd puts sizes into frames that are to be skipped.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(invalid(error)),
            }
        }
    }
}
