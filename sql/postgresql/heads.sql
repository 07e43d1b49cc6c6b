-- heads: the oldest waiting request of each priority.
-- params:   p_queue_name text, p_floor_times timestamptz[], p_floor_ids bigint[]
-- returns:  priority integer, due_time timestamptz -- priorities where nothing waits are left out
-- errors:   none
-- locks:    none
-- why:      what the policies weighted and aging decide by; two probes of an index per priority.
create or replace function rowlease.heads(
  p_queue_name text, p_floor_times timestamptz[], p_floor_ids bigint[]
) returns table (priority integer, due_time timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
#variable_conflict use_column
begin
  return query
  select p.priority, h.due_time
    from generate_series(0, cardinality(p_floor_times) - 1) as p(priority)
   cross join lateral (
     select least(
       (select q.due_time from rowlease.queue q
         where q.queue_name = p_queue_name and q.priority = p.priority and q.status = 'Pending'
           and not q.group_blocked and not q.returned
           and (q.due_time, q.request_id)
               >= (p_floor_times[p.priority + 1], p_floor_ids[p.priority + 1])
         order by q.due_time, q.request_id limit 1),
       (select q.due_time from rowlease.queue q
         where q.queue_name = p_queue_name and q.priority = p.priority and q.status = 'Pending'
           and not q.group_blocked and q.returned
         order by q.due_time, q.request_id limit 1)) as due_time) h
   where h.due_time is not null;
end $$;
