-- demand: count the slots that a queue could use now, for an autoscaler.
-- params:   p_queue_name nvarchar(400)
-- errors:   RL002 unknown queue, 51012 as take_lock
-- locks:    the counts' lock, shared, while they are read
create or alter procedure rowlease.demand @p_queue_name nvarchar(400)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @demand xml;
exec rowlease_internal.check_queue @p_queue_name;
exec rowlease_internal.demand_by_queue @p_queue_name, @demand output;
select d.demand from openjson(cast(@demand as nvarchar(max))) with (demand bigint) as d;
