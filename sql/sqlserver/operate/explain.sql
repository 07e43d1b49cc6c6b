-- explain: explain in one sentence why a request is not claimed.
-- params:   p_request_id bigint
-- locks:    the counts' lock, shared, if the queue has an in-flight limit
-- why:      it returns the first reason that applies, in the order in which a claim would check
--           them. It counts at most 10,000 requests that are ahead of this one. It names the
--           session that holds a lock only if the login may see the server's state. It does not
--           report locks on whole tables, because every reader waits for those.
create or alter procedure rowlease.explain @p_request_id bigint
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @queue nvarchar(100), @status varchar(10);
declare @due datetime2(6), @by nvarchar(200), @expires datetime2(6), @completed datetime2(6);
declare @attempts int, @max_attempts int, @error nvarchar(max), @paused bit, @has_settings bit = 0;
declare @limited nvarchar(100), @lock nvarchar(4000), @again nvarchar(4000), @who nvarchar(4000);
declare @cancels bit, @asked_by nvarchar(200), @asked datetime2(6);
declare @held nvarchar(60), @kind nvarchar(200), @reason varchar(20), @why nvarchar(4000), @message nvarchar(max);
select @queue = r.QueueName, @status = r.Status, @due = r.DueTime, @by = r.LockedBy,
       @expires = r.LockExpiresTime, @attempts = r.NumAttempts, @max_attempts = r.MaxAttempts,
       @error = left(r.LastError, charindex(nchar(10), r.LastError + nchar(10)) - 1),
       @completed = r.CompletionTime, @kind = r.Kind, @cancels = r.CancelRequested
  from rowlease.Requests as r where r.RequestId = @p_request_id;
select @asked_by = c.AskedBy, @asked = c.AskedTime
  from rowlease.Cancellation as c where c.RequestId = @p_request_id;
select @paused = s.Paused, @has_settings = 1,
       @limited = case when s.MaxInFlight is not null then s.QueueName end
  from rowlease.QueueSettings as s where s.QueueName = @queue;
if @status is null
  select @reason = 'unknown', @message = N'there is no such request; it may have been purged';
else if @status in ('Complete', 'Cancelled')
  select @reason = 'finished',
         @message = concat(N'it has been ', @status, N' since ', rowlease_internal.time_text(@completed),
                           case when @status = 'Cancelled' then N', by ' + @asked_by end);
else if @status = 'Failed'
  select @reason = 'dead_letter',
         @message = concat(N'it is a dead letter after attempt ', @attempts, N' of ', @max_attempts,
                         N': ', @error, N'; revive it with requeue');
else if @cancels = 1 and @expires > @now
  select @reason = 'cancelling',
         @message = concat(@asked_by, N' has cancelled it at ', rowlease_internal.time_text(@asked), N'; ',
                           @by, N', which runs it, is asked to stop it');
else if @status = 'Processing' and @expires > @now
  select @reason = 'running',
         @message = concat(@by, N' has leased it until ', rowlease_internal.time_text(@expires),
                         N', and renews the lease as long as it is alive');
else if @has_settings = 0
  select @reason = 'no_queue',
         @message = concat(N'the queue "', @queue, N'" no longer has settings; create it again with ',
                         N'configure_queue');
else if @paused = 1
  select @reason = 'paused', @message = concat(N'the queue "', @queue, N'" is paused; resume it');
else if @status = 'Scheduled' and @due > @now
  exec rowlease_internal.explain_scheduled @p_request_id, @now, @reason output, @why output;
else
begin
  exec rowlease_internal.row_lock @p_request_id, @limited, @lock output;
  if @status = 'Processing'
    select @reason = 'expired',
           @message = concat(N'the lease of ', @by, N' ran out at ', rowlease_internal.time_text(@expires),
                           N'; the next claim or maintain breaks it');
  else
    exec rowlease_internal.explain_waiting @p_request_id, @now, @reason output, @why output;
  if @lock is not null
    exec rowlease_internal.row_lock @p_request_id, @limited, @again output;
end;
if @lock = @again
begin
  begin try
    set @held = case when @lock like N'%''s row;%' then N'KEY' else N'APPLICATION' end;
    exec rowlease_internal.describe_session @held, @who output;
  end try
  begin catch
    set @who = null;
  end catch;
  select @reason = 'locked',
         @message = concat(coalesce(@who, N'another session'), @lock, N' until its transaction ends');
end;
select @reason as reason, coalesce(@message, @why) as message;
