-- sweep_loads: delete loads that had no report for a day, and old loads of streams.
-- params:   p_now timestamptz, p_limit integer -- how many loads of each kind
-- returns:  void
-- errors:   none
-- locks:    rows of load, skipping locked ones
-- why:      a load that is not promoted belongs to a run; without a report for a day it has none, and its
--           id is free again. A batch of a stream is a load, which is deleted after the retention of
--           the history, because the table stream keeps what the stream has enqueued. Other loads are
--           kept for ever: a driver may run again at any time.
create or replace function rowlease_internal.sweep_loads(p_now timestamptz, p_limit integer) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  delete from rowlease.load l
   where l.load_id = any(array(select o.load_id from rowlease.load o
                                where o.status <> 'Promoted'
                                  and o.reported_time < p_now - interval '1 day'
                                limit p_limit for update skip locked));
  delete from rowlease.load l
   where l.load_id = any(array(
           select o.load_id from rowlease.load o
            where o.stream_name is not null and not o.in_lane and o.promoted_time
                  < p_now - (select max(s.retention_days) from rowlease.queue_settings s) * interval '1 day'
            limit p_limit for update skip locked));
end $$;
