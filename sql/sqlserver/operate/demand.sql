-- demand: count the slots that a queue could use now, for an autoscaler.
-- params:   p_queue_name nvarchar(400)
-- returns:  bigint -- the sum of the running requests, the pending or due requests that the queue's
--           rate allows to start now, and the due schedules; at most max_in_flight; for a paused
--           queue, only the running requests
-- errors:   RL002 unknown queue, 51012 as take_lock
-- locks:    the counts' lock, shared, while they are read
-- why:      running requests count, because an autoscaler that ignores them ends the workers that run
--           them. Due requests and schedules count, because only workers make requests pending and fire
--           schedules: without them, an autoscaler that has no worker left would never start one.
create or alter procedure rowlease.demand @p_queue_name nvarchar(400)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @demand xml;
exec rowlease_internal.check_queue @p_queue_name;
exec rowlease_internal.demand_by_queue @p_queue_name, @demand output;
select d.demand from openjson(cast(@demand as nvarchar(max))) with (demand bigint) as d;
