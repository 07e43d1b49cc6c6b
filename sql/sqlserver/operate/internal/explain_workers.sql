-- explain_workers: explain why no worker may claim requests of a kind; a part of explain.
-- params:   p_queue_name nvarchar(100), p_kind nvarchar(200), p_now datetime2(6),
--           p_reason varchar(20) output, p_message nvarchar(4000) output
-- returns:  p_reason -- null: a worker may claim them; 'no_worker' | 'unknown_kind' |
--           'consumer_priority', p_message -- without a reason, the worker whose consumer priority
--           goes before others, or null
create or alter procedure rowlease_internal.explain_workers
  @p_queue_name nvarchar(100), @p_kind nvarchar(200), @p_now datetime2(6),
  @p_reason varchar(20) output, @p_message nvarchar(4000) output
as
set nocount on;
set xact_abort on;
declare @live int, @knowing int, @lowest int, @consumers bit, @seconds int, @first nvarchar(200);
declare @priority int, @knows bit;
declare @workers table (WorkerId nvarchar(200) collate Latin1_General_100_BIN2 not null,
                        ConsumerPriority int not null, Knows bit not null, IsFree bit not null);
select @p_reason = null, @p_message = null;
insert into @workers (WorkerId, ConsumerPriority, Knows, IsFree)
select w.WorkerId, w.ConsumerPriority,
       case when w.Kinds is null
              or @p_kind in (select k.[key] collate Latin1_General_100_BIN2 from openjson(w.Kinds) as k)
            then 1 else 0 end,
       case when w.Busy < w.Slots and w.HeartbeatTime > dateadd(second, -2, @p_now) then 1 else 0 end
  from rowlease.Workers as w
 where w.Alive = 1
   and @p_queue_name in (select n.value collate Latin1_General_100_BIN2
                           from openjson(w.QueueNames) as n);
select @live = count(*), @knowing = coalesce(sum(cast(w.Knows as int)), 0),
       @lowest = min(w.ConsumerPriority)
  from @workers as w;
select @consumers = s.ConsumerPriorities, @seconds = s.UnknownKindSeconds
  from rowlease.QueueSettings as s where s.QueueName = @p_queue_name;
if @consumers = 1
  select top (1) @first = w.WorkerId, @priority = w.ConsumerPriority, @knows = w.Knows
    from @workers as w where w.IsFree = 1 and w.ConsumerPriority > @lowest
   order by w.ConsumerPriority desc, w.WorkerId;
if @live = 0
  select @p_reason = 'no_worker',
         @p_message = concat(N'no worker of the queue "', @p_queue_name,
                           N'" has sent a heartbeat within 30 s');
else if @knowing = 0
  select @p_reason = 'unknown_kind',
         @p_message = concat(N'no live worker of the queue "', @p_queue_name, N'" knows the kind "',
                           @p_kind, N'"; start one that does, or it becomes a dead letter after ',
                           @seconds, N' s');
else if @first is not null
begin
  set @p_message = concat(N'worker "', @first, N'" has free slots and goes first (consumer priority ',
                        @priority, N')');
  if @knows = 0
    select @p_reason = 'consumer_priority',
           @p_message = concat(@p_message, N', but does not know the kind "', @p_kind,
                             N'"; workers of a lower consumer priority claim nothing until its ',
                             N'slots are full');
end;
