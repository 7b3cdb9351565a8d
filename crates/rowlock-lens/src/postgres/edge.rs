//! `Process 1 waits for ShareLock on transaction 2; blocked by process 3.`, in any language, told by its structure: every
//! translation begins with the waiting process and ends with the blocking one, and lock modes are not translated. The
//! numbers between are the lock's object; how many there are, and in which brackets, tells its kind.

use std::sync::LazyLock;

use regex::Regex;

use crate::report::{Certainty, LockRef, Object, Row};

/// Longer than any edge, in bytes: what is longer is a statement.
const LONGEST: usize = 400;

/// One process waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) waiter: u64,
    pub(crate) blocker: u64,
    pub(crate) lock: LockRef,
}

// What is compiled here is constant; a pattern that did not compile would fail every test.
static ENGLISH: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"Process\s+(\d+)\s+waits\s+for\s+(\w+)\s+on\s+([^;]{1,200});\s*blocked\s+by\s+process\s+(\d+)").ok()
});
static MODE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[A-Z][A-Za-z]*Lock").ok());
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d+").ok());

/// All edges in a text, in their order, without repeats.
pub(crate) fn edges(text: &str) -> Vec<Edge> {
    let mut edges: Vec<Edge> = ENGLISH
        .iter()
        .flat_map(|regex| regex.captures_iter(text))
        .filter_map(|found| {
            let part = |n: usize| found.get(n).map(|part| part.as_str());
            Some(Edge {
                waiter: part(1)?.parse().ok()?,
                blocker: part(4)?.parse().ok()?,
                lock: lock(part(2)?, part(3)?),
            })
        })
        .collect();
    if edges.is_empty() {
        // Copies on one line have a full stop between two edges.
        edges = text.split(['\n', '。']).flat_map(|line| line.split(". ")).filter_map(by_structure).collect();
    }
    let mut seen: Vec<Edge> = Vec::new();
    for edge in edges {
        if !seen.contains(&edge) {
            seen.push(edge);
        }
    }
    seen
}

fn by_structure(line: &str) -> Option<Edge> {
    if line.len() > LONGEST {
        return None;
    }
    let mode = MODE.as_ref()?.find(line)?;
    let numbers: Vec<_> = NUMBER.as_ref()?.find_iter(line).collect();
    let ([first, .., last], true) = (&numbers[..], numbers.len() >= 3) else { return None };
    let object = format!(
        "{} {}",
        line.get(first.end()..mode.start()).unwrap_or_default(),
        line.get(mode.end().max(first.end())..last.start()).unwrap_or_default()
    );
    let (waiter, blocker) = (first.as_str().parse().ok()?, last.as_str().parse().ok()?);
    Some(Edge { waiter, blocker, lock: lock(mode.as_str(), &object) })
}

/// A lock's object, from the server's description of it.
pub(crate) fn lock(mode: &str, text: &str) -> LockRef {
    LockRef { object: object(text), mode: mode.to_owned(), certainty: Certainty::Known }
}

fn object(text: &str) -> Object {
    let numbers: Vec<&str> = NUMBER.iter().flat_map(|regex| regex.find_iter(text)).map(|n| n.as_str()).collect();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // Japanese and Chinese name the database first, in the order in which they name things; the numbers come reversed.
    let reversed = has(&["データベース", "数据库"]);
    let words = || Object::Other(text.trim().trim_matches('"').split_whitespace().collect::<Vec<_>>().join(" "));
    if text.contains('[') {
        return Object::Advisory(advisory(&numbers));
    }
    match numbers[..] {
        [transaction] if !has(&["object", "locktag", "token"]) => {
            transaction.parse().map_or_else(|_| words(), Object::Transaction)
        }
        [_, _]
            if text.contains('/')
                || has(&["token", "extension", "subscription", "Token", "Erweiterung", "拡張", "投機", "扩展"]) =>
        {
            words()
        }
        [a, b] => Object::Table(format!("relation {}", if reversed { b } else { a })),
        [a, b, c, d] if text.contains('(') => {
            // Japanese swaps the two coordinates of a lock's tuple as well.
            let (block, offset, relation) = match reversed {
                true if text.contains("データベース") => (d, c, b),
                true => (c, d, b),
                false => (a, b, c),
            };
            Object::Row(Row {
                table: Some(format!("relation {relation}")),
                place: Some(format!("({block},{offset})")),
                ..Row::default()
            })
        }
        _ => words(),
    }
}

