-- add_distinct: insert the rows of a staged load whose dedup keys are all free.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_load rowlease.load, p_kind text
--           (for rows that name none), p_written_rows bigint
-- returns:  bigint -- how many; null: nothing was done, because a live request or another row of
--           the load has a row's dedup key
-- errors:   22P02 a payload that is not JSON, 40001 rows were added after they were counted
-- locks:    rows of queue with the same dedup key while their enqueue is not committed; a row of
--           its own
-- why:      the fast form of add_staged, for a load without groups of which no row was written twice.
--           To test each key costs as much as to write it, and ON CONFLICT writes every row in two
--           steps. So the rows are inserted as if no key were live, and the first conflict rolls the
--           insert back; with many live keys, this conflict comes early. Counts come from the staged
--           rows: RETURNING would write a million of them to a file.
create or replace function rowlease_internal.add_distinct(
  p_settings rowlease.queue_settings, p_now timestamptz, p_load rowlease.load, p_kind text,
  p_written_rows bigint
) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
  v_name    text;
  v_added   bigint;
  v_counted bigint;
begin
  insert into rowlease.queue (
    queue_name, kind, status, priority, requested_time, due_time, max_attempts, dedup_key, load_id,
    payload, headers)
  select p_settings.queue_name, coalesce(s.kind, p_kind),
         case when s.due_time > p_now then 'Scheduled' else 'Pending' end,
         least(coalesce(s.priority, 0), p_settings.max_priority), p_now,
         greatest(s.due_time, p_now), p_settings.max_attempts, s.dedup_key, p_load.load_id,
         coalesce(s.payload, '{}')::json, s.headers::json
    from rowlease.staging s
   where (s.load_id, s.run_number) = (p_load.load_id, p_load.run_number)
   order by s.row_id;
  get diagnostics v_added = row_count;
  with counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, scheduled, pending)
    select p_settings.queue_name, least(coalesce(s.priority, 0), p_settings.max_priority),
           p_load.load_id,
           count(*) filter (where s.due_time > p_now),
           count(*) filter (where s.due_time > p_now is not true)
      from rowlease.staging s
     where (s.load_id, s.run_number) = (p_load.load_id, p_load.run_number)
     group by 2
    returning scheduled, pending)
  select coalesce(sum(c.scheduled + c.pending), 0) into v_counted from counted c;
  perform rowlease_internal.check_staged(p_load.load_id, p_written_rows, v_added);
  perform rowlease_internal.check_staged(p_load.load_id, p_written_rows, v_counted);
  return v_added;
exception when unique_violation then
  get stacked diagnostics v_name = constraint_name;
  if v_name <> 'queue_dedup' then raise; end if;
  return null;
end $$;
