-- requeue: move dead letters back into the queue, by id or by filter.
-- params:   p_request_ids nvarchar(max) (null: use the filter), p_queue_name nvarchar(400), p_kind
--           nvarchar(max), p_error_like nvarchar(max) (a LIKE pattern on last_error), p_limit int,
--           p_dry_run bit
-- returns:  request_id bigint, outcome text -- 'ok' | 'duplicate' (a live request has its dedup
--           key) | 'not_found' (it is not a dead letter)
-- errors:   RL001 neither ids nor a filter
-- locks:    the dedup keys, as lock_keys; rows of queue, exclusive; held to the caller's commit
-- why:      attempts and crashes are reset to 0; the token is never reset, and the mark of a
--           broken lease (lock_expires_time) stays. The request is due now, and its last error
--           stays until the next attempt. To requeue more than p_limit requests, call this until
--           it returns no row. In the pattern only % and _ are special, as in standard SQL. Rows
--           are updated one by one, in the order of their ids, as in cancel.
create or alter procedure rowlease.requeue
  @p_request_ids nvarchar(max) = null, @p_queue_name nvarchar(400) = null,
  @p_kind nvarchar(max) = null, @p_error_like nvarchar(max) = null, @p_limit int = 10000,
  @p_dry_run bit = 0
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @queue nvarchar(100) = N'', @keys nvarchar(max);
declare @like nvarchar(max) = replace(@p_error_like, N'[', N'\[') collate Latin1_General_100_BIN2;
declare @id bigint = -9223372036854775808;
declare @given table (Place int identity primary key, RequestId bigint);
declare @ids table (RequestId bigint not null primary key);
declare @held table (RequestId bigint not null primary key, Chosen bit not null);
if @p_request_ids is null and @p_queue_name is null and @p_kind is null and @p_error_like is null
  throw 51001, N'requeue needs request ids, or a queue, kind or error to select dead letters', 1;
if @p_request_ids is not null
  insert into @given (RequestId)
  select cast(i.value as bigint) from openjson(@p_request_ids) as i order by cast(i.[key] as int);
else
  insert into @given (RequestId)
  select top (@p_limit) q.RequestId
    from rowlease.Queue as q
   where q.Status = 'Failed' and (@p_queue_name is null or q.QueueName = @p_queue_name)
     and (@p_kind is null or q.Kind = @p_kind)
     and (@p_error_like is null or q.LastError collate Latin1_General_100_BIN2 like @like escape N'\')
   order by q.RequestId;
begin transaction;
while @queue is not null
begin
  set @queue = (select min(q.QueueName) from rowlease.Queue as q
                 where q.RequestId in (select g.RequestId from @given as g)
                   and q.Status = 'Failed' and q.DedupKey is not null and q.QueueName > @queue);
  set @keys = (select N'[' + string_agg(N'"' + string_escape(cast(q.DedupKey as nvarchar(max)), 'json')
                                        + N'"', N',') + N']'
                 from rowlease.Queue as q
                where q.RequestId in (select g.RequestId from @given as g)
                  and q.Status = 'Failed' and q.DedupKey is not null and q.QueueName = @queue);
  if @keys is not null
    exec rowlease_internal.lock_keys @queue, @keys;
end;
insert into @ids (RequestId)
select distinct g.RequestId from @given as g where g.RequestId is not null;
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
if @p_dry_run = 0
begin
  update q
     set Status = 'Pending', DueTime = @now, NumAttempts = 0, NumCrashes = 0, NumAbandons = 0,
         CompletionTime = null
    from @held as h
   inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
           on q.RequestId = h.RequestId and h.Chosen = 1
  option (loop join, force order, maxdop 1);
  insert into rowlease.QueueDepth (QueueName, Priority, Failed, Pending)
  select q.QueueName, q.Priority, -count(*), count(*)
    from @held as h
    join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = h.RequestId
   where h.Chosen = 1 group by q.QueueName, q.Priority;
end;
commit transaction;
select g.RequestId as request_id,
       case when h.Chosen = 1 then 'ok' when h.Chosen = 0 then 'duplicate' else 'not_found' end as outcome
  from @given as g left join @held as h on h.RequestId = g.RequestId order by g.Place;
