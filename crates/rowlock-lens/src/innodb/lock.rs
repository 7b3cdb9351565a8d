//! A lock of InnoDB's: on which record of which index of which table, how strongly, and on the gap before it or not.

use std::sync::LazyLock;

use regex::Regex;

use crate::record::{Field, Record};
use crate::report::{Certainty, LockRef, Object, Row};

/// Most records of one lock that are kept: the first ones. A report's first is the one that counts.
const MOST_RECORDS: usize = 32;

static RECORD_LOCKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r#"RECORD LOCKS\s+space id\s+(?P<space>\d+(?:\s\d+)?)\s+page no\s+(?P<page>\d+)\s+n bits\s+\d+\s+index\s+[`"]?(?P<index>[^`"\n]{1,200}?)[`"]?"#,
        r#"\s+of table\s+(?P<table>[^\n]{1,400}?)\s+trx(?: table locks \d+ total table locks \d+)?\s+id\s+(?P<trx>[0-9A-Fa-f]+(?:\s\d+)?)\s+(?P<mode>lock[_ ]mode[^\n]{0,120})"#,
    ))
    .ok()
});
static TABLE_LOCK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"TABLE LOCK\s+table\s+(?P<table>[^\n]{1,400}?)\s+trx\s+id\s+(?P<trx>[0-9A-Fa-f]+(?:\s\d+)?)\s+(?P<mode>lock[_ ]mode[^\n]{0,120})").ok()
});
static HEAP: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"Record lock,\s+heap no\s+(?P<heap>\d+)(?:[^\n]*?info bits\s+(?P<bits>\d+))?").ok());
static FIELD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?P<n>\d{1,4}):\s+(?:SQL NULL|len[ =](?P<len>\d{1,10});\s*(?:bufptr=\S+;\s*)?hex[= ]\s*(?P<hex>[0-9a-fA-F]*);)(?:[^;\n]*\(total (?P<total>\d{1,10}) bytes\))?").ok()
});

/// A lock, as dumped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) transaction: Option<String>,
    pub(super) mode: Mode,
    mode_text: String,
    table: String,
    /// Of a record's lock.
    index: Option<String>,
    page: Option<String>,
    heap: Option<String>,
    record: Option<Record>,
}

/// What a lock's words mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) exclusive: bool,
    pub(crate) shared: bool,
    pub(crate) auto_increment: bool,
    /// `locks rec but not gap`.
    pub(crate) record_only: bool,
    /// `locks gap before rec`.
    pub(crate) gap_only: bool,
    pub(crate) insert_intention: bool,
    pub(crate) waiting: bool,
}

impl Mode {
    pub(crate) fn read(text: &str) -> Mode {
        let has = |word: &str| text.contains(word);
        let letters =
            text.trim_start_matches("lock").trim_start_matches(['_', ' ']).trim_start_matches("mode").trim_start();
        Mode {
            exclusive: letters.starts_with('X') || has("conflicts with S") || has("conflicts with X"),
            shared: letters.starts_with('S'),
            auto_increment: has("AUTO-INC"),
            record_only: has("rec but not gap"),
            gap_only: has("gap before rec"),
            insert_intention: has("insert intention"),
            waiting: has("waiting"),
        }
    }

    /// Whether a wait for `wanted` must wait for `self` on the same record (`lock_rec_has_to_wait` of lock0lock.cc): a gap
    /// is held by any number, and only an insertion waits for it.
    pub(crate) fn conflicts(&self, wanted: &Mode) -> bool {
        if !(self.exclusive || wanted.exclusive) {
            return false;
        }
        if wanted.insert_intention {
            return !self.record_only && !self.insert_intention;
        }
        !self.gap_only && !wanted.gap_only
    }

    /// `X`, `S`.
    pub(crate) fn words(&self) -> &'static str {
        match (self.exclusive, self.auto_increment, self.shared) {
            (true, ..) => "X",
            (_, true, _) => "AUTO-INC",
            (_, _, true) => "S",
            _ => "it",
        }
    }
}

impl Lock {
    /// Where it is: two locks of the same place are on the same record.
    pub(super) fn place(&self) -> (&str, Option<&str>, Option<&str>) {
        (&self.table, self.page.as_deref(), self.heap.as_deref())
    }

    pub(super) fn reference(&self, certainty: Certainty) -> LockRef {
        let object = match (&self.index, &self.page) {
            (None, _) | (_, None) => Object::Table(self.table.clone()),
            (Some(index), Some(page)) => Object::Row(Row {
                table: Some(self.table.clone()),
                index: Some(index.clone()),
                place: Some(match &self.heap {
                    Some(heap) => format!("{page} heap {heap}"),
                    None => page.clone(),
                }),
                record: self.record.clone(),
                key: None,
            }),
        };
        LockRef { object, mode: self.mode_text.clone(), certainty }
    }
}

/// All locks in a text; of a record lock on several records, one for each.
pub(super) fn locks(text: &str) -> Vec<Lock> {
    let mut starts: Vec<usize> =
        text.match_indices("RECORD LOCKS").chain(text.match_indices("TABLE LOCK")).map(|(at, _)| at).collect();
    starts.sort_unstable();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.iter().zip(ends).flat_map(|(start, end)| dump(text.get(*start..end).unwrap_or_default())).collect()
}

