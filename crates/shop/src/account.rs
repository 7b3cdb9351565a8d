//! Accounts and the money between them: none is made and none is lost.

use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};

use crate::error::{Error, Result};
use crate::order::{MAX_AMOUNT, new_id};
use crate::sql::query;
use crate::store::{self, Store};

/// The most that one account may hold.
pub const MAX_BALANCE: i64 = 1_000_000_000_000_000;

/// An account as it is opened.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// What is put in.
    pub balance: i64,
}

/// Money from one account to another.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewTransfer {
    /// Who pays.
    pub from: i64,
    /// Who is paid.
    pub to: i64,
    /// How much.
    pub amount: i64,
}

impl NewTransfer {
    /// Whether it can be one at all.
    pub fn check(&self) -> Result<()> {
        if !(1..=MAX_AMOUNT).contains(&self.amount) {
            return Err(Error::invalid("amount", format!("{} is not from 1 to {MAX_AMOUNT}", self.amount)));
        }
        if self.from == self.to {
            return Err(Error::invalid("to", "is the account that pays"));
        }
        Ok(())
    }
}

/// A transfer that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transfer {
    /// Random, within what a JSON number holds exactly.
    pub id: i64,
    /// Who paid.
    pub from: i64,
    /// Who was paid.
    pub to: i64,
    /// How much.
    pub amount: i64,
}

/// An account as it is kept.
#[derive(Clone, Copy, Debug, FromRow, Serialize, Deserialize, PartialEq, Eq)]
pub struct Account {
    /// Random, within what a JSON number holds exactly.
    pub id: i64,
    /// What was put in when it was opened.
    pub funded: i64,
    /// What it holds.
    pub balance: i64,
}

pub(crate) const RECORD_TRANSFER: &str =
    "insert into transfers (id, payer, payee, amount, made_at) values (?, ?, ?, ?, ?)";

/// Opens an account. One new row, one statement: nothing is locked that anyone could hold.
pub async fn create<E: Store>(pool: &Pool<E>, new: NewAccount) -> Result<Account> {
    if !(0..=MAX_AMOUNT).contains(&new.balance) {
        return Err(Error::invalid("balance", format!("{} is not from 0 to {MAX_AMOUNT}", new.balance)));
    }
    let account = Account { id: new_id(), funded: new.balance, balance: new.balance };
    let insert = query::<E>("insert into accounts (id, funded, balance) values (?, ?, ?)");
    let mut conn = pool.acquire().await?;
    E::execute(&mut conn, insert.bind(account.id).bind(account.funded).bind(account.balance)).await?;
    Ok(account)
}

/// One account.
pub async fn read<E: Store>(pool: &Pool<E>, id: i64) -> Result<Account> {
    let mut conn = pool.acquire().await?;
    let select = query("select id, funded, balance from accounts where id = ?").bind(id);
    store::row::<E, _>(&mut conn, select).await?.ok_or(Error::NotFound { what: "account", id })
}

/// Accounts after an id, in the order of their ids.
pub async fn list<E: Store>(pool: &Pool<E>, after: i64, limit: i64) -> Result<Vec<Account>> {
    let mut conn = pool.acquire().await?;
    let select = query("select id, funded, balance from accounts where id > ? order by id limit ?");
    Ok(store::rows::<E, _>(&mut conn, select.bind(after).bind(limit)).await?)
}
