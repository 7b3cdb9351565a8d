//! What the guard judges by policy: statements whose rows cannot be checked, and what they set beside rows.

use rowlock_footprint::{Dialect, Effect, Setting, Verb};

use crate::{engine::Engine, error::Error, footing::Checked, inner::Inner};

impl<E: Engine> Inner<E> {
    /// What has no rows that could be checked, by policy.
    pub(crate) fn judge_unseen(&mut self, checked: &Checked, sql: &str) -> Result<(), Error> {
        match checked.verb {
            // At every level of the guard: what would be told as committed would not be, and a connection would return to the
            // pool in a transaction.
            Verb::TransactionControl => {
                return Err(self.refuse(
                    sql,
                    "BEGIN, COMMIT, ROLLBACK, SAVEPOINT and SET TRANSACTION are rowlock's to send; return from the closure, or use \
                     `tx.savepoint()` and `.isolation(..)`"
                        .into(),
                ));
            }
            Verb::TableLock if self.dialect().is_innodb() && !is_temporary(sql) => self.judge(crate::Policy::Refuse, sql, || {
                "MySQL and MariaDB commit the transaction before they run it, and what follows is outside; run it on its own".into()
            })?,
            Verb::TableLock => self.judge(self.options.opaque, sql, || {
                "it locks whole tables, which no row order covers; run it outside, or allow it with `.opaque(Policy::Allow)`".into()
            })?,
            Verb::Opaque => self.judge(self.options.opaque, sql, || {
                "what it locks cannot be seen; allow it with `.opaque(Policy::Allow)` if it keeps the order".into()
            })?,
            Verb::Session | Verb::Read | Verb::Write => {}
        }
        self.judge_settings(&checked.settings, sql)?;
        for name in &checked.opaque {
            self.judge(self.options.opaque, sql, || {
                format!("`{name}` runs code that may lock more; allow it with `.opaque(Policy::Allow)` if it keeps the order")
            })?;
        }
        for (rank, view) in &checked.through {
            let (name, table) = (self.resource(*rank).name, &self.model.targets[usize::from(*rank)].name);
            self.judge(crate::Policy::Refuse, sql, || {
                format!(
                    "it locks rows of `{name}` through the view `{view}`, and which they are is not in its text: write `{table}` in place of \
                     the view"
                )
            })?;
        }
        for table in &checked.temporary {
            if let Some(name) = self.model.hidden_by(table) {
                return Err(self.refuse(
                    sql,
                    format!("a temporary table `{table}` would hide that of `{name}`, and statements would be about its rows; give it another name"),
                ));
            }
            self.temporary.push(table.clone());
        }
        for table in checked.undeclared.iter().filter(|table| !self.temporary.iter().any(|t| t.name == table.name)) {
            self.judge(self.options.undeclared, sql, || {
                format!("it locks rows of `{table}`, which is not in the order; declare it in `lock_order!`, or allow it with `.undeclared(Policy::Allow)`")
            })?;
        }
        Ok(())
    }

    /// What a statement sets beyond its own rows.
    fn judge_settings(&self, settings: &[Setting], sql: &str) -> Result<(), Error> {
        // At every level of the guard: rowlock's own statements name their tables in full, the author's go by what names
        // mean, and from here on the two would be about different rows.
        if let Some(Setting { name, .. }) = settings.iter().find(|setting| setting.effect == Effect::Names) {
            return Err(self.refuse(
                sql,
                format!(
                    "`{name}` changes what names mean, and the order was resolved by what they meant at start: open one `Db` for \
                     each schema, database or role, on a pool whose connections have it from the start (connect options, \
                     `after_connect`), or write names in full"
                ),
            ));
        }
        for Setting { name, .. } in settings {
            let local = if self.dialect() == Dialect::Postgres { "use `SET LOCAL`, " } else { "" };
            self.judge(crate::Policy::Refuse, sql, || {
                format!(
                    "`{name}` would stay set for whoever has this connection next: {local}set it where the pool makes its \
                     connections (connect options, `after_connect`), or, for isolation and limits, use `.isolation(..)` or \
                     `.wait(..)` of the kind"
                )
            })?;
        }
        if !settings.is_empty() {
            // Let pass, it is known again when the connection is asked anew.
            self.shared.sessions.forget_all();
        }
        Ok(())
    }
}

/// CREATE and DROP TEMPORARY TABLE are the only statements on whole tables before which InnoDB does not commit.
fn is_temporary(sql: &str) -> bool {
    sql.split_whitespace().nth(1).is_some_and(|word| word.eq_ignore_ascii_case("temporary"))
}
