-- block_groups: mark requests whose group has an earlier unfinished request, so that claims skip them.
-- params:   p_queue_name text, p_request_ids bigint[] -- waiting requests, locked by a claim
-- returns:  void
-- errors:   none
-- locks:    for each request, one earlier request of its group, exclusive, skipping locked ones
-- why:      without the mark, each claim would find these requests again. An earlier request of the
--           group is updated, so that the routine that finishes it does so after the claim's commit
--           and sees the blocked requests (unblock_groups), or fails to serialize. If all earlier
--           requests are locked, a session that has already read the group may be finishing them. In
--           that case, the request is marked as returned instead, because no floor hides returned
--           requests.
create or replace function rowlease_internal.block_groups(p_queue_name text, p_request_ids bigint[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  with behind as materialized (
    select q.request_id,
           coalesce(
             (select g.request_id from rowlease.queue g
               where g.queue_name = p_queue_name and g.group_key = q.group_key
                 and g.status <> 'Failed' and g.request_id < q.request_id
               order by g.queue_name, g.group_key, g.request_id
               limit 1 for no key update skip locked),
             (select g.request_id from rowlease.queue g
               where g.queue_name = p_queue_name and g.group_key = q.group_key
                 and g.status = 'Processing'
               limit 1 for no key update skip locked)) as first_id
      from unnest(p_request_ids) as u(id) join rowlease.queue q on q.request_id = any(array[u.id])),
  touched as (
    update rowlease.queue q set num_abandons = q.num_abandons
      from (select distinct b.first_id from behind b) b
     where q.request_id = any(array[b.first_id]) and q.request_id <> all(p_request_ids))
  update rowlease.queue q
     set group_blocked = b.first_id is not null, returned = b.first_id is null
    from behind b
   where q.request_id = any(array[b.request_id]) and q.status || '' = 'Pending'
     and (b.first_id is not null or not q.returned);
end $$;
