-- report_dead_letters: enqueue the requests for the tasks that run when requests have become dead letters.
-- params:   p_request_ids nvarchar(max) (those that are no dead letters are left out), p_now datetime2(6)
-- returns:  nothing
-- locks:    none; the caller has locked the requests
-- why:      it belongs to the transaction that makes the dead letters, so each is reported once, and
--           however it came about. The new requests need no room in a queue with a capacity.
create or alter procedure rowlease_internal.report_dead_letters
  @p_request_ids nvarchar(max), @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
declare @added table (QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null);
insert into rowlease.Queue (RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime,
                            MaxAttempts, Payload)
output inserted.QueueName into @added (QueueName)
select next value for rowlease.RequestIds over (order by q.RequestId), t.TaskQueue, t.TaskKind, 'Pending',
       0, @p_now, @p_now, s.MaxAttempts,
       concat(N'{"request_id":', q.RequestId, N',"kind":"', string_escape(q.Kind, 'json'),
              N'","error":"', string_escape(q.LastError, 'json'), N'"}')
  from openjson(@p_request_ids) as i
 inner join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
         on q.RequestId = cast(i.value as bigint)
 inner join rowlease.DeadLetterTask as t with (forceseek (dead_letter_task_pkey (QueueName, Kind)))
         on t.QueueName = q.QueueName and t.Kind = q.Kind
 inner join rowlease.QueueSettings as s on s.QueueName = t.TaskQueue
 where q.CompletionTime is not null;
insert into rowlease.QueueDepth (QueueName, Priority, Pending)
select a.QueueName, 0, count(*) from @added as a group by a.QueueName;
