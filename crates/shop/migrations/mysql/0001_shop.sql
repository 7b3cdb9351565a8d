-- The shop's tables. MySQL and MariaDB. (InnoDB ignores a reference that is written beside its column.)
--
-- Amounts are in the smallest unit of one currency, quantities in pieces, times in milliseconds since 1970 (UTC).
-- The checks are a backstop: the shop decides before it writes, and a write that they stop is a defect.

create table accounts (
    id      bigint primary key,
    -- What was put in when the account was opened: the sum of all balances is the sum of this, always.
    funded  bigint not null check (funded >= 0),
    balance bigint not null check (balance >= 0)
) engine = innodb default character set utf8mb4;

create table inventories (
    id        bigint primary key,
    name      varchar(255) not null,
    seller    bigint not null,
    price     bigint not null check (price > 0),
    -- Everything that ever came in is in one of three states: stock + reserved + sold = delivered.
    delivered bigint not null check (delivered >= 0),
    stock     bigint not null check (stock >= 0),
    reserved  bigint not null check (reserved >= 0),
    sold      bigint not null check (sold >= 0),
    foreign key (seller) references accounts (id)
) engine = innodb default character set utf8mb4;

-- No foreign key from account to accounts, on purpose: its check would lock the account when the order is written,
-- before the stock, and everything else locks stock before accounts. Accounts are never deleted.
create table orders (
    id        bigint primary key,
    account   bigint not null,
    status    varchar(16) not null check (status in ('open', 'paid', 'cancelled', 'expired')),
    total     bigint not null check (total >= 0),
    placed_at bigint not null
) engine = innodb default character set utf8mb4;

-- What the batch looks for: unpaid orders, oldest first.
create index orders_by_age on orders (status, placed_at);

create table order_lines (
    order_id bigint not null,
    line     bigint not null,
    item     bigint not null,
    quantity bigint not null check (quantity > 0),
    -- The price at the time of the order.
    price    bigint not null check (price > 0),
    primary key (order_id, line),
    foreign key (order_id) references orders (id),
    foreign key (item) references inventories (id)
) engine = innodb default character set utf8mb4;

create table transfers (
    id      bigint primary key,
    payer   bigint not null,
    payee   bigint not null,
    amount  bigint not null check (amount > 0),
    made_at bigint not null
) engine = innodb default character set utf8mb4;

-- One payment an order at most. Sellers are paid line by line; the lines say whom.
create table payments (
    order_id    bigint primary key,
    account     bigint not null,
    amount      bigint not null check (amount >= 0),
    status      varchar(16) not null check (status in ('captured', 'refunded')),
    captured_at bigint not null,
    foreign key (order_id) references orders (id)
) engine = innodb default character set utf8mb4;

-- Webhook events: each once, with the answer that the first delivery got. Ids are compared byte by byte, to the last
-- blank; the two servers name that collation differently, and each reads only its own of these comments.
create table events (
    id          varchar(255) character set utf8mb4 collate /*!80000 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ primary key,
    type        varchar(255) not null,
    order_id    bigint,
    outcome     varchar(16) not null,
    received_at bigint not null
) engine = innodb default character set utf8mb4;