fn dump(text: &str) -> Vec<Lock> {
    let of_records = RECORD_LOCKS.as_ref().and_then(|regex| regex.captures(text));
    let Some(found) = of_records.or_else(|| TABLE_LOCK.as_ref().and_then(|regex| regex.captures(text))) else {
        return Vec::new();
    };
    let part = |name: &str| found.name(name).map(|part| part.as_str().trim().to_owned());
    // On one line, what follows the mode is the record.
    let mode = part("mode").unwrap_or_default();
    let mode = mode.split("Record lock").next().unwrap_or_default().trim().to_owned();
    let shown = mode.trim_start_matches("lock").trim_start_matches(['_', ' ']).trim_start_matches("mode").trim();
    let lock = Lock {
        transaction: part("trx"),
        mode: Mode::read(&mode),
        mode_text: shown.trim_end_matches("waiting").trim_end().to_owned(),
        table: table(&part("table").unwrap_or_default()),
        index: part("index").map(|name| name.trim_matches('`').to_owned()),
        page: part("page").map(|page| format!("space {} page {page}", part("space").unwrap_or_default())),
        heap: None,
        record: None,
    };
    let heaps: Vec<_> = HEAP.iter().flat_map(|regex| regex.captures_iter(text)).take(MOST_RECORDS).collect();
    if heaps.is_empty() {
        return vec![lock];
    }
    let start =
        |n: usize| heaps.get(n).and_then(|h: &regex::Captures<'_>| h.get(0)).map_or(text.len(), |whole| whole.start());
    let records = heaps.iter().enumerate().map(|(n, heap)| {
        let body = text.get(heap.get(0).map_or(0, |whole| whole.end())..start(n + 1)).unwrap_or_default();
        let number = |name| heap.name(name).map(|number| number.as_str().to_owned());
        let mut record = record(body);
        record.deleted = number("bits").and_then(|bits| bits.parse::<u32>().ok()).is_some_and(|bits| bits & 32 != 0);
        record.supremum |= number("heap").as_deref() == Some("1");
        Lock { heap: number("heap"), record: Some(record), ..lock.clone() }
    });
    records.collect()
}

fn record(text: &str) -> Record {
    let mut record = Record::default();
    for found in FIELD.iter().flat_map(|regex| regex.captures_iter(text)) {
        let number = |name| found.name(name).and_then(|number| number.as_str().parse::<usize>().ok());
        // Fields come in order; what does not is of something else.
        if number("n") != Some(record.fields.len()) {
            continue;
        }
        let Some(length) = number("len") else {
            record.fields.push(Field::Null);
            continue;
        };
        let hex = found.name("hex").map(|hex| hex.as_str().as_bytes()).unwrap_or_default();
        let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or_default() as u8;
        let bytes: Vec<u8> =
            hex.chunks_exact(2).map(|pair| pair.iter().fold(0, |value, byte| (value << 4) | digit(byte))).collect();
        let total = number("total").unwrap_or(length);
        record.fields.push(Field::Bytes { bytes, total });
    }
    record.supremum = matches!(&record.fields[..], [Field::Bytes { bytes, .. }] if bytes.starts_with(b"supremum"));
    record
}

/// `db.table`, from however the version quotes it: `` `db`.`table` ``, `` `db/table` ``, `"db"."table"`; a partition's comment
/// is left out.
fn table(text: &str) -> String {
    let text = text.split("/*").next().unwrap_or_default();
    let text: String = text.chars().filter(|c| !matches!(c, '`' | '"')).collect();
    let text = text.trim();
    match text.split_once('/') {
        Some((schema, table)) if !text.contains('.') => format!("{schema}.{table}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_shared_and_keep_out_insertions() {
        let mode = Mode::read;
        let (gap, insert) = (mode("lock_mode X locks gap before rec"), mode("lock_mode X insert intention waiting"));
        assert!(gap.conflicts(&insert));
        assert!(!gap.conflicts(&gap));
        assert!(!mode("lock_mode X locks rec but not gap").conflicts(&insert));
        assert!(mode("lock mode S").conflicts(&insert));
        assert!(!mode("lock mode S").conflicts(&mode("lock mode S waiting")));
    }

    #[test]
    fn names_of_tables_in_every_version() {
        for text in [
            "`shop`.`orders`",
            "`shop/orders`",
            "\"shop\".\"orders\"",
            "`shop`.`orders` /* Partition `p0` */",
            "shop/orders",
        ] {
            assert_eq!(table(text), "shop.orders");
        }
    }

    #[test]
    fn a_record_of_any_version_is_decoded() {
        let text = "RECORD LOCKS space id 0 page no 50 n bits 72 index `PRIMARY` of table `test`.`t` trx id 0 3793488 lock_mode X locks rec but not gap waiting\n\
                    Record lock, heap no 3 PHYSICAL RECORD: n_fields 5; compact format; info bits 32 \
                    0: len 4; hex 80000002; asc     ;; 1: len 6; hex 00000039e250; asc    9 P;; 2: len 7; hex 80000000320110; asc     2  ;; \
                    3: SQL NULL; 4: len 30; hex 61616161; asc aaaa; (total 36 bytes);";
        let read = locks(text);
        let record = read[0].record.as_ref().unwrap();
        assert_eq!(read[0].transaction.as_deref(), Some("0 3793488"));
        assert_eq!(record.key().iter().map(Field::text).collect::<Vec<_>>(), ["2"]);
        assert_eq!(record.writer(), Some(0x39e250));
        assert!(record.deleted);
        assert_eq!(record.fields[3], Field::Null);
        assert_eq!(record.fields[4].text(), "aaaa..");
    }
}
