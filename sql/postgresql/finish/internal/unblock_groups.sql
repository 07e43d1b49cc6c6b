-- unblock_groups: unblock the first unfinished request of each given group.
-- params:   p_queue_names text[], p_group_keys text[], p_finished boolean (false: no request was
--           finished, but a request of this transaction is behind one that was not added)
-- returns:  void
-- errors:   none
-- locks:    one waiting row of queue per group, exclusive, in request order
-- why:      called when a request of a group is finished. The next request was not in the index
--           that claims use, and enters it now, perhaps below a floor; so it is marked as
--           returned. If it is Scheduled, it is not marked, because that would mean that it was
--           declined. It is locked before it is read, because a claim may be blocking it
--           concurrently (block_groups). If it was cancelled meanwhile, the request after it is
--           tried.
create or replace function rowlease_internal.unblock_groups(
  p_queue_names text[], p_group_keys text[], p_finished boolean default true
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_again boolean := true;
  v_wake  text[];
  v_name  text;
begin
  while v_again loop
    with head as materialized (
      select h.request_id
        from (select distinct g.queue_name, g.group_key
                from unnest(p_queue_names, p_group_keys) as g(queue_name, group_key)) g
       cross join lateral (
         select q.request_id, q.status, q.group_blocked from rowlease.queue q
          where q.queue_name = g.queue_name and q.group_key = g.group_key and q.status <> 'Failed'
          order by q.queue_name, q.group_key, q.request_id
          limit 1) h
       where h.status <> 'Processing' and (p_finished or h.group_blocked)
       order by h.request_id),
    held as materialized (
      select q.request_id, q.group_blocked
        from head h join rowlease.queue q on q.request_id = any(array[h.request_id])
       order by h.request_id
         for no key update of q),
    unblocked as (
      update rowlease.queue q
         set group_blocked = false, returned = q.returned or q.status = 'Pending'
        from held h
       where q.request_id = any(array[h.request_id]) and h.group_blocked
      returning q.queue_name, q.status)
    select (select count(*) from head) > (select count(*) from held),
           array(select distinct u.queue_name::text from unblocked u where u.status = 'Pending')
      into v_again, v_wake;
    foreach v_name in array v_wake loop
      perform rowlease_internal.wake_workers(v_name, false);
    end loop;
  end loop;
end $$;
