-- demand: count the slots that a queue could use now, for an autoscaler.
-- params:   p_queue_name text
-- returns:  bigint -- requests that run; those that are pending or due, as many as the rate of the
--           queue lets start now; schedules that are due; at most max_in_flight; of a paused queue,
--           only the requests that run
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
