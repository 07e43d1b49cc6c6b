-- delay_groups: let requests wait until the rate of their group permits their start.
-- params:   p_settings rowlease.queue_settings, p_request_ids bigint[] (waiting requests, locked by a
--           claim, that it could not lease), p_now timestamptz
-- returns:  bigint[] -- the others: those that are behind another request of their group
-- errors:   none
-- locks:    none: the claim has locked the rows
-- why:      a request that is Scheduled is not in the index of claims, so a claim does not step over
--           the groups that have used up their rate, and workers sleep until it is due.
create or replace function rowlease_internal.delay_groups(
  p_settings rowlease.queue_settings, p_request_ids bigint[], p_now timestamptz
) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_delayed bigint[];
begin
  if p_settings.group_rate is null then
    return p_request_ids;
  end if;
  with delayed as (
    update rowlease.queue q set status = 'Scheduled', due_time = r.next_start, returned = false
      from (select w.request_id, g.next_start
              from unnest(p_request_ids) as u(id)
              join rowlease.queue w on w.request_id = any(array[u.id])
             cross join lateral rowlease_internal.room_in_rate(
               p_settings.queue_name, ':' || w.group_key, p_settings.group_rate, p_now) g
             where g.room = 0
               and rowlease_internal.group_is_free(p_settings.queue_name, w.group_key, w.request_id)) r
     where q.request_id = any(array[r.request_id]) and q.status || '' = 'Pending'
    returning q.request_id, q.priority),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, pending, scheduled)
    select p_settings.queue_name, d.priority, -count(*), count(*) from delayed d group by d.priority)
  select coalesce(array_agg(d.request_id), '{}') into v_delayed from delayed d;
  return array(select u.id from unnest(p_request_ids) as u(id) where u.id <> all(v_delayed));
end $$;
