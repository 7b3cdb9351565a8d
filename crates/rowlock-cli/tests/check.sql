-- rowlock: engine postgres
-- rowlock: schema
create table orders (id bigint primary key, status text not null);
create table stock (id bigint primary key, n int not null);
-- rowlock: transaction api
begin;
update orders set status = 'paid' where id = 1;
update stock set n = n - 1 where id = 20;
commit;
-- rowlock: transaction batch
begin;
update stock set n = 5 where id = 20;
update orders set status = 'late' where id = 1;
commit;
