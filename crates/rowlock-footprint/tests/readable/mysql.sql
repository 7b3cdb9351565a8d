select * from orders partition (p0, p1) where id = 1 for update
select * from orders use index (a, b) ignore index for order by (c) where id = 1 for update
select * from orders where created > now() - interval 1 day
select group_concat(distinct x order by y separator ',') from orders
select * from t where match (a, b) against ('x' in boolean mode)
select * from t where a regexp 'x' xor b div 2 = 1
select * from json_table('[1]', '$[*]' columns (id int path '$')) k join orders o on o.id = k.id for update
select * from json_table(?, '$[*]' columns (ord for ordinality, id bigint path '$')) k straight_join orders o force index (primary) on o.id = k.id for update of o
select convert(x using utf8mb4), cast(x as unsigned), binary x, x collate utf8mb4_bin from t
select @a := 1, @@sql_mode
insert delayed into t values (1)
replace into t set a = 1, b = 2
delete from t partition (p0) where id = 1
insert into t (a) values (1), (2) on duplicate key update a = values(a), b = b + 1
insert into t (a) select a from u on duplicate key update t.a = u.a
update t set a = if(b > 1, last_insert_id(b) - 1, b) where id = ?
update t use index (x) set a = 1 where id = 1
update t join u using (id) set t.a = u.a where t.id = 5
update t left join u on u.id = t.id set t.a = 1 where t.id = 5
delete t from t left join u on u.id = t.id where u.id is null
delete t.* from t where id = 1
delete from db.t where id = 1
select sql_no_cache sql_calc_found_rows * from t limit 5, 10
select * from t where id = 1 limit 1 for update
select * from t where `key` = 1 and `order` = 2 for update
select "a" 'b', 'it''s', 'it\'s', 0xff, b'01', n'x'
select * from t where a like 'x' escape '!'
insert into t values (uuid(), unix_timestamp(), default, now(6))
select json_extract(a, '$.x'), a->'$.x', a->>'$.y' from t
with c as (select 1) select * from c
with c as (select id from t) update t join c on c.id = t.id set t.a = 1
with c as (select id from t) delete from t where id in (select id from c)
select * from t where (a, b) in ((1, 2), (3, 4)) for update
select * from t where a = b'1' for update
select /*+ NO_INDEX_MERGE(t) */ * from t where id = 1 for update
select /*!40001 SQL_NO_CACHE */ * from t
select * from t natural left join u
table t
values row(1, 2)
insert into t values row(1, 2)
select * from (values row(1), row(2)) k(id) join t on t.id = k.id for update
select timestampdiff(second, a, b), date_add(a, interval 1 hour), extract(year from a) from t
select * from t where a <=> null
select count(*) from t where a is true
insert high_priority ignore into t (a) values (1)
select straight_join * from t
start transaction with consistent snapshot
set session transaction isolation level read committed
rollback to savepoint a
select last_insert_id(), row_count()
select `a`.`b`.`c` from `a`.`b` where `a`.`b`.`id` = 1 for update
load data local infile 'x' ignore into table t
