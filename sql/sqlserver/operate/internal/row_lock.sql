-- row_lock: explain which session has locked a request, or its queue's gate.
-- params:   p_request_id bigint, p_queue_name nvarchar(400) (null: look at no gate),
--           p_message nvarchar(4000) output
-- returns:  p_message -- null: neither is locked
-- locks:    none; rows that others have locked are skipped
-- why:      if a row exists but a read with READPAST skips it, the row is locked. Every claim
--           locks rows for a moment, so explain checks twice.
create or alter procedure rowlease_internal.row_lock
  @p_request_id bigint, @p_queue_name nvarchar(400), @p_message nvarchar(4000) output
as
set nocount on;
set xact_abort on;
declare @name nvarchar(255) = rowlease_internal.lock_name(N'gate', @p_queue_name, N'');
set @p_message = null;
if not exists (select 1 from rowlease.Queue as q with (readpast, readcommittedlock)
                where q.RequestId = @p_request_id)
   and exists (select 1 from rowlease.Queue as q where q.RequestId = @p_request_id)
  set @p_message = N' has locked the request''s row; claims skip it';
else if exists (select 1 from rowlease.[Load] as l
                  join rowlease.LanePart as p on p.RunNumber = l.RunNumber
                  join rowlease.Lane as r on r.RunNumber = p.RunNumber and r.Priority = p.Priority
                                         and r.Part = p.Part and r.RequestId = @p_request_id
                 where l.InLane = 1)
        and not exists (select 1 from rowlease.[Load] as l
                          join rowlease.LanePart as p on p.RunNumber = l.RunNumber
                          join rowlease.Lane as r with (readpast, readcommittedlock)
                            on r.RunNumber = p.RunNumber and r.Priority = p.Priority
                           and r.Part = p.Part and r.RequestId = @p_request_id
                         where l.InLane = 1)
  set @p_message = N' has locked the request''s row; claims skip it';
else if @p_queue_name is not null
        and applock_test(N'rowlease_lock', @name, 'Exclusive', 'Session') = 0
  set @p_message = concat(N' has the gate of the queue "', @p_queue_name,
                        N'", an application lock; nothing is claimed from the queue');
