-- show_queue: show the settings of a queue.
-- params:   p_queue_name nvarchar(400)
create or alter procedure rowlease.show_queue @p_queue_name nvarchar(400)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @answer nvarchar(max), @weights nvarchar(max);
exec rowlease_internal.check_queue @p_queue_name;
set @answer = (
  select s.QueueName as queue_name, s.MaxPriority as max_priority, s.Capacity as capacity,
         s.LeaseSeconds as lease_seconds, s.MaxAttempts as max_attempts, s.MaxCrashes as max_crashes,
         s.RetryBaseMs as retry_base_ms, s.RetryCapMs as retry_cap_ms, s.Paused as paused,
         s.Policy as policy, cast(null as int) as policy_weights,
         s.PolicyAgingSeconds as policy_aging_seconds, s.MaxInFlight as max_in_flight,
         s.ConsumerPriorities as consumer_priorities, s.KeepHistory as keep_history,
         s.RetentionDays as retention_days, s.UnknownKindSeconds as unknown_kind_seconds,
         s.Rate as rate, s.GroupRate as group_rate
    from rowlease.QueueSettings as s where s.QueueName = @p_queue_name
     for json path, include_null_values, without_array_wrapper);
set @weights = (select s.PolicyWeights from rowlease.QueueSettings as s
                 where s.QueueName = @p_queue_name);
if @weights is not null
  set @answer = json_modify(@answer, '$.policy_weights', json_query(@weights));
select @answer as settings;
