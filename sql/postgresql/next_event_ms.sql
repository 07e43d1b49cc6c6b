-- next_event_ms: how long until a scheduled request is due or a lease runs out.
-- params:   p_queue_names text[], p_now timestamptz, p_floors jsonb
-- returns:  bigint -- milliseconds, 0 or more; null if nothing is to come
-- errors:   none
-- locks:    none
-- why:      a worker that found nothing knows how long it may sleep.
create or replace function rowlease.next_event_ms(
  p_queue_names text[], p_now timestamptz, p_floors jsonb
) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
  select greatest(0, ceil(extract(epoch from min(e.time) - p_now) * 1000))::bigint
    from unnest(p_queue_names) as n(queue_name)
   cross join lateral (select coalesce((p_floors -> 'queues' -> n.queue_name ->> 'moved')::timestamptz,
                                       '-infinity') as moved) f
   cross join lateral (
     (select q.due_time from rowlease.queue q
       where q.queue_name = n.queue_name and q.status = 'Scheduled' and q.due_time >= f.moved
       order by q.due_time limit 1)
     union all
     (select q.lock_expires_time from rowlease.queue q
       where q.queue_name = n.queue_name and q.status = 'Processing'
         and q.lock_expires_time >= f.moved
       order by q.lock_expires_time limit 1)) as e(time);
$$;
