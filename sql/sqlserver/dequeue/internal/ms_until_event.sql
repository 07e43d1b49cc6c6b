-- ms_until_event: compute the milliseconds until the next scheduled request is due or lease expires.
-- params:   p_queue_names nvarchar(max), p_now datetime2(6), p_ms bigint output
-- returns:  p_ms -- 0: a request is due, or its lease has run out, but another transaction has locked
--           it, or (without READ_COMMITTED_SNAPSHOT) has locked a row that may be; null: nothing is
--           scheduled or leased in a queue that is not paused
-- errors:   none
-- locks:    none, without waiting
-- why:      one probe of each of two indexes for each queue. It sees rows that others have locked:
--           the caller may wait for such a row only a little. Error 1222 says that a row is locked; with
--           XACT_ABORT on, it would end the claim.
create or alter procedure rowlease_internal.ms_until_event
  @p_queue_names nvarchar(max), @p_now datetime2(6), @p_ms bigint output
as
set nocount on;
set xact_abort on;
declare @next datetime2(6);
set xact_abort off;
begin try
  select @next = min(e.Time)
    from openjson(@p_queue_names) as n
   inner join rowlease.QueueSettings as s
           on s.QueueName = cast(n.value as nvarchar(400)) collate Latin1_General_100_BIN2
          and s.Paused = 0
   cross apply (
     select d.Time
       from (select top (1) q.DueTime as Time
               from rowlease.Queue as q
                 with (forceseek (queue_scheduled (QueueName)), nowait)
              where q.QueueName = s.QueueName
                and q.Status = 'Scheduled'
              order by q.DueTime) as d
      union all
     select p.Time
       from (select top (1) q.LockExpiresTime as Time
               from rowlease.Queue as q
                 with (forceseek (queue_expiring (QueueName)), nowait)
              where q.QueueName = s.QueueName
                and q.Status = 'Processing'
              order by q.LockExpiresTime) as p) as e;
end try
begin catch
  set xact_abort on;
  if error_number() <> 1222
    throw;
  set @next = @p_now;
end catch;
-- Rounded up: a caller that wakes too early finds nothing.
set @p_ms = (datediff_big(microsecond, @p_now, @next) + 999) / 1000;
if @p_ms < 0
  set @p_ms = 0;
