-- recount: compare the counts of queues with their rows, and correct them.
-- params:   p_queue_name nvarchar(400) (null: every queue)
-- returns:  the wrong counts: queue_name text, priority integer, counter text -- 'scheduled' |
--           'pending' | 'processing' | 'failed', or 'group_blocked': requests that waited for a
--           request of their group that no longer exists; was bigint, actual bigint
-- errors:   RL002 unknown queue; 51012 maintain or another recount has been running for 2 s
-- locks:    the lock of maintain, after at most 2 s; as correct_counts; rows of queue that are unblocked,
--           exclusive, skipping locked ones
-- why:      for use after a DELETE, UPDATE or TRUNCATE by hand. It reads the whole queue, but
--           blocks no other call if READ_COMMITTED_SNAPSHOT is on.
create or alter procedure rowlease.recount @p_queue_name nvarchar(400) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @granted bit;
create table #corrected (
  Place int identity primary key, QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null,
  Priority int not null, Counter varchar(20) not null, Was bigint not null, Actual bigint not null);
if @p_queue_name is not null
  exec rowlease_internal.check_queue @p_queue_name;
begin transaction;
exec rowlease_internal.try_lock N'rowlease:maintain', @granted output, 2000;
if @granted = 0
  throw 51012,
    N'maintain or another recount has been running for 2 s; nothing was done, call again', 1;
exec rowlease_internal.correct_counts @p_queue_name;
exec rowlease_internal.free_groups @p_queue_name;
commit transaction;
select c.QueueName as queue_name, c.Priority as priority, c.Counter as counter, c.Was as was,
       c.Actual as actual
  from #corrected as c order by c.Place;