/// `[database, k1, k2, 1: bigint | 2: two integers]`, as one would write it in a call.
fn advisory(numbers: &[&str]) -> String {
    match numbers {
        [_, high, low, "1"] => {
            let half = |text: &str| text.parse::<u32>().map_or(0, i64::from);
            ((half(high) << 32) | half(low)).to_string()
        }
        [_, first, second, "2"] => format!("{first}, {second}"),
        _ => numbers.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sentence of each catalog, with the same numbers.
    const SENTENCES: [&str; 12] = [
        "Process 11 waits for ShareLock on transaction 77; blocked by process 22.",
        "Prozess 11 wartet auf ShareLock-Sperre auf Transaktion 77; blockiert von Prozess 22.",
        "El proceso 11 espera ShareLock en transacción 77; bloqueado por proceso 22.",
        "Le processus 11 attend ShareLock sur transaction 77 ; bloqué par le processus 22.",
        "Il processo 11 è in attesa di ShareLock su la transazione 77; bloccato dal processo 22.",
        "プロセス 11 は ShareLock を トランザクション 77 で待機していましたが、プロセス 22 でブロックされました",
        "11 프로세스가 ShareLock 상태로 지연되고 있음(해당 작업: 트랜잭션 77); 22 프로세스에 의해 블록킹되었음",
        "Процесс 11 ожидает в режиме ShareLock блокировку \"транзакция 77\"; заблокирован процессом 22.",
        "Process 11 väntar på ShareLock för transaktion 77; blockerad av process 22.",
        "Процес 11 очікує в режимі ShareLock блокування \"транзакція 77\"; заблокований процесом 22.",
        "进程11等待在事务 77上的ShareLock; 由进程22阻塞.",
        "DETAIL: Process 11 waits for ShareLock on transaction 77; blocked by process 22. Process 22 ..",
    ];

    #[test]
    fn an_edge_is_read_in_every_language() {
        for sentence in SENTENCES {
            let read = edges(sentence);
            let [edge] = &read[..] else { panic!("{sentence}: {read:?}") };
            assert_eq!((edge.waiter, edge.blocker), (11, 22), "{sentence}");
            assert_eq!(
                (&edge.lock.object, edge.lock.mode.as_str()),
                (&Object::Transaction(77), "ShareLock"),
                "{sentence}"
            );
        }
    }

    #[test]
    fn a_tuple_is_the_same_row_in_every_language() {
        let row = |text: &str| match object(text) {
            Object::Row(row) => format!("{} {}", row.table.unwrap_or_default(), row.place.unwrap_or_default()),
            other => panic!("{text}: {other:?}"),
        };
        for text in [
            "tuple (3,7) of relation 16384 of database 5",
            "Tupel (3, 7) von Relation 16384 von Datenbank 5",
            "データベース5のリレーション16384のタプル(7,3)",
            "数据库5的关系16384中的元组(3,7)",
            "튜플 (3,7), 릴레이션 16384, 데이터베이스 5",
        ] {
            assert_eq!(row(text), "relation 16384 (3,7)");
        }
    }

    #[test]
    fn other_objects_are_told_apart() {
        assert_eq!(object("relation 16384 of database 5"), Object::Table("relation 16384".into()));
        assert_eq!(object("データベース5のリレーション16384"), Object::Table("relation 16384".into()));
        assert_eq!(object("advisory lock [5,0,1,1]"), Object::Advisory("1".into()));
        assert_eq!(object("advisory lock [5,7,9,2]"), Object::Advisory("7, 9".into()));
        assert_eq!(object("virtual transaction 4/12"), Object::Other("virtual transaction 4/12".into()));
        assert_eq!(
            object("extension of relation 7 of database 5"),
            Object::Other("extension of relation 7 of database 5".into())
        );
        assert_eq!(object("unrecognized locktag type 8"), Object::Other("unrecognized locktag type 8".into()));
    }
}
