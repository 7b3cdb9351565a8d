-- Flash sales. The ledger is rowlock's (see rowlock::ledger_sql): a row for each request, written with the stock that it took.
-- A granted request becomes an order, whose `request` is the ledger's, so that it becomes one order only. Stock that was
-- granted and has no order yet is counted by these two: a crash in between leaves it, and the next start finishes it.
-- Rows of the ledger stay as long as the orders do.

CREATE TABLE IF NOT EXISTS `flash_ledger` (request varbinary(255) PRIMARY KEY NOT NULL, place text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, quantity bigint NOT NULL, outcome smallint NOT NULL, value bigint, made_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP) ENGINE=InnoDB;

alter table orders add column request varbinary(255);
create unique index orders_by_request on orders (request);
