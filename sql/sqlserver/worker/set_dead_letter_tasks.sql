-- set_dead_letter_tasks: record which tasks run when requests of a worker's kinds become dead letters.
-- params:   p_queue_names nvarchar(max), p_kinds nvarchar(max) (all kinds of the worker),
--           p_task_queues nvarchar(max), p_task_kinds nvarchar(max) (for each kind the task's queue
--           and kind; null: none)
-- locks:    the lock of unknown kinds; rows of dead_letter_task
create or alter procedure rowlease.set_dead_letter_tasks
  @p_queue_names nvarchar(max), @p_kinds nvarchar(max), @p_task_queues nvarchar(max),
  @p_task_kinds nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @given table (QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null,
                      Kind nvarchar(200) collate Latin1_General_100_BIN2 not null,
                      TaskQueue nvarchar(100) collate Latin1_General_100_BIN2,
                      TaskKind nvarchar(200) collate Latin1_General_100_BIN2,
                      primary key (QueueName, Kind));
insert into @given (QueueName, Kind, TaskQueue, TaskKind)
select g.queue_name, g.kind, g.task_queue, g.task_kind
  from (select n.value as queue_name, k.value as kind, q.value as task_queue, t.value as task_kind,
               row_number() over (partition by n.value collate Latin1_General_100_BIN2,
                                               k.value collate Latin1_General_100_BIN2
                                      order by cast(k.[key] as int) desc) as turn
          from openjson(@p_queue_names) as n
         cross join openjson(@p_kinds) as k
          left join openjson(@p_task_queues) as q on q.[key] = k.[key]
          left join openjson(@p_task_kinds) as t on t.[key] = k.[key]) as g
 where g.turn = 1;
begin transaction;
exec rowlease_internal.take_lock N'rowlease:kinds';
delete from rowlease.DeadLetterTask
  from @given as g
 inner join rowlease.DeadLetterTask with (index (dead_letter_task_pkey), forceseek, rowlock)
         on DeadLetterTask.QueueName = g.QueueName and DeadLetterTask.Kind = g.Kind
 where g.TaskKind is null or g.TaskKind <> DeadLetterTask.TaskKind
    or g.TaskQueue <> DeadLetterTask.TaskQueue
option (loop join, force order, maxdop 1);
insert into rowlease.DeadLetterTask (QueueName, Kind, TaskQueue, TaskKind)
select g.QueueName, g.Kind, g.TaskQueue, g.TaskKind
  from @given as g
 where g.TaskKind is not null
   and not exists (select 1 from rowlease.DeadLetterTask as t
                     with (forceseek (dead_letter_task_pkey (QueueName, Kind)))
                    where t.QueueName = g.QueueName and t.Kind = g.Kind);
commit transaction;
