-- throughput: a view of how many requests were finished in each minute of the last hour.
-- params:   none
-- returns:  minute (its begin), queue_name, num_complete (requests that were completed), num_cancelled
--           (requests that were cancelled), mean_wait_ms (of the completed: from due to claimed),
--           mean_run_ms (from claimed to completed)
-- errors:   none
-- locks:    none
-- why:      an index by completion_time finds the history of the last hour, and every row of it is
--           read: a million finished requests take about a second. measure_waits costs less, because
--           it reads a limited number. Differences of num_finished in list_queues cost almost
--           nothing. A minute in which nothing was finished has no row.
create or replace view rowlease.throughput as
select date_trunc('minute', h.completion_time) as minute, h.queue_name,
       count(*) filter (where h.status = 'Complete') as num_complete,
       count(*) filter (where h.status = 'Cancelled') as num_cancelled,
       trunc(avg(extract(epoch from h.locked_time - h.due_time)
                 ) filter (where h.status = 'Complete') * 1000)::bigint as mean_wait_ms,
       trunc(avg(extract(epoch from h.completion_time - h.locked_time)
                 ) filter (where h.status = 'Complete') * 1000)::bigint as mean_run_ms
  from rowlease.queue_history h
 where h.completion_time >= (select date_trunc('minute', rowlease.now()) - interval '59 minutes')
 group by date_trunc('minute', h.completion_time), h.queue_name;
