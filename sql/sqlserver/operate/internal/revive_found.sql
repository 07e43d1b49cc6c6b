-- revive_found: make dead letters wait again.
-- params:   p_now datetime2(6)
-- returns:  the outcomes in the caller's table #touched, whose requests these are: 'ok' | 'duplicate' (a
--           live request has its dedup key) | 'not_found' (it is not a dead letter)
-- errors:   51012 as take_lock
-- locks:    the dedup keys, as lock_keys; rows of queue, exclusive; held to the caller's commit
-- why:      attempts and crashes are reset to 0; the token is never reset, and the mark of a
--           broken lease (lock_expires_time) stays. The request is due now, and its last error
--           stays until the next attempt. Rows are locked one by one, in the order of their ids.
create or alter procedure rowlease_internal.revive_found @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
declare @queue nvarchar(100) = N'', @keys nvarchar(max), @id bigint = -1;
declare @held table (RequestId bigint not null primary key, Chosen bit not null);
while @queue is not null
begin
  set @queue = (select min(q.QueueName) from rowlease.Queue as q
                 where q.RequestId in (select t.RequestId from #touched as t)
                   and q.Status = 'Failed' and q.DedupKey is not null and q.QueueName > @queue);
  set @keys = (select N'[' + string_agg(N'"' + string_escape(cast(q.DedupKey as nvarchar(max)), 'json')
                                        + N'"', N',') + N']'
                 from rowlease.Queue as q
                where q.RequestId in (select t.RequestId from #touched as t)
                  and q.Status = 'Failed' and q.DedupKey is not null and q.QueueName = @queue);
  if @keys is not null
    exec rowlease_internal.lock_keys @queue, @keys;
end;
while @id is not null
begin
  set @id = (select min(t.RequestId) from #touched as t where t.RequestId > @id);
  update rowlease.Queue set LockToken = LockToken
  output inserted.RequestId, 0 into @held (RequestId, Chosen)
    from rowlease.Queue with (index (queue_pkey), forceseek, rowlock)
   where RequestId = @id and Status = 'Failed' option (maxdop 1);
end;
-- If several dead letters have the same dedup key, only the first is requeued.
update @held set Chosen = 1
 where RequestId in (
   select c.RequestId
     from (select q.RequestId, q.QueueName, q.DedupKey, row_number() over (
                    partition by q.QueueName, q.DedupKey order by q.RequestId) as turn
             from @held as h join rowlease.Queue as q on q.RequestId = h.RequestId) as c
    where c.DedupKey is null or c.turn = 1 and not exists (
      select 1 from rowlease.Queue as l
       where l.QueueName = c.QueueName and l.DedupKey = c.DedupKey and l.DedupKey is not null
         and l.Status <> 'Failed'));
update q
   set Status = 'Pending', DueTime = @p_now, NumAttempts = 0, NumCrashes = 0, NumAbandons = 0,
       CompletionTime = null
  from @held as h
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = h.RequestId and h.Chosen = 1
option (loop join, force order, maxdop 1);
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Failed, Pending)
select q.QueueName, q.Priority, q.LoadId, -count(*), count(*)
  from @held as h
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = h.RequestId
 where h.Chosen = 1 group by q.QueueName, q.Priority, q.LoadId;
update #touched
   set Outcome = coalesce((select case h.Chosen when 1 then 'ok' else 'duplicate' end
                             from @held as h where h.RequestId = #touched.RequestId), 'not_found');
