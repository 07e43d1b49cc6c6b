-- find_ids: find the ids of requests, newest first, in a step of bounded cost.
-- params:   p_filter nvarchar(max) (as of find_requests), p_now datetime2(6) (for ages), p_after
--           bigint (look below this id), p_limit int (how many to return), p_look int (how many to
--           look at), p_found xml output, p_next bigint output
-- returns:  p_found -- the ids, as a JSON array; null: none; p_next -- where the next call continues;
--           null: there are no more
-- why:      few filters have an index, so a call reads at most p_look requests of each table, and the
--           next call continues below them. The statuses of the filter decide which tables are read.
--           Ids have an index of their own, and so have dead letters and running requests, if the
--           filter selects only these. The index of leases is not in the order of ids, so all leases
--           of the queue are read, if there are at most ten times p_look. If there are more, the
--           newest p_look requests are read. In the lane, ids are counted.
create or alter procedure rowlease_internal.find_ids
  @p_filter nvarchar(max), @p_now datetime2(6), @p_after bigint, @p_limit int, @p_look int, @p_found xml output,
  @p_next bigint output
as
set nocount on;
set xact_abort on;
declare @below bigint = coalesce(@p_after, 9223372036854775807), @from bigint = 0, @edge bigint;
declare @named bit = 0, @dead bit = 0, @runs bit = 0, @live bit = 1, @past bit = 1, @chosen bit = 0, @lane bit;
declare @queue nvarchar(4000), @kind nvarchar(4000), @error nvarchar(max), @pattern nvarchar(max);
declare @dedup nvarchar(4000), @group nvarchar(4000), @load nvarchar(4000), @worker nvarchar(4000);
declare @min int, @max int, @since datetime2(6), @until datetime2(6), @oldest datetime2(6), @newest datetime2(6);
declare @statuses table (Status varchar(10) collate Latin1_General_100_BIN2 not null primary key);
declare @ids table (RequestId bigint not null primary key);
declare @found table (RequestId bigint not null primary key);
select @queue = j.queue, @kind = j.kind, @error = lower(j.error), @dedup = j.dedup_key,
       @pattern = j.error_pattern, @group = j.group_key, @load = j.load_id, @worker = j.worker,
       @min = coalesce(j.min_priority, 0), @max = coalesce(j.max_priority, 255),
       @since = coalesce(j.since, '0001-01-01'), @until = coalesce(j.until, '9999-12-31'),
       @oldest = coalesce(rowlease_internal.add_ms(@p_now, -j.max_age_ms), '0001-01-01'),
       @newest = coalesce(rowlease_internal.add_ms(@p_now, -j.min_age_ms), '9999-12-31')
  from openjson(@p_filter) with (
    queue nvarchar(max), kind nvarchar(max), error nvarchar(max), error_pattern nvarchar(max),
    dedup_key nvarchar(max), group_key nvarchar(max), load_id nvarchar(max), worker nvarchar(max),
    min_priority int, max_priority int, min_age_ms bigint, max_age_ms bigint, since datetime2(6), until datetime2(6)) as j;
insert into @statuses (Status)
select distinct left(s.value, 10) from openjson(@p_filter, '$.status') as s;
insert into @ids (RequestId)
select distinct cast(i.value as bigint) from openjson(@p_filter, '$.ids') as i
 where cast(i.value as bigint) < @below;
select @named = coalesce(max(case when j.[key] = 'ids' and j.type = 4 then 1 else 0 end), 0),
       @chosen = coalesce(max(case when j.[key] = 'status' and j.type = 4 then 1 else 0 end), 0)
  from openjson(@p_filter) as j;
if @chosen = 1
begin
  set @dead = case when exists (select 1 from @statuses as s where s.Status <> 'Failed') then 0 else 1 end;
  set @runs = case when exists (select 1 from @statuses as s where s.Status <> 'Processing') then 0
                   when (select coalesce(sum(d.Processing), 0)
                           from rowlease.QueueDepth as d with (readpast, readcommittedlock)
                          where d.QueueName = coalesce(@queue, d.QueueName)) <= 10 * @p_look
                   then 1 else 0 end;
  set @past = (select count(*) from @statuses as s where s.Status in ('Complete', 'Cancelled'));
  set @live = case when @dead = 0 and @runs = 0 and exists (
    select 1 from @statuses as s where s.Status not in ('Complete', 'Cancelled')) then 1 else 0 end;
