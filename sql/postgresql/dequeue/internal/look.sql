-- look: read a queue's settings, and test whether a claim can use the plain way now.
-- params:   p_queue_name text, p_now timestamptz
-- returns:  paused boolean, max_priority smallint, capacity bigint, lease_seconds integer:
--           settings; is_plain boolean, in_lane boolean (a promoted load may have requests in the
--           lane), first_priority smallint (null: nothing waits in queue), first_time timestamptz and
--           first_id bigint: the first request of queue; next_event timestamptz (if nothing waits
--           there: the next due time or expiry) -- no row for an unknown queue
-- errors:   none
-- locks:    none
-- why:      it probes each index that shows work for the careful way once, and the index that
--           claims use once. PostgreSQL inlines this function.
create or replace function rowlease_internal.look(p_queue_name text, p_now timestamptz)
returns table (
  paused boolean, max_priority smallint, capacity bigint, lease_seconds integer, is_plain boolean,
  in_lane boolean, first_priority smallint, first_time timestamptz, first_id bigint,
  next_event timestamptz)
language sql stable
begin atomic
  select s.paused, s.max_priority, s.capacity, s.lease_seconds,
         s.policy = 'strict' and s.max_in_flight is null and not s.consumer_priorities
           and coalesce(w.priority <= s.max_priority, true) and s.rate is null
           and not exists (select from rowlease.queue q
                            where q.queue_name = p_queue_name and q.group_key is not null
                              and q.status <> 'Failed')
           and not exists (select from rowlease.queue q
                            where q.queue_name = p_queue_name and q.status = 'Pending'
                              and not q.group_blocked and q.returned)
           and not exists (select from rowlease.queue q
                            where q.queue_name = p_queue_name and q.status = 'Scheduled'
                              and q.due_time <= p_now)
           and not exists (select from rowlease.queue q
                            where q.queue_name = p_queue_name and q.status <> 'Pending' and q.returned)
           and not exists (select from rowlease.queue q
                            where q.queue_name = p_queue_name and q.status = 'Processing'
                              and q.lock_expires_time <= p_now),
         exists (select from rowlease.load l where l.queue_name = p_queue_name and l.in_lane),
         w.priority, w.due_time, w.request_id,
         case when w.priority is null then least(
           (select q.due_time from rowlease.queue q
             where q.queue_name = p_queue_name and q.status = 'Scheduled' and q.due_time > p_now
             order by q.due_time limit 1),
           (select q.lock_expires_time from rowlease.queue q
             where q.queue_name = p_queue_name and q.status = 'Processing'
               and q.lock_expires_time > p_now
             order by q.lock_expires_time limit 1)) end
    from rowlease.queue_settings s
    left join lateral (
      select q.priority, q.due_time, q.request_id from rowlease.queue q
       where q.queue_name = p_queue_name and q.status = 'Pending'
         and not q.group_blocked and not q.returned
       order by q.priority desc, q.due_time, q.request_id limit 1) w on true
   where s.queue_name = p_queue_name;
end;
