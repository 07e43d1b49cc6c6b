-- disown: give up a worker's leases in these queues, except those the worker lists.
-- params:   p_worker_id nvarchar(400), p_queue_names nvarchar(max), p_request_ids nvarchar(max),
--           p_lock_tokens nvarchar(max)
-- locks:    as abandon; others' rows that are locked are skipped
-- why:      if a claim commits but its answer is lost, it leaves leased requests that no worker
--           knows about. Their leases would run out and count as crashes. A request being finished
--           concurrently is safe: it is skipped, or abandon finds another token under the lock of
--           the row.
create or alter procedure rowlease.disown
  @p_worker_id nvarchar(400), @p_queue_names nvarchar(max), @p_request_ids nvarchar(max),
  @p_lock_tokens nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @ids nvarchar(max), @tokens nvarchar(max);
declare @named table (RequestId bigint not null, LockToken bigint not null,
                      primary key (RequestId, LockToken));
declare @left table (RequestId bigint not null primary key, LockToken bigint not null);
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens;
insert into @named (RequestId, LockToken)
select distinct h.request_id, h.lock_token
  from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as h
 where h.request_id is not null and h.lock_token is not null;
insert into @left (RequestId, LockToken)
select q.RequestId, q.LockToken
  from (select distinct cast(o.value as nvarchar(400)) collate Latin1_General_100_BIN2 as queue_name
          from openjson(@p_queue_names) as o) as w
  join rowlease.Queue as q with (forceseek (queue_expiring (QueueName)), readpast, readcommittedlock)
    on q.QueueName = w.queue_name
 where q.Status = 'Processing' and q.LockedBy = @p_worker_id
   and not exists (select 1 from @named as n
                    where n.RequestId = q.RequestId and n.LockToken = q.LockToken);
select @ids = coalesce(N'[' + string_agg(cast(l.RequestId as nvarchar(max)), N',')
                         within group (order by l.RequestId) + N']', N'[]'),
       @tokens = coalesce(N'[' + string_agg(cast(l.LockToken as nvarchar(max)), N',')
                            within group (order by l.RequestId) + N']', N'[]')
  from @left as l;
exec rowlease.abandon @ids, @tokens;
