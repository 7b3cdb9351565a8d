-- Flash sales. The ledger is rowlock's (see rowlock::ledger_sql): a row for each request, written with the stock that it took.
-- A granted request becomes an order, whose `request` is the ledger's, so that it becomes one order only. Stock that was
-- granted and has no order yet is counted by these two: a crash in between leaves it, and the next start finishes it.
-- Rows of the ledger stay as long as the orders do.

CREATE TABLE IF NOT EXISTS "flash_ledger" (request text PRIMARY KEY NOT NULL, place text NOT NULL, quantity integer NOT NULL, outcome smallint NOT NULL, value integer, made_at text NOT NULL DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID;

alter table orders add column request text;
create unique index orders_by_request on orders (request) where request is not null;
