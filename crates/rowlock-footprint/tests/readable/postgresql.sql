update orders set status = 'x' where current of c
insert into orders (id) values (1) on conflict (id) where status = 'x' do update set status = 'y'
update orders set status = 'x' where id = 1 returning old.status, new.status
merge into inventories t using inventories s on t.id = s.id when matched then do nothing returning t.*
merge into inventories t using inventories s on t.id = s.id when not matched by source then delete
select distinct on (id) * from orders where created < now() - interval '1 day' for update
select data->'a'->>'b', data @> '{"a":1}', data ? 'x', data ?| array['a'] from orders
select * from orders where reference ilike '%x' and ts at time zone 'utc' > $1 for update
select count(*) filter (where id > 1), percentile_cont(0.5) within group (order by id) from orders
select * from orders o, lateral (select * from order_lines l where l.order_id = o.id limit 1) x
select * from orders tablesample system (1)
select a, b from x group by grouping sets ((a), (b))
select * from orders order by id fetch first 5 rows only for update
select row_number() over w from orders window w as (partition by id)
select array(select id from orders), e'a\nb', 1::numeric(10,2), '{}'::jsonb
select * from only orders where reference collate "C" = 'x' for update
insert into orders overriding system value values (1, 'x')
insert into orders (id) overriding user value select 1
update orders set (reference, status) = (select 'a', 'b') where id = 1
update orders set (reference, status) = row('a', 'b') where id = 1
update orders set tags[1] = 'x' where id = 1
update orders set data['a'] = 'x' where id = 1
with recursive t(n) as (values (1) union all select n+1 from t where n < 5) select * from t
with a as not materialized (select 1) select * from a
select * from orders where id = 1 for update of orders nowait
select * from orders where (id, status) > (1, 'a') order by id limit 10 offset 5 for no key update skip locked
delete from orders where id in (select id from orders where status = 'x' order by id for update skip locked limit 10) returning *
update jobs set state = 'running', started = now() where id = (select id from jobs where state = 'ready' order by id for update skip locked limit 1) returning *
insert into t (a, b) select * from unnest($1::int[], $2::text[])
insert into t (a, b) select * from unnest($1::int[], $2::text[]) on conflict (a) do update set b = excluded.b
select 1 where exists (select from orders where id = $1 for key share)
select nextval('x'::regclass), currval('x'), setval('x', 1)
select coalesce(sum(x), 0)::bigint as "total!" from orders where id = any($1)
update t set x = x + 1 where id = $1 and version = $2 returning version as "version!: i64"
select * from t where a is not distinct from $1 for update
select * from t where a between symmetric 1 and 2
select * from t where a overlaps b
select a.* , b from t a cross join u natural join v full join w using (id)
select case when a then 1 else 2 end, extract(epoch from now()), position('a' in 'b'), trim(both ' ' from x), substring(x from 1 for 2), overlay(x placing 'a' from 1 for 2) from t
select * from json_to_recordset($1) as x(a int, b text) join orders o on o.id = x.a for update of o
select * from generate_series(1, 10) as g(id) join orders o on o.id = g.id for update of o
select $1::uuid, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid
insert into t values (1, array[1,2], row(1,2), '(1,2)', null, default, current_timestamp, true)
select xmin, ctid from t where ctid = '(0,1)' for update
update t set a = default where id = 1
delete from t as x using u as y where x.id = y.id
select * from t where id = 1 for update; select * from t where id = 2 for update
select 1 as "from" from t /* c1 /* nested */ */ where id = 1 -- x
insert into "Weird Table" ("Col A") values ($1)
select * from t where a operator(pg_catalog.=) 1 for update
select current_user, session_user, current_date
select * from t where x similar to 'a' or x ~ 'b' or x !~* 'c'
select * from a left join lateral unnest(a.tags) as t(tag) on true
insert into t(a) values ($1) on conflict do nothing returning (xmax = 0) as inserted
with x as (insert into t(a) values (1) on conflict do nothing returning id) select id from x union all select id from t where a = 1
select pg_notify('c', 'x')
vacuum full t
alter table t add column x int
values (1, 2), (3, 4)
values (1) for update
show server_version
(select 1)
select all id from orders for share
