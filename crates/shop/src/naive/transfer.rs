//! Money by read, compute, write back.

use crate::account::{Account, MAX_BALANCE, NewTransfer, RECORD_TRANSFER, Transfer};
use crate::error::{Error, Result};
use crate::order::{Line, new_id, now};
use crate::sql::query;
use crate::store::{self, Store};

/// A transfer that reads both balances without a lock and writes them back: of two at once, one is lost.
pub async fn transfer<E: Store>(pool: &sqlx::Pool<E>, new: &NewTransfer) -> Result<Transfer> {
    let mut tx = pool.begin().await?;
    let payer = read::<E>(&mut tx, "from", new.from).await?;
    let payee = read::<E>(&mut tx, "to", new.to).await?;
    write::<E>(&mut tx, payer.id, less(payer, new.amount)?).await?;
    write::<E>(&mut tx, payee.id, more(payee, new.amount)?).await?;
    let made = Transfer { id: new_id(), from: new.from, to: new.to, amount: new.amount };
    let insert = query::<E>(RECORD_TRANSFER).bind(made.id).bind(made.from).bind(made.to).bind(made.amount).bind(now());
    E::execute(&mut tx, insert).await?;
    tx.commit().await?;
    Ok(made)
}

/// The payer pays each line's seller: the payer's row first, then the sellers' in the order of the lines.
pub(crate) async fn charge<E: Store>(conn: &mut E::Connection, account: i64, total: i64, lines: &[Line]) -> Result<()> {
    let payer = lock::<E>(conn, account).await?;
    write::<E>(conn, account, less(payer, total)?).await?;
    for line in lines {
        let seller = lock::<E>(conn, line.seller).await?;
        write::<E>(conn, seller.id, more(seller, line.amount())?).await?;
    }
    Ok(())
}

/// The sellers pay back, in the order of the lines; the payer's row is last.
pub(crate) async fn refund<E: Store>(conn: &mut E::Connection, account: i64, total: i64, lines: &[Line]) -> Result<()> {
    for line in lines {
        let seller = lock::<E>(conn, line.seller).await?;
        write::<E>(conn, seller.id, less(seller, line.amount())?).await?;
    }
    let payer = lock::<E>(conn, account).await?;
    write::<E>(conn, account, more(payer, total)?).await
}

fn less(account: Account, amount: i64) -> Result<i64> {
    if account.balance < amount {
        return Err(Error::Insufficient { account: account.id, wanted: amount, balance: account.balance });
    }
    Ok(account.balance - amount)
}

fn more(account: Account, amount: i64) -> Result<i64> {
    let balance = account.balance + amount;
    if balance > MAX_BALANCE {
        return Err(Error::Full { what: "account", id: account.id, limit: MAX_BALANCE });
    }
    Ok(balance)
}

async fn read<E: Store>(conn: &mut E::Connection, at: &str, id: i64) -> Result<Account> {
    let select = query("select id, funded, balance from accounts where id = ?").bind(id);
    store::row(conn, select).await?.ok_or_else(|| Error::invalid(at, format!("there is no account {id}")))
}

async fn lock<E: Store>(conn: &mut E::Connection, id: i64) -> Result<Account> {
    let select = query("select id, funded, balance from accounts where id = ? {for update}").bind(id);
    store::row(conn, select).await?.ok_or_else(|| Error::invalid("account", format!("there is no account {id}")))
}

async fn write<E: Store>(conn: &mut E::Connection, id: i64, balance: i64) -> Result<()> {
    E::execute(conn, query("update accounts set balance = ? where id = ?").bind(balance).bind(id)).await?;
    Ok(())
}
