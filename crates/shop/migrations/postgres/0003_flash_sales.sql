-- Flash sales. The ledger is rowlock's (see rowlock::ledger_sql): a row for each request, written with the stock that it took.
-- A granted request becomes an order, whose `request` is the ledger's, so that it becomes one order only. Stock that was
-- granted and has no order yet is counted by these two: a crash in between leaves it, and the next start finishes it.
-- Rows of the ledger stay as long as the orders do.

CREATE TABLE IF NOT EXISTS "flash_ledger" (request text COLLATE "C" PRIMARY KEY NOT NULL, place text COLLATE "C" NOT NULL, quantity bigint NOT NULL, outcome smallint NOT NULL, value bigint, made_at timestamptz NOT NULL DEFAULT now());

alter table orders add column request text collate "C";
create unique index orders_by_request on orders (request) where request is not null;
