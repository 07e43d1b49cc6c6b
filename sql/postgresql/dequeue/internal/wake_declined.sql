-- wake_declined: change declined requests of the kinds that a worker knows to Pending.
-- params:   p_queue_name text, p_worker_id text, p_limit integer
-- returns:  void
-- errors:   none
-- locks:    rows of queue, exclusive, by kind, and in claim order within a kind, skipping locked ones
-- why:      workers that do not know a kind hand its requests on by declining them: the index
--           queue_declined has them until they are due again. Each gets its place in line back,
--           which decline has kept in locked_time. The kind that has the most urgent request comes
--           first. A worker that lists no kinds waits until they are due.
create or replace function rowlease_internal.wake_declined(
  p_queue_name text, p_worker_id text, p_limit integer
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
begin
  with declined as materialized (
    select d.request_id
      from (select k.kind
              from rowlease.worker w
             cross join lateral json_object_keys(w.kinds) as k(kind)
             cross join lateral (
               select q.priority, q.locked_time from rowlease.queue q
                where q.queue_name = p_queue_name and q.kind = k.kind
                  and q.status <> 'Pending' and q.returned
                order by q.priority desc, q.locked_time, q.request_id limit 1) f
             where w.worker_id = p_worker_id
             order by f.priority desc, f.locked_time) k
     cross join lateral (
       select q.request_id from rowlease.queue q
        where q.queue_name = p_queue_name and q.kind = k.kind
          and q.status <> 'Pending' and q.returned
        order by q.priority desc, q.locked_time, q.request_id
          for no key update skip locked) d
     limit p_limit),
  woken as (
    update rowlease.queue q set status = 'Pending', due_time = q.locked_time
      from declined d where q.request_id = any(array[d.request_id])
    returning q.priority)
  insert into rowlease.queue_depth (queue_name, priority, scheduled, pending)
  select p_queue_name, w.priority, -count(*), count(*) from woken w group by w.priority;
end $$;
