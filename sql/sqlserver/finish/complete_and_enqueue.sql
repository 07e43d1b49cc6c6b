-- complete_and_enqueue: finish a leased request and enqueue its successor, both or neither.
-- params:   p_request_id bigint, p_lock_token bigint, p_result nvarchar(max),
--           p_queue_name nvarchar(400) (of the successor, as all that follow), p_kind nvarchar(max),
--           p_payload nvarchar(max), p_priority int, p_delay_ms bigint, p_dedup_key nvarchar(max),
--           p_group_key nvarchar(max), p_max_attempts int, p_retry_base_ms int,
--           p_headers nvarchar(max)
-- errors:   as complete; RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL006 no kind,
--           RL007 attempts below 1, RL016 bad headers; 51019 a name or key ends in a blank
-- locks:    the successor's dedup key; as complete
create or alter procedure rowlease.complete_and_enqueue
  @p_request_id bigint, @p_lock_token bigint, @p_result nvarchar(max) = null,
  @p_queue_name nvarchar(400) = N'default', @p_kind nvarchar(max) = null,
  @p_payload nvarchar(max) = N'{}', @p_priority int = 0, @p_delay_ms bigint = null,
  @p_dedup_key nvarchar(max) = null, @p_group_key nvarchar(max) = null,
  @p_max_attempts int = null, @p_retry_base_ms int = null, @p_headers nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @load_id nvarchar(400), @held xml, @added xml;
declare @ids nvarchar(max) = concat(N'[', @p_request_id, N']');
declare @tokens nvarchar(max) = concat(N'[', @p_lock_token, N']');
declare @results nvarchar(max) = rowlease_internal.array_of(@p_result);
declare @kinds nvarchar(max) = rowlease_internal.array_of(@p_kind);
declare @payloads nvarchar(max) = rowlease_internal.array_of(@p_payload);
declare @priorities nvarchar(max) = concat(N'[', coalesce(@p_priority, 0), N']');
declare @delays nvarchar(max) = N'[' + cast(@p_delay_ms as nvarchar(20)) + N']';
declare @dedup_keys nvarchar(max) = case when @p_dedup_key is not null
                                         then rowlease_internal.array_of(@p_dedup_key) end;
declare @group_keys nvarchar(max) = rowlease_internal.array_of(@p_group_key);
declare @attempts nvarchar(max) = N'[' + cast(@p_max_attempts as nvarchar(20)) + N']';
declare @retries nvarchar(max) = N'[' + cast(@p_retry_base_ms as nvarchar(20)) + N']';
declare @headers nvarchar(max) = case when @p_headers is not null
                                      then rowlease_internal.array_of(@p_headers) end;
declare @answer table (RequestId bigint, Outcome varchar(20) not null);
begin transaction;
if @dedup_keys is not null
  exec rowlease_internal.lock_keys @p_queue_name, @dedup_keys;
set @load_id = (select q.LoadId from rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
                 where q.RequestId = @p_request_id);
exec rowlease_internal.complete_held @ids, @tokens, @results, @held output;
if @held is not null
begin
  exec rowlease_internal.check_queue @p_queue_name;
  exec rowlease_internal.add_requests @p_queue_name, @now, @kinds, @payloads, @priorities, @delays, null,
    @dedup_keys, @group_keys, @attempts, @retries, @added output, @headers, @load_id;
end;
insert into @answer (RequestId, Outcome)
select o.request_id, o.outcome
  from rowlease_internal.lease_outcomes(@ids, @tokens, cast(@held as nvarchar(max))) as o;
commit transaction;
select a.RequestId as request_id, a.Outcome as outcome from @answer as a;
