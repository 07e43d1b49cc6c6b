-- unblock_groups: let the first unfinished request of each given group be claimed.
-- params:   p_queue_names text[], p_group_keys text[]
-- returns:  void
-- errors:   none
-- locks:    one row of queue per group, exclusive, in request order
-- why:      called when a group's request is finished; its successor stood outside the claim's
--           index, and now stands where floors may have passed.
create or replace function rowlease.unblock_groups(p_queue_names text[], p_group_keys text[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_name text;
begin
  for v_name in
    with head as materialized (
      select h.request_id
        from (select distinct g.queue_name, g.group_key
                from unnest(p_queue_names, p_group_keys) as g(queue_name, group_key)) g
       cross join lateral (
         select q.request_id, q.group_blocked from rowlease.queue q
          where q.queue_name = g.queue_name and q.group_key = g.group_key and q.status <> 'Failed'
          order by q.queue_name, q.group_key, q.request_id
          limit 1) h
       where h.group_blocked
       order by h.request_id),
    unblocked as (
      update rowlease.queue q set group_blocked = false, returned = true
        from head h
       where q.request_id = h.request_id and q.group_blocked
      returning q.queue_name, q.status)
    select distinct u.queue_name from unblocked u where u.status = 'Pending'
  loop
    perform rowlease.wake_workers(v_name, false);
  end loop;
end $$;
