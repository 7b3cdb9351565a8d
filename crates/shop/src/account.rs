//! Accounts and the money between them: none is made and none is lost.

use std::collections::BTreeMap;

use rowlock::{Before, Db, Tx};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};

use crate::error::{Error, Result};
use crate::locks;
use crate::order::{Line, MAX_AMOUNT, new_id, now};
use crate::sql::{locked, locked_changes, query};
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

/// What came of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// The payer has paid every seller.
    Done,
    /// Nothing was moved: the payer holds less.
    Insufficient {
        /// What the payer holds.
        balance: i64,
    },
}

/// The payer pays each line's seller: all of it, or nothing.
pub async fn charge<E: Store, L: Before<locks::Account>>(
    tx: Tx<E, L>,
    payer: i64,
    total: i64,
    lines: &[Line],
) -> Result<(Tx<E, locks::Account>, Charge)> {
    let (mut tx, accounts) = lock(tx, payer, lines).await?;
    let balance = find(&accounts, "account", payer)?.balance;
    if balance < total {
        return Ok((tx, Charge::Insufficient { balance }));
    }
    settle(&mut tx, &accounts, shares(payer, total, lines)).await?;
    Ok((tx, Charge::Done))
}

/// Each line's seller pays the payer back.
pub async fn refund<E: Store, L: Before<locks::Account>>(
    tx: Tx<E, L>,
    payer: i64,
    total: i64,
    lines: &[Line],
) -> Result<Tx<E, locks::Account>> {
    let (mut tx, accounts) = lock(tx, payer, lines).await?;
    let back = shares(payer, total, lines).into_iter().map(|(account, by)| (account, -by)).collect();
    settle(&mut tx, &accounts, back).await?;
    Ok(tx)
}

/// Moves money from one account to another.
pub async fn transfer<E: Store>(db: &Db<E>, new: &NewTransfer) -> Result<Transfer> {
    let NewTransfer { from, to, amount } = *new;
    let id = new_id();
    db.kind("transfer")
        .commit_token(true)
        .transaction(async |tx| {
            let (mut tx, accounts) = tx.lock::<locks::Account>([from, to]).existing().fetch_all::<Account>().await?;
            find(&accounts, "from", from)?;
            find(&accounts, "to", to)?;
            settle(&mut tx, &accounts, BTreeMap::from([(from, -amount), (to, amount)])).await?;
            locked::<E>(RECORD_TRANSFER).bind(id).bind(from).bind(to).bind(amount).bind(now()).execute(&mut tx).await?;
            Ok(Transfer { id, from, to, amount })
        })
        .await
}

/// Locks the payer and the sellers of lines.
async fn lock<E: Store, L: Before<locks::Account>>(
    tx: Tx<E, L>,
    payer: i64,
    lines: &[Line],
) -> Result<(Tx<E, locks::Account>, Vec<Account>)> {
    let everyone = lines.iter().map(|line| line.seller).chain([payer]);
    Ok(tx.lock::<locks::Account>(everyone).existing().fetch_all().await?)
}

/// Who gains how much when a payer pays the sellers of lines; a payer who is a seller too pays the rest only.
fn shares(payer: i64, total: i64, lines: &[Line]) -> BTreeMap<i64, i64> {
    let mut shares = BTreeMap::from([(payer, -total)]);
    for line in lines {
        *shares.entry(line.seller).or_default() += line.amount();
    }
    shares
}

/// Moves money between locked accounts. What it adds up to is nothing.
async fn settle<E: Store, L>(tx: &mut Tx<E, L>, accounts: &[Account], shares: BTreeMap<i64, i64>) -> Result<()> {
    for (&id, &by) in &shares {
        let balance = find(accounts, "account", id)?.balance;
        if balance + by < 0 {
            return Err(Error::Insufficient { account: id, wanted: -by, balance });
        }
        if balance + by > MAX_BALANCE {
            return Err(Error::Full { what: "account", id, limit: MAX_BALANCE });
        }
    }
    let shares: Vec<_> = shares.into_iter().collect();
    let change = "update accounts set balance = balance + {by} where id in ({list})";
    locked_changes::<E>(change, &shares).execute(tx).await?;
    Ok(())
}

/// One of the locked accounts, which are in the order of their ids.
fn find<'a>(accounts: &'a [Account], at: &str, id: i64) -> Result<&'a Account> {
    match accounts.binary_search_by_key(&id, |account| account.id) {
        Ok(found) => Ok(&accounts[found]),
        Err(_) => Err(Error::invalid(at, format!("there is no account {id}"))),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_nothing() {
        let line = |seller, price| Line { line: 1, item: 1, quantity: 2, price, seller };
        let lines = [line(7, 10), line(8, 5), line(7, 1)];
        assert_eq!(shares(9, 32, &lines), BTreeMap::from([(7, 22), (8, 10), (9, -32)]));
        assert_eq!(shares(7, 32, &lines), BTreeMap::from([(7, -10), (8, 10)]));
    }
}
