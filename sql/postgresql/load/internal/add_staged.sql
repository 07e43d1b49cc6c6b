-- add_staged: insert the rows of a staged load.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_load rowlease.load, p_kind text
--           (for rows that name none), p_written_rows bigint (copies of a row included)
-- returns:  bigint -- how many are new; the others have the dedup key of a live request or an
--           earlier row of the load
-- errors:   22P02 a payload that is not JSON, 40001 rows were added after they were counted
-- locks:    rows of queue with the same dedup key while their enqueue is not committed; a row of
--           its own
-- why:      of several rows with the same row id one counts, because a Spark task may have written
--           its rows twice. If a duplicate was the first of its group, nothing else would unblock the
--           next request, so this routine does.
create or replace function rowlease_internal.add_staged(
  p_settings rowlease.queue_settings, p_now timestamptz, p_load rowlease.load, p_kind text,
  p_written_rows bigint
) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
  v_given   bigint;
  v_written bigint;
  v_added   bigint;
begin
  with staged as materialized (
    select distinct on (s.row_id) s.*, greatest(coalesce(s.due_time, p_now), p_now) as due
      from rowlease.staging s
     where (s.load_id, s.run_number) = (p_load.load_id, p_load.run_number)
     order by s.row_id),
  added as (
    insert into rowlease.queue (
      queue_name, kind, status, priority, requested_time, due_time, max_attempts, dedup_key,
      group_key, group_blocked, load_id, payload, headers)
    select p_settings.queue_name, coalesce(s.kind, p_kind),
           case when s.due > p_now then 'Scheduled' else 'Pending' end,
           least(coalesce(s.priority, 0), p_settings.max_priority), p_now, s.due,
           p_settings.max_attempts, s.dedup_key, s.group_key,
           s.group_key is not null
             and row_number() over (partition by s.group_key order by s.row_id) > 1,
           p_load.load_id, coalesce(s.payload, '{}')::json, s.headers::json
      from staged s
     order by s.row_id
    on conflict (queue_name, dedup_key) where dedup_key is not null and status <> 'Failed'
    do nothing
    returning priority, status),
  per_priority as (
    select a.priority, count(*) filter (where a.status = 'Scheduled') as scheduled,
           count(*) filter (where a.status = 'Pending') as pending
      from added a group by a.priority),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, scheduled, pending)
    select p_settings.queue_name, p.priority, p_load.load_id, p.scheduled, p.pending from per_priority p)
  select (select count(*) from staged),
         (select count(*) from rowlease.staging s
           where (s.load_id, s.run_number) = (p_load.load_id, p_load.run_number)),
         coalesce(sum(p.scheduled + p.pending), 0)
    into v_given, v_written, v_added
    from per_priority p;
  perform rowlease_internal.check_staged(p_load.load_id, p_written_rows, v_written);
  if v_added < v_given then
    perform rowlease_internal.unblock_groups(array_agg(p_settings.queue_name::text), array_agg(g.group_key),
                                    false)
       from (select distinct s.group_key from rowlease.staging s
              where (s.load_id, s.run_number) = (p_load.load_id, p_load.run_number)
                and s.group_key is not null) g;
  end if;
  return v_added;
end $$;
