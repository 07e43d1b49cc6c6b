-- diagnose: find problems of the queues, and an action for each.
-- params:   none
-- errors:   51012 as sum_depth
-- locks:    the counts' lock, shared, while they are read
-- why:      counts are compared with the rows of queues that show at most 10,000 requests; in larger
--           queues it notices a count below 0. It does not report locks on whole tables, because
--           every reader waits for those. diagnose_server looks at the server.
create or alter procedure rowlease.diagnose
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @queues xml, @workers xml, @stuck xml, @counts xml;
declare @batches xml, @dead xml, @maintain xml;
exec rowlease_internal.diagnose_queues @now, @queues output;
exec rowlease_internal.diagnose_workers @now, @workers output;
exec rowlease_internal.diagnose_stuck @now, @stuck output;
exec rowlease_internal.diagnose_counts 10000, @counts output;
exec rowlease_internal.diagnose_batches 10000, @batches output;
exec rowlease_internal.diagnose_dead_letters @now, @dead output;
exec rowlease_internal.diagnose_maintain @maintain output;
select f.finding, f.subject, f.message, f.action
  from (values (1, cast(@queues as nvarchar(max))), (2, cast(@workers as nvarchar(max))),
               (3, cast(@stuck as nvarchar(max))), (4, cast(@counts as nvarchar(max))),
               (5, cast(@batches as nvarchar(max))), (6, cast(@dead as nvarchar(max))),
               (7, cast(@maintain as nvarchar(max)))) as p (place, part)
 cross apply openjson(p.part) as o
 cross apply openjson(o.value) with (finding varchar(20), subject nvarchar(200), message nvarchar(4000),
                                     action nvarchar(4000)) as f
 order by p.place, cast(o.[key] as int);
