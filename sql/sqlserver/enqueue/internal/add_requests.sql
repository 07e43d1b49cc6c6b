-- add_requests: insert the requests of an enqueue call, and report which are new.
-- params:   p_queue_name nvarchar(400), p_now datetime2(6), p_kinds nvarchar(max),
--           p_payloads nvarchar(max), p_priorities nvarchar(max), p_delays_ms nvarchar(max),
--           p_due_times nvarchar(max), p_dedup_keys nvarchar(max), p_group_keys nvarchar(max),
--           p_max_attempts nvarchar(max), p_retry_bases_ms nvarchar(max),
--           p_answers xml output, p_headers nvarchar(max), p_batch_id nvarchar(400)
-- returns:  p_answers -- a JSON array of objects: place, request_id and outcome -- 'ok' | 'duplicate'
--           (without an id if the earlier request has just been finished)
-- errors:   RL003 bad priority, RL004 bad payload, RL006 no kind, RL007 attempts below 1,
--           RL016 bad headers; 51019 a name or
--           key ends in a blank
-- locks:    the dedup keys, as lock_keys
-- why:      one statement inserts the whole batch. If several requests of a call have the same
--           dedup key, only the first is inserted. Ids are assigned in the order of the new rows, so
--           the n-th new id belongs to the n-th new row. The first request of each group in the
--           call is inserted as not blocked, and the others as blocked. Claims find out whether
--           the first one is behind an earlier request.
create or alter procedure rowlease_internal.add_requests
  @p_queue_name nvarchar(400), @p_now datetime2(6), @p_kinds nvarchar(max),
  @p_payloads nvarchar(max), @p_priorities nvarchar(max), @p_delays_ms nvarchar(max),
  @p_due_times nvarchar(max), @p_dedup_keys nvarchar(max), @p_group_keys nvarchar(max),
  @p_max_attempts nvarchar(max), @p_retry_bases_ms nvarchar(max), @p_answers xml output,
  @p_headers nvarchar(max) = null, @p_batch_id nvarchar(400) = null
as
set nocount on;
set xact_abort on;
declare @kind nvarchar(max), @payload nvarchar(max), @priority int, @attempts int;
declare @given table (
  Place int not null primary key, Kind nvarchar(max), Payload nvarchar(max), Priority int,
  DueTime datetime2(6), DedupKey nvarchar(400) collate Latin1_General_100_BIN2,
  GroupKey nvarchar(200) collate Latin1_General_100_BIN2, MaxAttempts int, RetryBaseMs int,
  Headers nvarchar(max), Status varchar(10), FirstPlace int);
declare @live table (Place int not null primary key, RequestId bigint not null);
declare @fresh table (Turn int identity primary key, Place int not null unique, Blocked bit not null);
declare @added table (RequestId bigint not null primary key);

insert into @given (Place, Kind, Payload, Priority, DueTime, DedupKey, GroupKey, MaxAttempts,
                    RetryBaseMs, Headers, FirstPlace)
select cast(k.[key] as int), k.value, coalesce(p.value, N'{}'), coalesce(cast(r.value as int), 0),
       coalesce(cast(t.value as datetime2(6)), rowlease_internal.add_ms(@p_now, cast(d.value as bigint)),
                @p_now),
       u.value, g.value, cast(a.value as int), cast(b.value as int), h.value,
       min(cast(k.[key] as int)) over (partition by
         coalesce(N'k' + u.value collate Latin1_General_100_BIN2,
                  N'p' + k.[key] collate Latin1_General_100_BIN2))
  from openjson(@p_kinds) as k
  left join openjson(@p_payloads) as p on p.[key] = k.[key]
  left join openjson(@p_priorities) as r on r.[key] = k.[key]
  left join openjson(@p_delays_ms) as d on d.[key] = k.[key]
  left join openjson(@p_due_times) as t on t.[key] = k.[key]
  left join openjson(@p_dedup_keys) as u on u.[key] = k.[key]
  left join openjson(@p_group_keys) as g on g.[key] = k.[key]
  left join openjson(@p_max_attempts) as a on a.[key] = k.[key]
  left join openjson(@p_retry_bases_ms) as b on b.[key] = k.[key]
  left join openjson(@p_headers) as h on h.[key] = k.[key]
