-- diagnose_queues: find queues that are paused, full or late; a part of diagnose.
-- params:   p_now timestamptz
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      a request that waits is old after an hour. It is stuck if it has waited for more than a
--           minute although a live worker has free slots, the in-flight limit has room, and nothing that
--           runs was claimed in this minute: in a backlog of short tasks some slots are always free for a
--           moment. Without a live worker it is not old: diagnose_workers names the cause.
create or replace function rowlease_internal.diagnose_queues(p_now timestamptz)
returns table (finding text, subject text, message text, action text)
language sql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  with queues as materialized (
    select s.queue_name, s.paused, s.capacity,
           (select coalesce(sum(d.scheduled + d.pending), 0) from rowlease.queue_depth d
             where d.queue_name = s.queue_name) as waiting,
           l.oldest_ms / 1000 as oldest_seconds,
           rowlease_internal.room_in_flight(s, 1) > 0 as has_room,
           s.max_in_flight, w.num_workers, w.free_slots,
           exists (select from rowlease.queue q
                    where q.queue_name = s.queue_name and q.status = 'Processing'
                      and q.locked_time > p_now - interval '1 minute') as is_claimed
      from rowlease.queue_settings s
     cross join lateral (
       select count(*) as num_workers, coalesce(sum(w.slots - w.busy), 0) as free_slots
         from rowlease.workers w
        where w.queue_names::jsonb ? s.queue_name and w.alive) w
      join rowlease.list_queues() l on l.queue_name = s.queue_name)
  select 'paused', q.queue_name,
         format('the queue "%s" is paused, and %s in it', q.queue_name,
                case q.waiting when 1 then '1 request waits' else q.waiting || ' requests wait' end),
         format('resume it: rowlease queue resume %s', q.queue_name)
    from queues q where q.paused and q.waiting > 0
  union all
  select 'full', q.queue_name,
         format('the queue "%s" is full: %s of %s places are taken, so producers wait or are refused',
                q.queue_name, q.waiting, q.capacity),
         format('add workers, or raise its capacity: rowlease queue set %s capacity=%s',
                q.queue_name, 2 * q.capacity)
    from queues q where q.waiting >= q.capacity
  union all
  select 'stuck', q.queue_name,
         format('a request of the queue "%s" has been due for %s, while live workers have %s free slot%s',
                q.queue_name, q.oldest_seconds * interval '1 second', q.free_slots,
                case when q.free_slots > 1 then 's' end),
         format('ask for its reason: select e.* from rowlease.ready r, rowlease.%s(r.request_id) e '
                'where r.queue_name = %L order by r.due_time limit 1', 'explain', q.queue_name)
    from queues q
   where not q.paused and q.oldest_seconds > 60 and q.free_slots > 0 and q.has_room
     and not q.is_claimed
  union all
  select 'old', q.queue_name,
         format('the oldest request of the queue "%s" has been due for %s, and %s',
                q.queue_name, q.oldest_seconds * interval '1 second',
                case when q.has_room then 'live workers do not keep up'
                     else 'the in-flight limit is reached' end),
         case when q.has_room then 'add workers, or slots to them'
              else format('raise the limit: rowlease queue set %s max_in_flight=%s', q.queue_name,
                          2 * q.max_in_flight)
              end
    from queues q
   where not q.paused and q.oldest_seconds > 3600 and q.num_workers > 0
     and not (q.free_slots > 0 and q.has_room and not q.is_claimed);
$$;
