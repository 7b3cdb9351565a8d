//! Going through one input: markers, what stands at them, and what the log has before.

use std::io;

use rowlock_lens::{
    Reading, Redactor, Report, Window, begins, explain, longest_marker, look_back, markers, read, report_shape,
};

use crate::outcome::{Outcome, Place};
use crate::tape::{HISTORY, Tape};

/// What is read before a marker: its line, and a few lines for the time.
const BEFORE: u64 = 8 << 10;
/// What is read from a marker on: enough for nearly every report, and then for the longest that is believed.
const AFTER: [u64; 3] = [24 << 10, 1 << 20, 8 << 20];
/// How far a look back goes: first where most transactions begin, then as far as a stream keeps.
const BACK: [u64; 2] = [128 << 10, HISTORY as u64];

/// Looks through an input, and adds what it finds.
pub(crate) fn scan(name: &str, tape: &mut Tape, show_values: bool, outcome: &mut Outcome) -> io::Result<()> {
    let overlap = longest_marker();
    let mut scan = Scan { name, tape, show_values, at: 0, line: 1 };
    loop {
        let at = scan.at;
        let chunk = scan.tape.chunk(at, overlap)?;
        let first = if at == 0 { begins(chunk) } else { None };
        let Some(hit) = first.or_else(|| markers(chunk).next()) else {
            let seen = chunk.len();
            // A marker may begin in the last bytes.
            let keep = overlap.saturating_sub(1).min(seen);
            scan.line += lines(chunk.get(..seen - keep).unwrap_or_default());
            let ended = scan.tape.ended();
            scan.at += (seen - keep) as u64;
            if ended {
                outcome.bytes += scan.at + keep as u64;
                return Ok(());
            }
            continue;
        };
        scan.line += lines(chunk.get(..hit.at).unwrap_or_default());
        scan.at += hit.at as u64;
        scan.hit(hit.marker, outcome)?;
    }
}

struct Scan<'a> {
    name: &'a str,
    tape: &'a mut Tape,
    show_values: bool,
    /// Where the scan stands.
    at: u64,
    /// The line of `at`, from 1.
    line: u64,
}

impl Scan<'_> {
    /// Reads what stands at the marker at `self.at`, and goes behind it.
    fn hit(&mut self, marker: &'static str, outcome: &mut Outcome) -> io::Result<()> {
        let hit = self.at;
        for (attempt, after) in AFTER.into_iter().enumerate() {
            let (bytes, start, ends) = self.tape.window(hit.saturating_sub(BEFORE), hit + after)?;
            let last = attempt + 1 == AFTER.len();
            let at = hit.saturating_sub(start) as usize;
            let window = Window { bytes: &bytes, hit: at, ends: ends || last };
            let (report, range) = match read(&window, marker) {
                Reading::Cut => continue,
                Reading::Nothing => (None, at..at + marker.len()),
                Reading::Report { report, bytes } => (Some(Ok(report)), bytes),
                Reading::Unreadable { reason, bytes } => (Some(Err(reason)), bytes),
            };
            // Never back, and never to the same marker again.
            // A marker can begin with the line break that ends the report.
            let end = range.end.saturating_sub(1).max(at + marker.len()).min(bytes.len());
            let before = lines(bytes.get(range.start.min(at)..at).unwrap_or_default());
            // A marker can begin with the line break before its line.
            let first = bytes.get(at).is_some_and(|byte| *byte == b'\n');
            let place = Place {
                file: self.name.to_owned(),
                line: self.line - before.min(self.line - 1) + u64::from(first),
                byte: start + range.start as u64,
            };
            self.line += lines(bytes.get(at..end).unwrap_or_default());
            self.at = start + end as u64;
            match report {
                None => {}
                Some(Err(reason)) => outcome.unreadable(place, reason),
                Some(Ok(report)) => self.report(*report, place, outcome)?,
            }
            return Ok(());
        }
        // Not reached: the last window says that it is the end. Standing still would be worse than a marker passed over.
        self.at += marker.len() as u64;
        Ok(())
    }

    /// Counts a report, or explains it when it is the first of its shape.
    fn report(&mut self, mut report: Report, place: Place, outcome: &mut Outcome) -> io::Result<()> {
        outcome.deadlocks += 1;
        let shape = report_shape(&report);
        if outcome.groups.count(&shape, report.time.as_deref()) {
            return Ok(());
        }
        for back in BACK {
            let (before, _, _) = self.tape.window(place.byte.saturating_sub(back), place.byte)?;
            let mut looked = report.clone();
            let whole = look_back(&mut looked, &before);
            if whole || back == HISTORY as u64 || back >= place.byte {
                report = looked;
                break;
            }
        }
        let finding = explain(&report, &mut Redactor::new(self.show_values));
        outcome.groups.add(shape, finding, place);
        Ok(())
    }
}

fn lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
