-- recount: compare the counts of queues and batches with their rows, and correct them.
-- params:   p_queue_name nvarchar(400) (null: every queue, and every batch), p_actor nvarchar(max) (the
--           operator's name)
-- errors:   RL002 unknown queue; 51012 maintain or another recount has been running for 2 s
-- locks:    the lock of maintain, after at most 2 s; as correct_counts; rows of queue that are unblocked,
--           exclusive, skipping locked ones
-- why:      for use after a DELETE, UPDATE or TRUNCATE by hand. It reads the whole queue, but
--           blocks no other call if READ_COMMITTED_SNAPSHOT is on.
create or alter procedure rowlease.recount
  @p_queue_name nvarchar(400) = null, @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @granted bit, @counts xml, @groups xml, @batches xml;
if @p_queue_name is not null
  exec rowlease_internal.check_queue @p_queue_name;
begin transaction;
exec rowlease_internal.try_lock N'rowlease:maintain', @granted output, 2000;
if @granted = 0
  throw 51012,
    N'maintain or another recount has been running for 2 s; nothing was done, call again', 1;
exec rowlease_internal.note_change N'recount', N'queue', @p_queue_name, null, @p_actor;
exec rowlease_internal.correct_counts @p_queue_name, @counts output;
if @p_queue_name is null
  exec rowlease_internal.correct_batches @batches output;
exec rowlease_internal.free_groups @p_queue_name, @groups output;
commit transaction;
select c.queue_name, c.priority, c.counter, c.was, c.actual, c.batch_id
  from (values (1, cast(@counts as nvarchar(max))), (2, cast(@batches as nvarchar(max))),
               (3, cast(@groups as nvarchar(max)))) as p (place, part)
 cross apply openjson(p.part) as o
 cross apply openjson(o.value) with (queue_name nvarchar(100), priority int, counter varchar(20),
                                     was bigint, actual bigint, batch_id nvarchar(100)) as c
 order by p.place, cast(o.[key] as int);
