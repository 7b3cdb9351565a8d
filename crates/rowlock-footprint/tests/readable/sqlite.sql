select * from t indexed by x where id = 1
update t not indexed set a = 1 where id = 1
update or ignore t set a = 1 where id = 1
insert or ignore into t (a) values (?)
insert or rollback into t (a) values (?)
insert into t (a) values (?1) returning *
select a ->> '$.a', a glob 'x', a is not b, a == 1 from t
update t set (a, b) = (1, 2) where id = 1
update t set a = u.a from u where u.id = t.id and t.id = 5
delete from t where id = 1 returning id
delete from t where id = 1 order by a limit 1
select * from json_each(?1) j join t on t.id = j.value
insert into t select value from json_each(?) where true on conflict (id) do nothing
with recursive c(x) as (select 1 union all select x + 1 from c) select * from c
insert into t default values
select strftime('%s', 'now'), datetime('now'), x'ab', 1e5, .5
insert into main.t values (1)
select [a b], "c", `d` from [t]
select * from t where id in (?, ?, ?) limit 1 offset 2
create trigger x after insert on t begin update t set a = 1; end
savepoint a
release a
pragma table_info(t)
vacuum
select cast(a as blob), cast(b as) from t
replace into t (id) values (1)
begin exclusive transaction
explain query plan select * from t