option (hash join);

if exists (select 1 from @given as g cross apply (values (g.Kind), (g.DedupKey), (g.GroupKey)) as x (Name)
            where datalength(x.Name) > datalength(rtrim(x.Name)))
  throw 51019, N'a name or key ends in a blank; leave the blank out', 1;
select top (1) @kind = g.Kind, @payload = g.Payload, @priority = g.Priority, @attempts = g.MaxAttempts
  from @given as g
 where coalesce(g.Kind, N'') = N'' or len(g.Kind) > 200 or g.Priority < 0 or g.MaxAttempts < 1
    or rowlease_internal.num_bytes(g.Payload) > 1048576 or rowlease_internal.are_arguments(g.Payload) = 0
 order by g.Place;
if @@rowcount > 0
  exec rowlease_internal.check_request @kind, @priority, @payload, @attempts;
if @p_headers is not null
   and exists (select 1 from @given as g where rowlease_internal.are_headers(g.Headers) = 0)
  throw 51016, N'headers must be a JSON object of strings, of at most 8192 bytes', 1;

if @p_dedup_keys is not null
begin
  exec rowlease_internal.lock_keys @p_queue_name, @p_dedup_keys;
  insert into @live (Place, RequestId)
  select g.Place, q.RequestId
    from @given as g
    join rowlease.Queue as q with (forceseek (queue_dedup (QueueName, DedupKey)))
      on q.QueueName = @p_queue_name and q.DedupKey = g.DedupKey
   where q.DedupKey is not null and q.Status <> 'Failed';
end;
update @given
   set DueTime = case when DueTime > @p_now then DueTime else @p_now end,
       Status = case when DueTime > @p_now then 'Scheduled' else 'Pending' end,
       Priority = (select case when Priority < s.MaxPriority then Priority else s.MaxPriority end
                     from rowlease.QueueSettings as s where s.QueueName = @p_queue_name);
insert into @fresh (Place, Blocked)
select g.Place, case when g.GroupKey is not null and row_number() over (
                       partition by g.GroupKey order by g.Place) > 1 then 1 else 0 end
  from @given as g
 where g.Place = g.FirstPlace and g.Place not in (select l.Place from @live as l)
 order by g.Place;

insert into rowlease.Queue (
  RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime, MaxAttempts, RetryBaseMs, DedupKey,
  GroupKey, GroupBlocked, LoadId, Payload, Headers)
output inserted.RequestId into @added (RequestId)
select next value for rowlease.RequestIds over (order by f.Turn), s.QueueName, g.Kind, g.Status,
       g.Priority, @p_now, g.DueTime, coalesce(g.MaxAttempts, s.MaxAttempts), g.RetryBaseMs, g.DedupKey, g.GroupKey, f.Blocked,
       @p_batch_id, g.Payload, g.Headers
  from @fresh as f
  join @given as g on g.Place = f.Place
  join rowlease.QueueSettings as s on s.QueueName = @p_queue_name
 order by f.Turn;
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Scheduled, Pending)
select @p_queue_name, g.Priority, @p_batch_id, sum(case when g.Status = 'Scheduled' then 1 else 0 end),
       sum(case when g.Status = 'Pending' then 1 else 0 end)
  from @fresh as f join @given as g on g.Place = f.Place
 group by g.Priority;
set @p_answers = rowlease_internal.as_xml((
  select g.Place as place, coalesce(l.RequestId, n.RequestId) as request_id,
         case when l.RequestId is null and g.Place = g.FirstPlace then 'ok' else 'duplicate' end as outcome
    from @given as g
    left join @live as l on l.Place = g.Place
    left join @fresh as f on f.Place = g.FirstPlace
    left join (select a.RequestId, row_number() over (order by a.RequestId) as Turn from @added as a)
      as n on n.Turn = f.Turn for json path));
