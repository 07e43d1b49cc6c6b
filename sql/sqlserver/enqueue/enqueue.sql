-- enqueue: put one request into a queue.
-- params:   p_queue_name nvarchar(400), p_kind nvarchar(max), p_payload nvarchar(max), p_priority int,
--           p_delay_ms bigint, p_due_time datetime2(6), p_dedup_key nvarchar(max),
--           p_group_key nvarchar(max), p_max_attempts int, p_retry_base_ms int,
--           p_headers nvarchar(max), p_receipt_key nvarchar(400), p_in_transaction bit,
--           p_wait_ms bigint
-- why:      the short form for a single request and for use by hand.
create or alter procedure rowlease.enqueue
  @p_queue_name nvarchar(400), @p_kind nvarchar(max), @p_payload nvarchar(max) = N'{}',
  @p_priority int = 0, @p_delay_ms bigint = null, @p_due_time datetime2(6) = null,
  @p_dedup_key nvarchar(max) = null, @p_group_key nvarchar(max) = null, @p_max_attempts int = null,
  @p_retry_base_ms int = null, @p_headers nvarchar(max) = null,
  @p_receipt_key nvarchar(400) = null, @p_in_transaction bit = 1, @p_wait_ms bigint = null
as
set nocount on;
set xact_abort on;
declare @kinds nvarchar(max) = rowlease_internal.array_of(@p_kind);
declare @payloads nvarchar(max) = rowlease_internal.array_of(@p_payload);
declare @priorities nvarchar(max) = concat(N'[', coalesce(@p_priority, 0), N']');
declare @delays nvarchar(max) = N'[' + cast(@p_delay_ms as nvarchar(20)) + N']';
declare @dues nvarchar(max) = rowlease_internal.array_of(convert(nvarchar(30), @p_due_time, 126));
declare @dedup_keys nvarchar(max) = case when @p_dedup_key is not null
                                         then rowlease_internal.array_of(@p_dedup_key) end;
declare @group_keys nvarchar(max) = rowlease_internal.array_of(@p_group_key);
declare @attempts nvarchar(max) = N'[' + cast(@p_max_attempts as nvarchar(20)) + N']';
declare @retries nvarchar(max) = N'[' + cast(@p_retry_base_ms as nvarchar(20)) + N']';
declare @headers nvarchar(max) = case when @p_headers is not null
                                      then rowlease_internal.array_of(@p_headers) end;
exec rowlease.enqueue_many @p_queue_name, @kinds, @payloads, @priorities, @delays, @dues, @dedup_keys,
  @group_keys, @attempts, @retries, @headers, @p_receipt_key, @p_in_transaction, @p_wait_ms;
