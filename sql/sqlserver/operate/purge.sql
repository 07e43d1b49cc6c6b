-- purge: delete waiting or failed requests for good.
-- params:   p_queue_name nvarchar(400), p_statuses nvarchar(max) (of Scheduled, Pending, Failed),
--           p_kind nvarchar(max), p_older_than_ms bigint (enqueued at least this long ago),
--           p_limit int, p_dry_run bit
-- returns:  bigint -- how many were deleted; in a dry run, how many would be
-- errors:   RL001 a status that cannot be purged, RL002 unknown queue
-- locks:    the requests' groups; the requests' own locks, without waiting; rows of queue, exclusive,
--           skipping locked ones
-- why:      running requests are not touched: cancel those instead. To delete more than p_limit
--           requests, call this until it returns 0.
create or alter procedure rowlease.purge
  @p_queue_name nvarchar(400), @p_statuses nvarchar(max) = N'["Failed"]', @p_kind nvarchar(max) = null,
  @p_older_than_ms bigint = 0, @p_limit int = 10000, @p_dry_run bit = 0
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @count bigint, @groups nvarchar(max), @ids nvarchar(max);
declare @id bigint = -1, @name nvarchar(255), @granted bit, @since datetime2(6);
declare @scheduled bit = 0, @pending bit = 0, @failed bit = 0;
declare @chosen table (RequestId bigint not null primary key);
declare @purged table (RequestId bigint not null primary key);
exec rowlease_internal.check_queue @p_queue_name;
if exists (select 1 from openjson(@p_statuses) as s
            where s.value collate Latin1_General_100_BIN2 not in (N'Scheduled', N'Pending', N'Failed'))
  throw 51001, N'purge deletes requests that are Scheduled, Pending or Failed; cancel running requests', 1;
select @scheduled = max(case s.value when N'Scheduled' then 1 else 0 end),
       @pending = max(case s.value when N'Pending' then 1 else 0 end),
       @failed = max(case s.value when N'Failed' then 1 else 0 end)
  from openjson(@p_statuses) as s;
set @since = rowlease_internal.add_ms(@now, -coalesce(@p_older_than_ms, 0));
begin transaction;
insert into @chosen (RequestId)
select top (@p_limit) q.RequestId
  from rowlease.Queue as q with (readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.RequestedTime <= @since
   and (q.Status = 'Scheduled' and @scheduled = 1 or q.Status = 'Pending' and @pending = 1
        or q.Status = 'Failed' and @failed = 1)
   and (@p_kind is null or q.Kind = @p_kind)
 order by q.RequestId;
set @count = @@rowcount;
if @p_dry_run = 0
begin
  set @ids = (select N'[' + string_agg(cast(c.RequestId as nvarchar(max)), N',') + N']'
                from @chosen as c);
  set @groups = (select g.queue_name as q, g.group_key as g
                   from rowlease_internal.groups_of(@ids) as g for json path);
  exec rowlease_internal.lock_groups @groups;
  while @id is not null
  begin
    set @id = (select min(c.RequestId) from @chosen as c where c.RequestId > @id);
    set @name = concat(N'rowlease:r:', @id);
    if @id is not null
      exec rowlease_internal.try_lock @name, @granted output;
    if @granted = 0
      delete from @chosen where RequestId = @id;
  end;
  update rowlease.Queue set LockToken = Queue.LockToken
  output inserted.RequestId into @purged (RequestId)
    from @chosen as c
   inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
           on Queue.RequestId = c.RequestId
   where Queue.Status = 'Scheduled' and @scheduled = 1 or Queue.Status = 'Pending' and @pending = 1
      or Queue.Status = 'Failed' and @failed = 1
  option (loop join, force order, maxdop 1);
  insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending, Failed)
  select @p_queue_name, q.Priority, -sum(case when q.Status = 'Scheduled' then 1 else 0 end),
         -sum(case when q.Status = 'Pending' then 1 else 0 end),
         -sum(case when q.Status = 'Failed' then 1 else 0 end)
    from @purged as p
    join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
      on q.RequestId = p.RequestId group by q.Priority;
  delete from rowlease.Attempt where RequestId in (select p.RequestId from @purged as p);
  delete q
    from @purged as p
   inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
           on q.RequestId = p.RequestId
  option (loop join, force order, maxdop 1);
  set @count = @@rowcount;
  exec rowlease_internal.unblock_groups @groups;
end;
commit transaction;
select @count as purge;
