-- add_staged: insert the rows of a staged load.
-- params:   p_queue_name nvarchar(400), p_now datetime2(6), p_load_id nvarchar(400),
--           p_run_number bigint, p_kind nvarchar(max) (for rows that name none),
--           p_expected_rows bigint, p_added bigint output
-- returns:  p_added -- how many are new; the others have the dedup key of a live request or an
--           earlier row of the load
-- errors:   51012 rows were added after they were counted, 51019 a name or key ends in a blank
-- locks:    all dedup keys of the queue if the load has any; rows of its own
-- why:      of equal row ids one counts: a Spark task may have written its rows twice. A lock for
--           each key of a million rows is too much, so one lock covers all. The first request of a
--           group in the load is not blocked, and blocks the others. A claim finds out whether it is
--           behind an earlier request.
create or alter procedure rowlease_internal.add_staged
  @p_queue_name nvarchar(400), @p_now datetime2(6), @p_load_id nvarchar(400),
  @p_run_number bigint, @p_kind nvarchar(max), @p_expected_rows bigint, @p_added bigint output
as
set nocount on;
set xact_abort on;
declare @says nvarchar(2048);
create table #new (
  RowId bigint not null primary key, Kind nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Status varchar(10) not null, Priority smallint not null, DueTime datetime2(6) not null,
  DedupKey nvarchar(400) collate Latin1_General_100_BIN2,
  GroupKey nvarchar(200) collate Latin1_General_100_BIN2, Payload nvarchar(max) not null,
  Headers nvarchar(max));
insert into #new (RowId, Kind, Status, Priority, DueTime, DedupKey, GroupKey, Payload, Headers)
select s.RowId, coalesce(s.Kind, @p_kind),
       case when s.DueTime > @p_now then 'Scheduled' else 'Pending' end,
       case when s.Priority < q.MaxPriority then s.Priority when s.Priority is null then 0
            else q.MaxPriority end,
       case when s.DueTime > @p_now then s.DueTime else @p_now end,
       s.DedupKey, s.GroupKey, coalesce(s.Payload, N'{}'), s.Headers
  from (select t.*, row_number() over (partition by t.RowId order by t.RowId) as copy
          from rowlease.Staging as t with (forceseek (staging_run (RunNumber)))
         where t.RunNumber = @p_run_number and t.LoadId = @p_load_id) as s
  join rowlease.QueueSettings as q on q.QueueName = @p_queue_name
 where s.copy = 1;
-- A task that Spark has given up may commit its rows at any moment.
if rowcount_big() <> @p_expected_rows
begin
  set @says = concat(N'rows of load "', @p_load_id, N'" were written while it was promoted; nothing ',
                     N'was enqueued, promote it again');
  throw 51012, @says, 1;
end;
if exists (select 1 from #new as n cross apply (values (n.Kind), (n.DedupKey), (n.GroupKey)) as x (Name)
            where datalength(x.Name) > datalength(rtrim(x.Name)))
  throw 51019, N'a name or key ends in a blank; leave the blank out', 1;
if exists (select 1 from #new as n where n.DedupKey is not null)
begin
  exec rowlease_internal.lock_keys @p_queue_name, null;
  delete from #new
   where RowId in (select n.RowId
                     from #new as n
                     join rowlease.Queue as q with (forceseek (queue_dedup (QueueName, DedupKey)))
                       on q.QueueName = @p_queue_name and q.DedupKey = n.DedupKey
                    where q.DedupKey is not null and q.Status <> 'Failed');
  delete from #new
   where RowId in (select d.RowId
                     from (select n.RowId, row_number() over (partition by n.DedupKey
                                                              order by n.RowId) as turn
                             from #new as n where n.DedupKey is not null) as d
                    where d.turn > 1);
end;
insert into rowlease.Queue (
  RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime, MaxAttempts, DedupKey, GroupKey,
  GroupBlocked, LoadId, Payload, Headers)
select next value for rowlease.RequestIds over (order by n.RowId), q.QueueName, n.Kind, n.Status, n.Priority,
       @p_now, n.DueTime, q.MaxAttempts, n.DedupKey, n.GroupKey, n.Blocked, @p_load_id, n.Payload, n.Headers
  from (select w.*, case when w.GroupKey is not null
                              and row_number() over (partition by w.GroupKey order by w.RowId) > 1
                         then 1 else 0 end as Blocked
          from #new as w) as n
  join rowlease.QueueSettings as q on q.QueueName = @p_queue_name
 order by n.RowId;
set @p_added = rowcount_big();
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Scheduled, Pending)
select @p_queue_name, n.Priority, @p_load_id, sum(case when n.Status = 'Scheduled' then 1 else 0 end),
       sum(case when n.Status = 'Pending' then 1 else 0 end)
  from #new as n group by n.Priority;
