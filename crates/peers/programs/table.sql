create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
insert into t select i, hex(i * 7919) from n;
create index x on t(b);
select count(*), max(b) from t where b > '3';
delete from t where a % 3 = 0;
vacuum;
