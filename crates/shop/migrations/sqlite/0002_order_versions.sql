-- An order is edited from the version that was read, or not at all. Whatever changes an order or its lines raises its
-- version.

alter table orders add column note text not null default '';
alter table orders add column version integer not null default 0;
