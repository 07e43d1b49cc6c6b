-- metrics: measure the figures that no other routine returns, for the exporter.
-- params:   none
-- returns:  metric text -- 'demand' | 'overdue_leases' | 'queue_capacity' | 'schedule_late_seconds' |
--           'staging_loads' | 'load_silent_seconds', subject text (the queue or the schedule), value double precision
-- errors:   none
-- locks:    none
-- why:      monitoring calls it every few seconds, so it never counts rows of the queue: see
--           demand_by_queue. It reads only loads that are being staged, by their index.
create or replace function rowlease.metrics()
returns table (metric text, subject text, value double precision)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  with queues as materialized (select * from rowlease_internal.demand_by_queue(null))
  select 'demand', q.queue_name, q.demand::double precision from queues q
  union all
  select 'overdue_leases', q.queue_name, q.overdue::double precision from queues q
  union all
  select 'queue_capacity', s.queue_name::text, s.capacity::double precision
    from rowlease.queue_settings s where s.capacity is not null
  union all
  select 'schedule_late_seconds', s.schedule_name::text,
         greatest(0, extract(epoch from rowlease.now() - s.next_time))::double precision
    from rowlease.schedule s where not s.paused and s.next_time is not null
  union all
  select m.metric, l.queue_name, case m.metric when 'staging_loads' then l.number else l.silent end
    from (select coalesce(o.queue_name, '')::text as queue_name, count(*)::double precision as number,
                 greatest(0, extract(epoch from rowlease.now() - min(o.reported_time)))::double precision
                   as silent
            from rowlease.load o where o.status = 'Staging' group by o.queue_name) l
   cross join (values ('staging_loads'), ('load_silent_seconds')) m(metric);
$$;
