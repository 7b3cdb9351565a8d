//! PostgreSQL's words in the languages that it is translated to, as its message catalogs have them (version 15). Polish and
//! Portuguese, which have no catalog there, are as people's copies of errors show them. Only what cannot be told by structure: see [`edge`](super::edge).

/// The words of one language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Language {
    /// `deadlock detected`. What has a word in common with another row's must stand before it.
    pub(crate) deadlock: &'static str,
    /// ERROR, DETAIL, HINT, CONTEXT, STATEMENT.
    pub(crate) labels: [&'static str; 5],
    /// The word of `log_statement`'s records.
    pub(crate) statement: &'static str,
    /// In CONTEXT: what tells that a key was being inserted; updated; deleted; locked.
    pub(crate) acts: [&'static str; 4],
}

pub(crate) const ENGLISH: Language = Language {
    deadlock: "deadlock detected",
    labels: ["ERROR", "DETAIL", "HINT", "CONTEXT", "STATEMENT"],
    statement: "statement",
    acts: ["inserting index", "updating", "deleting", "locking"],
};

/// All but English.
pub(crate) const LANGUAGES: [Language; 13] = [
    Language {
        deadlock: "Verklemmung (Deadlock) entdeckt",
        labels: ["FEHLER", "DETAIL", "TIPP", "ZUSAMMENHANG", "ANWEISUNG"],
        statement: "Anweisung",
        acts: ["Einfügen von Index", "Aktualisieren", "Löschen", "Sperren"],
    },
    Language {
        deadlock: "se ha detectado un deadlock",
        labels: ["ERROR", "DETALLE", "SUGERENCIA", "CONTEXTO", "SENTENCIA"],
        statement: "sentencia",
        acts: ["insertaba la tupla de índice", "actualizaba", "borraba", "bloqueaba"],
    },
    Language {
        deadlock: "interblocage (deadlock) détecté",
        labels: ["ERREUR", "DÉTAIL", "ASTUCE", "CONTEXTE", "INSTRUCTION"],
        statement: "instruction",
        acts: ["insertion de l'enregistrement", "mise à jour", "suppression", "verrouillage"],
    },
    Language {
        deadlock: "rilevato deadlock",
        labels: ["ERRORE", "DETTAGLI", "SUGGERIMENTO", "CONTESTO", "ISTRUZIONE"],
        statement: "istruzione",
        acts: ["inserimento della tupla di indice", "modifica", "eliminazione", "blocco"],
    },
    Language {
        deadlock: "デッドロックを検出しました",
        labels: ["ERROR", "詳細", "ヒント", "文脈", "文"],
        statement: "文",
        acts: ["挿入中", "更新中", "削除中", "ロック中"],
    },
    Language {
        deadlock: "ნაპოვნია ურთიერთბლოკირება",
        labels: ["შეცდომა", "დეტალები", "მინიშნება", "კონტექსტი", "ოპერატორი"],
        statement: "ოპერატორი",
        acts: ["inserting index", "განახლებისას", "წაშლისას", "დაბლოკვისას"],
    },
    Language {
        deadlock: "deadlock 발생했음",
        labels: ["오류", "상세정보", "힌트", "내용", "명령 구문"],
        statement: "명령 구문",
        acts: ["삽입하는", "갱신하는", "삭제하는", "잠그는"],
    },
    Language {
        deadlock: "обнаружена взаимоблокировка",
        labels: ["ОШИБКА", "ПОДРОБНОСТИ", "ПОДСКАЗКА", "КОНТЕКСТ", "ОПЕРАТОР"],
        statement: "оператор",
        acts: ["добавлении кортежа индекса", "изменении", "удалении", "блокировке"],
    },
    Language {
        deadlock: "deadlock upptäckt",
        labels: ["FEL", "DETALJ", "TIPS", "KONTEXT", "SATS"],
        statement: "sats",
        acts: ["insättning av index", "uppdatering", "borttagning", "låsning"],
    },
    Language {
        deadlock: "виявлено взаємне блокування",
        labels: ["ПОМИЛКА", "ВІДОМОСТІ", "УКАЗІВКА", "КОНТЕКСТ", "ІНСТРУКЦІЯ"],
        statement: "оператор",
        acts: ["вставці кортежу індексу", "оновленні", "видаленні", "блокуванні"],
    },
    Language {
        deadlock: "检测到死锁",
        labels: ["错误", "详细信息", "提示", "上下文", "语句"],
        statement: "语句",
        acts: ["插入索引元组", "更新关系", "删除关系", "锁定关系"],
    },
    Language {
        deadlock: "wykryto zakleszczenie",
        labels: ["BŁĄD", "SZCZEGÓŁY", "PODPOWIEDŹ", "KONTEKST", "WYRAŻENIE"],
        statement: "wyrażenie",
        acts: ["wstawiania krotki indeksu", "modyfikacji", "usuwania", "blokowania"],
    },
    Language {
        deadlock: "impasse detectado",
        labels: ["ERRO", "DETALHE", "DICA", "CONTEXTO", "COMANDO"],
        statement: "comando",
        acts: ["inserir tupla do índice", "atualizar", "excluir", "bloquear"],
    },
];
