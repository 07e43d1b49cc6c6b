-- throughput: a view of how many requests were finished in each minute of the last hour.
-- params:   none
-- returns:  minute (its begin), queue_name, num_complete (requests that were completed), num_cancelled
--           (requests that were cancelled), mean_wait_ms (of the completed: from due to claimed),
--           mean_run_ms (from claimed to completed)
-- errors:   none
-- locks:    none
-- why:      it reads whole minutes, the newest first, and ends after the minute in which it has read
--           100,000 requests, because a busy database finishes millions in an hour: older minutes have
--           no rows then, as minutes in which nothing was finished. The index by completion_time is not
--           in an order, so each minute is a search of its own.
create or replace view rowlease.throughput as
with recursive minutes as (
  select date_trunc('minute', rowlease.now()) + interval '1 minute' as minute, 0 as num_minutes,
         0::bigint as num_read, null::jsonb as queues
  union all
  select m.minute - interval '1 minute', m.num_minutes + 1, m.num_read + f.num_read, f.queues
    from minutes m
   cross join lateral (
     select coalesce(sum(g.num_complete + g.num_cancelled), 0)::bigint as num_read,
            jsonb_agg(to_jsonb(g)) as queues
       from (select h.queue_name, count(*) filter (where h.status = 'Complete') as num_complete,
                    count(*) filter (where h.status = 'Cancelled') as num_cancelled,
                    trunc(avg(extract(epoch from h.locked_time - h.due_time)
                              ) filter (where h.status = 'Complete') * 1000)::bigint as mean_wait_ms,
                    trunc(avg(extract(epoch from h.completion_time - h.locked_time)
                              ) filter (where h.status = 'Complete') * 1000)::bigint as mean_run_ms
               from rowlease.queue_history h
              where h.completion_time >= m.minute - interval '1 minute'
                and h.completion_time < m.minute
              group by h.queue_name) g) f
   where m.num_minutes < 60 and m.num_read < 100000)
select m.minute, q.queue_name, q.num_complete, q.num_cancelled, q.mean_wait_ms, q.mean_run_ms
  from minutes m
 cross join lateral jsonb_to_recordset(m.queues) as q(
   queue_name varchar(100), num_complete bigint, num_cancelled bigint, mean_wait_ms bigint,
   mean_run_ms bigint);
