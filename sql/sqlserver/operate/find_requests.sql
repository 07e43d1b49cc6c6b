-- find_requests: find requests, newest first, in steps of bounded cost.
-- params:   p_queue_name nvarchar(400), p_statuses nvarchar(max), p_kind nvarchar(400),
--           p_error nvarchar(max) (part of last_error, in any case), p_dedup_key nvarchar(400),
--           p_group_key nvarchar(400), p_min_age_ms bigint, p_max_age_ms bigint (since the enqueue),
--           p_since datetime2(6), p_until datetime2(6) (of the enqueue), p_after bigint (look below
--           this id), p_limit int (how many to return), p_look int (how many to look at) -- each may be null
-- returns:  the columns of get_request, and after bigint: rows with a null in it, then one row with
--           nulls elsewhere, and where to go on: null: there are no more
-- errors:   none
-- locks:    none
-- why:      few filters have an index, so a call reads at most p_look requests of each table, and the
--           next call goes on below them. Statuses choose the tables; dead letters alone, or a few
--           running requests, are found by their own index.
create or alter procedure rowlease.find_requests
  @p_queue_name nvarchar(400) = null, @p_statuses nvarchar(max) = null, @p_kind nvarchar(400) = null,
  @p_error nvarchar(max) = null, @p_dedup_key nvarchar(400) = null, @p_group_key nvarchar(400) = null,
  @p_min_age_ms bigint = null, @p_max_age_ms bigint = null, @p_since datetime2(6) = null,
  @p_until datetime2(6) = null, @p_after bigint = null, @p_limit int = 100, @p_look int = 10000
as
set nocount on;
set xact_abort on;
declare @now datetime2(6) = rowlease.now(), @below bigint = coalesce(@p_after, 9223372036854775807);
declare @since datetime2(6) = coalesce(@p_since, '0001-01-01');
declare @until datetime2(6) = coalesce(@p_until, '9999-12-31');
declare @oldest datetime2(6) = coalesce(rowlease_internal.add_ms(@now, -@p_max_age_ms), '0001-01-01');
declare @newest datetime2(6) = coalesce(rowlease_internal.add_ms(@now, -@p_min_age_ms), '9999-12-31');
declare @dead bit = 0, @runs bit = 0, @live bit = 1, @past bit = 1, @from bigint = 0, @edge bigint;
declare @statuses table (Status varchar(10) collate Latin1_General_100_BIN2 not null primary key);
declare @found table (RequestId bigint not null primary key);
insert into @statuses (Status) select distinct left(s.value, 10) from openjson(@p_statuses) as s;
if @p_statuses is not null
begin
  set @dead = case when exists (select 1 from @statuses as s where s.Status <> 'Failed') then 0 else 1 end;
  set @runs = case when exists (select 1 from @statuses as s where s.Status <> 'Processing') then 0
                   when (select coalesce(sum(d.Processing), 0)
                           from rowlease.QueueDepth as d with (readpast, readcommittedlock)) <= @p_look
                   then 1 else 0 end;
  set @past = case when exists (select 1 from @statuses as s
                                 where s.Status in ('Complete', 'Cancelled')) then 1 else 0 end;
  set @live = case when @dead = 0 and @runs = 0 and exists (
    select 1 from @statuses as s where s.Status not in ('Complete', 'Cancelled')) then 1 else 0 end;
end;
select @from = q.RequestId
  from rowlease.Queue as q
 where q.RequestId < @below
   and (@live = 1 or @dead = 1 and q.Status = 'Failed'
                     and (@p_queue_name is null or q.QueueName = @p_queue_name))
 order by q.RequestId desc offset @p_look - 1 rows fetch next 1 rows only
option (recompile);
select @edge = h.RequestId
  from rowlease.QueueHistory as h
 where h.RequestId < @below and @past = 1
 order by h.RequestId desc offset @p_look - 1 rows fetch next 1 rows only
option (recompile);
if @edge > @from
  set @from = @edge;
insert into @found (RequestId)
select top (@p_limit) r.RequestId
  from (select q.RequestId, q.QueueName, q.Kind, q.Status, q.RequestedTime, q.DedupKey, q.GroupKey,
               q.LastError
          from rowlease.Queue as q
         where q.RequestId < @below
           and (@live = 1 and q.RequestId >= @from or @runs = 1 and q.Status = 'Processing'
                or @dead = 1 and q.Status = 'Failed' and q.RequestId >= @from)
         union all
        select h.RequestId, h.QueueName, h.Kind, h.Status, h.RequestedTime, h.DedupKey, h.GroupKey,
               h.LastError
          from rowlease.QueueHistory as h
         where @past = 1 and h.RequestId >= @from and h.RequestId < @below) as r
 where (@p_queue_name is null or r.QueueName = @p_queue_name)
   and (@p_statuses is null or r.Status in (select s.Status from @statuses as s))
   and (@p_kind is null or r.Kind = @p_kind)
   and (@p_error is null or charindex(lower(@p_error), lower(r.LastError)) > 0)
   and (@p_dedup_key is null or r.DedupKey = @p_dedup_key)
   and (@p_group_key is null or r.GroupKey = @p_group_key)
   and r.RequestedTime >= @since and r.RequestedTime <= @until
   and r.RequestedTime >= @oldest and r.RequestedTime <= @newest
 order by r.RequestId desc
option (recompile);
set @edge = case when (select count(*) from @found) >= @p_limit
                 then (select min(f.RequestId) from @found as f)
                 when @from > 0 then @from end;
select r.RequestId as request_id, r.QueueName as queue_name, r.Kind as kind, r.Status as status,
       cast(r.Priority as int) as priority, r.DueTime as due_time, r.DedupKey as dedup_key,
       r.GroupKey as group_key, r.NumAttempts as num_attempts, r.Payload as payload,
       r.LastError as last_error, r.Result as result, r.MaxAttempts as max_attempts,
       r.RequestedTime as requested_time, r.LockedBy as locked_by, r.LockedTime as locked_time,
       r.CompletionTime as completion_time, r.LoadId as load_id,
       (select a.AttemptNumber as attempt_number, a.WorkerId as worker_id,
               a.StartedTime as started_time, a.EndedTime as ended_time, a.Outcome as outcome,
               a.Error as error, a.ErrorType as error_type, a.Traceback as traceback
          from rowlease.Attempt as a where a.RequestId = r.RequestId
         order by a.LockToken for json path) as attempts, e.after
  from (select cast(null as bigint) as after, 0 as is_last union all select @edge, 1) as e
  left join @found as f on e.is_last = 0
  left join rowlease.Requests as r on r.RequestId = f.RequestId
 where e.is_last = 1 or r.RequestId is not null
 order by e.is_last, r.RequestId desc;
