-- diagnose: find problems of the queues, and an action for each.
-- params:   none
-- returns:  finding text -- 'table_lock' | 'paused' | 'full' | 'old' | 'stuck' | 'no_worker' |
--           'unknown_kind' | 'consumer_priority' | 'overdue' | 'gate' | 'group' | 'counts' |
--           'schedule', subject text (the queue, schedule or table), message text, action text; no
--           row: there is no problem
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
declare @now datetime2(6) = rowlease.now();
create table #findings (Place int identity primary key, Finding varchar(20) not null,
                        Subject nvarchar(200) not null, Message nvarchar(4000) not null,
                        Action nvarchar(4000) not null);
exec rowlease_internal.diagnose_queues @now;
exec rowlease_internal.diagnose_workers @now;
exec rowlease_internal.diagnose_stuck @now;
exec rowlease_internal.diagnose_counts 10000;
select f.Finding as finding, f.Subject as subject, f.Message as message, f.Action as action
  from #findings as f order by f.Place;
