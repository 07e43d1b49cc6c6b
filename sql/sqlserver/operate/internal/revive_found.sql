-- revive_found: make dead letters wait again.
-- params:   p_request_ids nvarchar(max), p_now datetime2(6), p_revived xml output
-- returns:  p_revived -- a JSON array with an object for each of them in queue: request_id, outcome --
--           'ok' | 'duplicate' (a live request has its dedup key) | 'not_found' (it is not a dead
--           letter)
-- errors:   51012 as take_lock
-- locks:    the dedup keys, as lock_keys; rows of queue, exclusive; held to the caller's commit
-- why:      attempts and crashes are reset to 0; the token is never reset, and the mark of a
--           broken lease (lock_expires_time) stays. The request is due now, and its last error
--           stays until the next attempt. Rows are locked one by one, in the order of their ids.
create or alter procedure rowlease_internal.revive_found
  @p_request_ids nvarchar(max), @p_now datetime2(6), @p_revived xml output
as
set nocount on;
set xact_abort on;
declare @queue nvarchar(100) = N'', @keys nvarchar(max), @id bigint = -1;
declare @ids table (RequestId bigint not null primary key);
declare @held table (RequestId bigint not null primary key, Chosen bit not null);
insert into @ids (RequestId)
select q.RequestId
  from openjson(@p_request_ids) as i join rowlease.Queue as q on q.RequestId = cast(i.value as bigint);
while @queue is not null
begin
  set @queue = (select min(q.QueueName) from rowlease.Queue as q
                 where q.RequestId in (select i.RequestId from @ids as i)
                   and q.Status = 'Failed' and q.DedupKey is not null and q.QueueName > @queue);
  set @keys = (select N'[' + string_agg(N'"' + string_escape(cast(q.DedupKey as nvarchar(max)), 'json')
                                        + N'"', N',') + N']'
                 from rowlease.Queue as q
                where q.RequestId in (select i.RequestId from @ids as i)
                  and q.Status = 'Failed' and q.DedupKey is not null and q.QueueName = @queue);
  if @keys is not null
    exec rowlease_internal.lock_keys @queue, @keys;
end;
while @id is not null
begin
  set @id = (select min(i.RequestId) from @ids as i where i.RequestId > @id);
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
set @p_revived = rowlease_internal.as_xml((
  select i.RequestId as request_id,
         case when h.RequestId is null then 'not_found' when h.Chosen = 1 then 'ok' else 'duplicate' end as outcome
    from @ids as i left join @held as h on h.RequestId = i.RequestId for json path));
