-- demand: count the slots that a queue could use now, for an autoscaler.
-- params:   p_queue_name text
-- returns:  bigint -- the sum of the running requests, the pending or due requests that the queue's
--           rate allows to start now, and the due schedules; at most max_in_flight; for a paused
--           queue, only the running requests
-- errors:   RL002 unknown queue
-- locks:    none
-- why:      running requests count, because an autoscaler that ignores them ends the workers that run
--           them. Due requests and schedules count, because only workers make requests pending and fire
--           schedules: without them, an autoscaler that has no worker left would never start one.
create or replace function rowlease.demand(p_queue_name text) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform rowlease_internal.check_queue(p_queue_name);
  return (select d.demand from rowlease_internal.demand_by_queue(p_queue_name) d);
end $$;
