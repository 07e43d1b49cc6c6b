-- check_copies: refuse a load in which one row was written twice with different values.
-- params:   p_load_id text, p_run_number bigint
-- returns:  void
-- errors:   40001 a row was written twice and differs
-- locks:    none
-- why:      two tries of a task that computed different rows under the same ids cannot be
--           distinguished, so neither counts.
create or replace function rowlease_internal.check_copies(p_load_id text, p_run_number bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (
    select from rowlease.staging s where (s.load_id, s.run_number) = (p_load_id, p_run_number)
     group by s.row_id
    having count(distinct (s.kind, s.priority, s.due_time, s.dedup_key, s.group_key, s.payload,
                           s.headers)) > 1)
  then
    raise exception using errcode = '40001',
      message = format('load "%s" has rows that were written twice and differ; stage it again, in an '
                       'order that is fixed', p_load_id);
  end if;
end $$;
