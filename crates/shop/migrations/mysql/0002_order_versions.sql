-- An order is edited from the version that was read, or not at all. Whatever changes an order or its lines raises its
-- version.

alter table orders
    add column note varchar(500) not null default '',
    add column version bigint not null default 0;