end;
if @named = 1 select @dead = 0, @runs = 0, @past = 0, @live = 0;
set @lane = case when @live = 1 and (@chosen = 0 or exists (
  select 1 from @statuses as s where s.Status = 'Pending')) then 1 else 0 end;
select @from = q.RequestId
  from rowlease.Queue as q
 where q.RequestId < @below
   and (@live = 1 or @dead = 1 and q.Status = 'Failed'
                     and (@queue is null or q.QueueName = @queue))
 order by q.RequestId desc offset @p_look - 1 rows fetch next 1 rows only
option (recompile);
select @edge = h.RequestId
  from rowlease.QueueHistory as h
 where h.RequestId < @below and @past = 1
 order by h.RequestId desc offset @p_look - 1 rows fetch next 1 rows only
option (recompile);
select @from = max(e.Edge) from (select @from as Edge union all select @edge union all
        select max(case when p.LastId < @below then p.LastId + 1 else @below end) - @p_look
          from rowlease.[Load] as l join rowlease.LanePart as p on p.RunNumber = l.RunNumber
         where @lane = 1 and l.InLane = 1 and p.FirstId < @below) as e;
insert into @found (RequestId)
select top (@p_limit) r.RequestId
  from (select q.RequestId, q.QueueName, q.Kind, q.Status, q.RequestedTime, q.DedupKey, q.GroupKey,
               q.LastError, q.LoadId, q.LockedBy, q.Priority
          from rowlease.Queue as q
         where q.RequestId < @below
           and (@live = 1 and q.RequestId >= @from
                or @runs = 1 and q.Status = 'Processing' and (@queue is null or q.QueueName = @queue)
                or @dead = 1 and q.Status = 'Failed' and q.RequestId >= @from)
         union all
        select h.RequestId, h.QueueName, h.Kind, h.Status, h.RequestedTime, h.DedupKey, h.GroupKey,
               h.LastError, h.LoadId, h.LockedBy, h.Priority
          from rowlease.QueueHistory as h
         where @past = 1 and h.RequestId >= @from and h.RequestId < @below
         union all
        select a.request_id, a.queue_name, a.kind, 'Pending', a.requested_time, null, null, null, a.load_id,
               null, a.priority
          from rowlease_internal.found_in_lane(@from, @below) as a where @lane = 1
         union all
        select v.RequestId, v.QueueName, v.Kind, v.Status, v.RequestedTime, v.DedupKey, v.GroupKey,
               v.LastError, v.LoadId, v.LockedBy, v.Priority
          from @ids as i join rowlease.Requests as v on v.RequestId = i.RequestId
         where @named = 1) as r
 where (@queue is null or r.QueueName = @queue) and (@kind is null or r.Kind = @kind)
   and (@chosen = 0 or r.Status in (select s.Status from @statuses as s))
   and (@error is null or charindex(@error, lower(r.LastError)) > 0)
   and (@pattern is null or rowlease_internal.error_pattern(r.LastError) = @pattern collate Latin1_General_100_BIN2)
   and (@dedup is null or r.DedupKey = @dedup) and (@group is null or r.GroupKey = @group)
   and (@load is null or r.LoadId = @load) and r.Priority between @min and @max
   and (@worker is null or r.LockedBy = @worker
        or left(r.LockedBy, len(@worker) + 1) = concat(@worker, N':'))
   and r.RequestedTime between @since and @until and r.RequestedTime between @oldest and @newest
 order by r.RequestId desc
option (recompile);
select @p_found = N'[' + string_agg(cast(f.RequestId as nvarchar(max)), N',') + N']',
       @p_next = case when count(*) >= @p_limit then min(f.RequestId) when @from > 0 then @from end
  from @found as f;
