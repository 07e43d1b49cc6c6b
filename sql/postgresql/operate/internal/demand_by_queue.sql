-- demand_by_queue: compute the demand and the overdue leases of queues; a part of demand and metrics.
-- params:   p_queue_name text (null: every queue)
-- returns:  queue_name text, demand bigint, overdue bigint
-- errors:   none
-- locks:    none
-- why:      it adds up counters. It reads the indexes of due and of declined requests only of a queue
--           that has scheduled requests, and the index of leases only of a queue that has leases, and at most 1,000
--           entries of each. Of a queue with a rate, only requests that may start now count.
create or replace function rowlease_internal.demand_by_queue(p_queue_name text)
returns table (queue_name text, demand bigint, overdue bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := rowlease.now();
begin
  return query
  with counts as materialized (
    select d.queue_name, sum(d.scheduled) as scheduled, sum(d.pending) as pending,
           sum(d.processing) as processing
      from rowlease.queue_depth d
     where p_queue_name is null or d.queue_name = p_queue_name
     group by d.queue_name)
  select s.queue_name::text,
         least(s.max_in_flight, coalesce(c.processing, 0)
               + case when s.paused then 0
                      else least(coalesce(c.pending, 0) + due.number + declined.number,
                                 allowed.room) + firing.number
                  end)::bigint,
         expired.number
    from rowlease.queue_settings s
    left join counts c on c.queue_name = s.queue_name
   cross join lateral (
     select count(*) as number
       from (select from rowlease.queue q
              where c.scheduled > 0 and q.queue_name = s.queue_name and q.status = 'Scheduled'
                and q.due_time <= v_now and not q.returned limit 1000) q) due
   cross join lateral (
     select count(*) as number
       from (select from rowlease.queue q
              where c.scheduled > 0 and q.queue_name = s.queue_name and q.returned
                and q.status <> 'Pending' limit 1000) q) declined
   cross join lateral (
     select count(*) as number
       from (select from rowlease.queue q
              where c.processing > 0 and q.queue_name = s.queue_name and q.status = 'Processing'
                and q.lock_expires_time <= v_now limit 1000) q) expired
   cross join lateral (
     select count(*) as number from rowlease.schedule h
      where h.queue_name = s.queue_name and not h.paused
        and coalesce(h.next_time, v_now) <= v_now) firing
   cross join lateral (
     select case when s.rate is not null then (
       select r.room from rowlease_internal.room_in_rate(s.queue_name, '', s.rate, v_now) r) end as room
   ) allowed
   where p_queue_name is null or s.queue_name = p_queue_name
   order by s.queue_name;
end $$;
