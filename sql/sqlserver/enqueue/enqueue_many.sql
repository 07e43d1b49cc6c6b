-- enqueue_many: put many requests into a queue, all or none.
-- params:   p_queue_name nvarchar(400), p_kinds nvarchar(max), p_payloads nvarchar(max),
--           p_priorities nvarchar(max), p_delays_ms nvarchar(max), p_due_times nvarchar(max),
--           p_dedup_keys nvarchar(max), p_group_keys nvarchar(max), p_max_attempts nvarchar(max),
--           p_retry_bases_ms nvarchar(max), p_headers nvarchar(max), p_receipt_key nvarchar(400),
--           p_in_transaction bit, p_wait_ms bigint, p_waiter_id bigint, p_batch_id nvarchar(400) (the
--           batch that they join), p_after nvarchar(400) (the batch that they wait for)
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL005 queue is full,
--           RL006 no kind, RL007 attempts below 1, RL016 bad headers, RL017 as take_batches;
--           51019 a name or key ends in a blank
-- locks:    the receipt's key; the queue's admission lock if it has a capacity; as
--           take_batches and add_requests
-- why:      with the same receipt, a second call after an unknown commit returns the ids of the
--           first call. If an array is null, every request has the default. An error would roll the
--           caller's transaction back, so with a p_wait_ms a full queue is a row.
create or alter procedure rowlease.enqueue_many
  @p_queue_name nvarchar(400), @p_kinds nvarchar(max), @p_payloads nvarchar(max),
  @p_priorities nvarchar(max) = null, @p_delays_ms nvarchar(max) = null,
  @p_due_times nvarchar(max) = null, @p_dedup_keys nvarchar(max) = null,
  @p_group_keys nvarchar(max) = null, @p_max_attempts nvarchar(max) = null,
  @p_retry_bases_ms nvarchar(max) = null, @p_headers nvarchar(max) = null,
  @p_receipt_key nvarchar(400) = null, @p_in_transaction bit = 1, @p_wait_ms bigint = null,
  @p_waiter_id bigint = null, @p_batch_id nvarchar(400) = null, @p_after nvarchar(400) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @lock nvarchar(255), @ids nvarchar(max), @admitted bit, @folded bigint;
declare @waits bit = 0, @added xml, @count int = (select count(*) from openjson(@p_kinds));
declare @priority int = (select max(coalesce(cast(p.value as int), 0))
                           from openjson(coalesce(@p_priorities, N'[0]')) as p);
declare @answers table (Place int not null primary key, RequestId bigint, Outcome varchar(10) not null);
if datalength(@p_receipt_key) > datalength(rtrim(@p_receipt_key))
   or datalength(@p_batch_id) > datalength(rtrim(@p_batch_id))
  throw 51019, N'a name or key ends in a blank; leave the blank out', 1;
begin transaction;
if @p_receipt_key is not null
begin
  set @lock = rowlease_internal.lock_name(N'receipt', N'', @p_receipt_key);
  exec rowlease_internal.take_lock @lock;
  select @ids = r.RequestIds from rowlease.EnqueueReceipt as r where r.ReceiptKey = @p_receipt_key;
  if @ids is not null
  begin
    commit transaction;
    select cast(i.value as bigint) as request_id, 'repeat' as outcome,
           rowlease_internal.requested_us(i.value) as requested_us from openjson(@ids) as i
     order by cast(i.[key] as int);
    return;
  end;
end;
set @now = rowlease.now();
exec rowlease_internal.check_capacity @p_queue_name, @count, @priority, @now, @admitted output, @p_waiter_id, @p_wait_ms;
if @admitted = 0
begin
  if @p_wait_ms > 0
    exec rowlease_internal.wait_for_room @p_queue_name, @priority, @count, @now, @p_wait_ms, @p_waiter_id output;
  commit transaction;
  select case when @p_wait_ms > 0 then @p_waiter_id end as request_id, 'full' as outcome,
         cast(null as bigint) as requested_us;
  return;
end;
if @p_batch_id is not null or @p_after is not null
  exec rowlease_internal.take_batches @p_batch_id, @p_after, @now, @p_delays_ms, @p_due_times,
                                      @p_headers, @waits output;
if @waits = 1
  set @p_due_times = (select N'[' + string_agg(cast(N'"9999-12-31"' as nvarchar(max)), N',') + N']'
                        from openjson(@p_kinds));
exec rowlease_internal.add_requests @p_queue_name, @now, @p_kinds, @p_payloads, @p_priorities,
  @p_delays_ms, @p_due_times, @p_dedup_keys, @p_group_keys, @p_max_attempts, @p_retry_bases_ms,
  @added output, @p_headers, @p_batch_id;
insert into @answers (Place, RequestId, Outcome)
select a.place, a.request_id, a.outcome
  from openjson(cast(@added as nvarchar(max)))
       with (place int, request_id bigint, outcome varchar(10)) as a;
if @p_after is not null
begin
  set @ids = (select N'[' + string_agg(cast(a.RequestId as nvarchar(max)), N',') + N']'
                from @answers as a where a.Outcome = 'ok');
  exec rowlease_internal.wait_for_batch @p_after, @ids, @waits;
end;
if @p_receipt_key is not null
begin
  set @ids = (select N'[' + string_agg(coalesce(cast(a.RequestId as nvarchar(max)), N'null'), N',')
                            within group (order by a.Place) + N']' from @answers as a);
  insert into rowlease.EnqueueReceipt (ReceiptKey, RequestIds, ReceivedTime)
  values (@p_receipt_key, coalesce(@ids, N'[]'), @now);
end;
if @p_waiter_id is not null
  delete from rowlease.QueueWaiter where WaiterId = @p_waiter_id;
-- Where no worker calls maintain, one call in 200 folds the counts.
if @p_in_transaction = 0 and rand() < 0.005
  exec rowlease_internal.fold_depth 2000, @folded output;
commit transaction;
select a.RequestId as request_id, a.Outcome as outcome, case a.Outcome when 'ok' then
       datediff_big(microsecond, '1970-01-01', @now) else rowlease_internal.requested_us(a.RequestId)
       end as requested_us from @answers as a order by a.Place;
