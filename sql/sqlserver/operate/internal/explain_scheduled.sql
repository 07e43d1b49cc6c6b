-- explain_scheduled: explain why a request is not due yet; a part of explain.
-- params:   p_request_id bigint, p_now datetime2(6), p_reason varchar(20) output,
--           p_message nvarchar(4000) output
-- returns:  in p_reason 'batch' | 'unknown_kind' | 'consumer_priority' | 'snoozed' | 'rate' | 'scheduled', in
--           p_message a sentence
create or alter procedure rowlease_internal.explain_scheduled
  @p_request_id bigint, @p_now datetime2(6), @p_reason varchar(20) output,
  @p_message nvarchar(4000) output
as
set nocount on;
set xact_abort on;
declare @queue nvarchar(100), @kind nvarchar(200), @due datetime2(6), @token bigint;
declare @group nvarchar(200);
declare @text nvarchar(400), @declined bit;
select @queue = q.QueueName, @kind = q.Kind, @due = q.DueTime, @token = q.LockToken,
       @group = q.GroupKey, @declined = q.Returned
  from rowlease.Queue as q where q.RequestId = @p_request_id;
set @text = concat(N'it is due at ', rowlease_internal.time_text(@due), N', in ',
                   rowlease_internal.seconds_text(datediff_big(microsecond, @p_now, @due) / 1000000),
                   case when @declined = 1
                        then N', or when a worker that knows its kind has a free slot' end);
if @due <= dateadd(second, 30, @p_now)
  exec rowlease_internal.explain_workers @queue, @kind, @p_now, @p_reason output, @p_message output;
if @p_reason is null or @p_reason = 'no_worker'
begin
  select @p_reason = 'scheduled', @p_message = @text;
  select @p_reason = 'batch',
         @p_message = concat(N'it waits for the batch "', b.BatchId, N'" (unfinished: ', b.NumLive, N' of ',
                             b.NumRequests, N')')
    from rowlease.BatchWait as w join rowlease.Batches as b on b.BatchId = w.BatchId
   where w.RequestId = @p_request_id and @due = '9999-12-31';
  select @p_reason = 'snoozed',
         @p_message = concat(N'its task snoozed it at ', rowlease_internal.time_text(a.EndedTime),
                             N': ' + nullif(a.Error, N''), N'; ', @text)
    from rowlease.Attempt as a
   where a.RequestId = @p_request_id and a.LockToken = @token and a.Outcome = 'snoozed';
  select @p_reason = 'rate',
         @p_message = concat(N'the queue allows ', s.GroupRate, N' starts of a group, and the group "',
                             @group, N'" has used them; the next start is possible at ',
                             rowlease_internal.time_text(@due))
    from rowlease.QueueSettings as s
   where s.QueueName = @queue
     and exists (select 1 from rowlease.RateStart as r
                  where r.QueueName = @queue and r.RateKey = N':' + @group and r.ExpiresTime = @due);
end;
