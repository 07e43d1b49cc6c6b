-- roll_history_partitions: create the history partitions of today and tomorrow, and drop expired ones.
-- params:   p_now timestamptz
-- returns:  bigint -- how many partitions were created or dropped
-- errors:   none -- a partition that cannot be locked within 100 ms, or whose day has got a row in
--           the default partition meanwhile, is left for the next call
-- locks:    queue_history and the partitions concerned, access exclusive
-- why:      dropping a day costs the same, however many rows the day has. A day is dropped when
--           the longest retention of all queues has passed. It uses dynamic SQL, because the name
--           of a partition contains its day. Logical replication refuses deletes, and so a purge,
--           without a replica identity. Default privileges of a database may grant a new table to
--           everybody.
create or replace function rowlease_internal.roll_history_partitions(p_now timestamptz) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set lock_timeout = '100ms'
as $$
declare
  v_today   date := p_now::date;
  v_days    integer := (select max(s.retention_days) from rowlease.queue_settings s);
  v_day     date;
  v_name    text;
  v_changed bigint := 0;
begin
  foreach v_day in array array[v_today, v_today + 1] loop
    v_name := 'queue_history_' || to_char(v_day, 'YYYYMMDD');
    if to_regclass('rowlease.' || v_name) is null and not exists (
      select from rowlease.queue_history_default h
       where h.completion_time >= v_day and h.completion_time < v_day + 1)
    then
      execute format('create table rowlease.%I partition of rowlease.queue_history '
                     'for values from (%L) to (%L)', v_name, v_day, v_day + 1);
      execute format('alter table rowlease.%I replica identity full', v_name);
      execute format('revoke all on table rowlease.%I from public', v_name);
      execute format('comment on table rowlease.%I is %L', v_name,
                     'Finished requests of ' || v_day || ', UTC.');
      execute (select string_agg(format('comment on column rowlease.%I.%I is %L', v_name, a.attname,
                                        col_description(a.attrelid, a.attnum)), ';')
                 from pg_attribute a
                where a.attrelid = 'rowlease.queue_history'::regclass
                  and a.attnum > 0 and not a.attisdropped);
      v_changed := v_changed + 1;
    end if;
  end loop;
  for v_name in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = 'rowlease.queue_history'::regclass
       and c.relname ~ '^queue_history_\d{8}$'
       and to_date(right(c.relname, 8), 'YYYYMMDD') < v_today - v_days
  loop
    execute format('drop table rowlease.%I', v_name);
    v_changed := v_changed + 1;
  end loop;
  delete from rowlease.queue_history_default h
   where h.completion_time < p_now - make_interval(days => v_days);
  return v_changed;
exception when lock_not_available or check_violation then
  return 0;
end $$;
