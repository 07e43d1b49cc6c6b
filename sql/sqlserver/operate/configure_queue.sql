-- configure_queue: create a queue, or change the given settings of a queue.
-- params:   p_queue_name nvarchar(400), p_settings nvarchar(max) (names of columns of queue_settings,
--           and values), p_actor nvarchar(max) (the operator's name)
-- locks:    the queue's lock, so that two calls do not both create it; its settings row; as end_delays
--           and lower_all
-- why:      a queue is created explicitly: a misspelt name in an enqueue is an error, not a new
--           queue. The settings capacity, policy_weights, max_in_flight, rate and group_rate
--           may be null.
create or alter procedure rowlease.configure_queue
  @p_queue_name nvarchar(400), @p_settings nvarchar(max) = N'{}', @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @says nvarchar(2048), @unknown nvarchar(4000), @max int, @was int, @group_rate varchar(30),
        @lock nvarchar(255) = concat(N'rowlease:queue:', @p_queue_name);
if datalength(@p_queue_name) > datalength(rtrim(@p_queue_name))
  throw 51010, N'the name of a queue must not end in a blank', 1;
select top (1) @unknown = j.[key] from openjson(@p_settings) as j
 where j.[key] not in (
   'max_priority', 'capacity', 'lease_seconds', 'max_attempts', 'max_crashes', 'retry_base_ms',
   'retry_cap_ms', 'paused', 'policy', 'policy_weights', 'policy_aging_seconds', 'max_in_flight',
   'keep_history', 'retention_days', 'unknown_kind_seconds', 'rate', 'group_rate');
if @unknown is not null
begin
  set @says = concat(N'there is no setting "', @unknown,
                     N'"; the settings are the columns of queue_settings');
  throw 51010, @says, 1;
end;
if exists (select 1 from openjson(@p_settings) as j
            where j.[key] = 'policy_weights' and j.type not in (0, 4))
   or exists (select 1 from openjson(@p_settings, '$.policy_weights') as w
               where w.type <> 2 or try_cast(w.value as float) < 0)
  throw 51010, N'policy_weights must be an array of non-negative numbers: the weights of priority 0, priority 1 and so on', 1;
if exists (select 1 from openjson(@p_settings) as j
            where j.[key] not in ('policy', 'policy_weights', 'paused', 'keep_history', 'rate', 'group_rate')
              and j.type <> 0
              and (try_cast(j.value as bigint) is null
                   or j.[key] = 'max_priority' and try_cast(j.value as smallint) is null
                   or j.[key] <> 'capacity' and try_cast(j.value as int) is null))
begin
  set @says = concat(N'a setting of queue "', @p_queue_name, N'" is out of range: it must be a whole number that the setting can hold');
  throw 51010, @says, 1;
end;
if exists (select 1 from openjson(@p_settings) as j
            where j.[key] in ('rate', 'group_rate') and j.type <> 0
              and not exists (select 1 from rowlease_internal.rate_parts(j.value) as r
                               where r.num_starts between 1 and 9999999 and r.period_ms >= 1))
begin
  set @says = concat(N'a setting of queue "', @p_queue_name, N'" is out of range: a rate is like 100/1m; to stop a queue, pause it');
  throw 51010, @says, 1;
end;
begin try
  begin transaction;
  exec rowlease_internal.take_lock @lock;
  update rowlease.QueueSettings set QueueName = QueueName where QueueName = @p_queue_name;
  if @@rowcount = 0
    insert into rowlease.QueueSettings (QueueName) values (@p_queue_name);
  select @was = s.MaxPriority, @group_rate = s.GroupRate from rowlease.QueueSettings as s where s.QueueName = @p_queue_name;
  if exists (select 1 from openjson(@p_settings) as j where j.type = 0
              and j.[key] not in ('capacity', 'policy_weights', 'max_in_flight', 'rate', 'group_rate'))
    throw 51010, N'only capacity, policy_weights, max_in_flight, rate and group_rate may be null', 1;
  update s
     set MaxPriority = coalesce(j.max_priority, s.MaxPriority),
         Capacity = case when g.capacity = 1 then j.capacity else s.Capacity end,
         LeaseSeconds = coalesce(j.lease_seconds, s.LeaseSeconds),
         MaxAttempts = coalesce(j.max_attempts, s.MaxAttempts),
         MaxCrashes = coalesce(j.max_crashes, s.MaxCrashes),
         RetryBaseMs = coalesce(j.retry_base_ms, s.RetryBaseMs),
         RetryCapMs = coalesce(j.retry_cap_ms, s.RetryCapMs),
         Paused = coalesce(j.paused, s.Paused), Policy = coalesce(j.policy, s.Policy),
         PolicyWeights = case when g.weights = 1 then j.policy_weights else s.PolicyWeights end,
         PolicyAgingSeconds = coalesce(j.policy_aging_seconds, s.PolicyAgingSeconds),
         MaxInFlight = case when g.in_flight = 1 then j.max_in_flight else s.MaxInFlight end,
         KeepHistory = coalesce(j.keep_history, s.KeepHistory),
         RetentionDays = coalesce(j.retention_days, s.RetentionDays),
         UnknownKindSeconds = coalesce(j.unknown_kind_seconds, s.UnknownKindSeconds),
         Rate = case when g.rate = 1 then j.rate else s.Rate end,
         GroupRate = case when g.group_rate = 1 then j.group_rate else s.GroupRate end
    from rowlease.QueueSettings as s
   cross apply openjson(@p_settings) with (
     max_priority smallint, capacity bigint, lease_seconds int, max_attempts int, max_crashes int,
     retry_base_ms int, retry_cap_ms int, paused bit, policy nvarchar(100),
     policy_weights nvarchar(max) as json, policy_aging_seconds int, max_in_flight int,
     keep_history bit, retention_days int, unknown_kind_seconds int, rate varchar(30),
     group_rate varchar(30)) as j
   cross join (select max(case when k.[key] = 'capacity' then 1 end) as capacity,
                      max(case when k.[key] = 'policy_weights' then 1 end) as weights,
                      max(case when k.[key] = 'max_in_flight' then 1 end) as in_flight,
                      max(case when k.[key] = 'rate' then 1 end) as rate, max(case when k.[key] = 'group_rate' then 1 end) as group_rate
                 from openjson(@p_settings) as k) as g
   where s.QueueName = @p_queue_name;
  exec rowlease_internal.end_delays @p_queue_name, @group_rate;
  set @max = (select s.MaxPriority from rowlease.QueueSettings as s where s.QueueName = @p_queue_name);
  if @max < @was
    exec rowlease_internal.lower_all @p_queue_name, @max;
  exec rowlease_internal.note_change N'configure_queue', N'queue', @p_queue_name, @p_settings, @p_actor;
  commit transaction;
end try
begin catch
  if xact_state() <> 0
    rollback transaction;
  if error_number() in (1205, 1222, 51012)
    throw;
  set @says = concat(N'a setting of queue "', @p_queue_name, N'" is out of range: ', error_message());
  throw 51010, @says, 1;
end catch;
exec rowlease.show_queue @p_queue_name;
