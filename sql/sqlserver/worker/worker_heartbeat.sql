-- worker_heartbeat: register a worker, or record that it is alive, with its load.
-- params:   p_worker_id nvarchar(400), p_host nvarchar(400), p_pid int, p_version nvarchar(400),
--           p_queue_names nvarchar(max), p_slots int, p_busy int, p_consumer_priority int, p_kinds
--           nvarchar(max) (the task of each kind that it knows; null: it may know all)
-- why:      it shows people which worker does what; leases do not depend on it. This routine
--           records in the queue's settings that its workers have different priorities; claims
--           check priorities only after that. Kinds that the worker knows are removed from
--           unknown_kind. The settings come first: delete_queue locks them, then rows of unknown_kind.
create or alter procedure rowlease.worker_heartbeat
  @p_worker_id nvarchar(400), @p_host nvarchar(400), @p_pid int, @p_version nvarchar(400),
  @p_queue_names nvarchar(max), @p_slots int, @p_busy int, @p_consumer_priority int = 0,
  @p_kinds nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now();
begin transaction;
if @p_consumer_priority <> 0
  update rowlease.QueueSettings set ConsumerPriorities = 1
   where ConsumerPriorities = 0
     and QueueName in (select n.value collate Latin1_General_100_BIN2
                         from openjson(@p_queue_names) as n);
update rowlease.Worker
   set Busy = @p_busy, Slots = @p_slots, QueueNames = @p_queue_names,
       ConsumerPriority = @p_consumer_priority, Kinds = @p_kinds, HeartbeatTime = @now
 where WorkerId = @p_worker_id;
if @@rowcount = 0
  insert into rowlease.Worker (WorkerId, Host, Pid, Version, QueueNames, Slots, Busy,
                               ConsumerPriority, Kinds, StartedTime, HeartbeatTime)
  values (@p_worker_id, @p_host, @p_pid, @p_version, @p_queue_names, @p_slots, @p_busy,
          @p_consumer_priority, @p_kinds, @now, @now);
delete from rowlease.UnknownKind
  from rowlease.UnknownKind with (index (unknown_kind_pkey), forceseek, updlock, readpast, rowlock)
 where QueueName in (select n.value collate Latin1_General_100_BIN2 from openjson(@p_queue_names) as n)
   and (@p_kinds is null
        or Kind in (select n.[key] collate Latin1_General_100_BIN2 from openjson(@p_kinds) as n))
option (loop join, force order, maxdop 1);
commit transaction;
