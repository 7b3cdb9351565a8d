-- The shop's tables. SQLite.
--
-- Amounts are in the smallest unit of one currency, quantities in pieces, times in milliseconds since 1970 (UTC).
-- The checks are a backstop: the shop decides before it writes, and a write that they stop is a defect.

create table accounts (
    id      integer primary key,
    -- What was put in when the account was opened: the sum of all balances is the sum of this, always.
    funded  integer not null check (funded >= 0),
    balance integer not null check (balance >= 0)
) strict;

create table inventories (
    id        integer primary key,
    name      text not null,
    seller    integer not null references accounts,
    price     integer not null check (price > 0),
    -- Everything that ever came in is in one of three states: stock + reserved + sold = delivered.
    delivered integer not null check (delivered >= 0),
    stock     integer not null check (stock >= 0),
    reserved  integer not null check (reserved >= 0),
    sold      integer not null check (sold >= 0)
) strict;

-- No foreign key from account to accounts, on purpose: its check would lock the account when the order is written,
-- before the stock, and everything else locks stock before accounts. Accounts are never deleted.
create table orders (
    id        integer primary key,
    account   integer not null,
    status    text not null check (status in ('open', 'paid', 'cancelled', 'expired')),
    total     integer not null check (total >= 0),
    placed_at integer not null
) strict;

-- What the batch looks for: unpaid orders, oldest first.
create index orders_by_age on orders (status, placed_at);

create table order_lines (
    order_id integer not null references orders,
    line     integer not null,
    item     integer not null references inventories,
    quantity integer not null check (quantity > 0),
    -- The price at the time of the order.
    price    integer not null check (price > 0),
    primary key (order_id, line)
) strict;

create table transfers (
    id      integer primary key,
    payer   integer not null,
    payee   integer not null,
    amount  integer not null check (amount > 0),
    made_at integer not null
) strict;

-- One payment an order at most. Sellers are paid line by line; the lines say whom.
create table payments (
    order_id    integer primary key references orders,
    account     integer not null,
    amount      integer not null check (amount >= 0),
    status      text not null check (status in ('captured', 'refunded')),
    captured_at integer not null
) strict;

-- Webhook events: each once, with the answer that the first delivery got.
create table events (
    id          text not null primary key,
    type        text not null,
    order_id    integer,
    outcome     text not null,
    received_at integer not null
) strict;
