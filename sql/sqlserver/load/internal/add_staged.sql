-- add_staged: move the rows of a load into Queue, except those whose dedup keys are taken.
-- params:   p_queue_name nvarchar(400), p_now datetime2(6), p_load_id nvarchar(400),
--           p_run_number bigint, p_added bigint output
-- returns:  p_added -- how many are new; the others have the dedup key of a live request or an
--           earlier row of the load
-- locks:    all dedup keys of the queue if the load has any; rows of its own
-- why:      a lock for each key of a million rows is too much, so one lock covers all. The first request
--           of a group in the load is not blocked, and blocks the others. A claim finds out whether it is
--           behind an earlier request.
create or alter procedure rowlease_internal.add_staged
  @p_queue_name nvarchar(400), @p_now datetime2(6), @p_load_id nvarchar(400),
  @p_run_number bigint, @p_added bigint output
as
set nocount on;
set xact_abort on;
create table #new (
  RowId bigint not null primary key, Kind nvarchar(200) collate Latin1_General_100_BIN2 not null,
  Status varchar(10) not null, Priority smallint not null, DueTime datetime2(6) not null,
  DedupKey nvarchar(400) collate Latin1_General_100_BIN2,
  GroupKey nvarchar(200) collate Latin1_General_100_BIN2, Payload nvarchar(max) not null,
  Headers nvarchar(max));
insert into #new (RowId, Kind, Status, Priority, DueTime, DedupKey, GroupKey, Payload, Headers)
select row_number() over (order by r.Part, r.RequestId), r.Kind,
       case when r.DueTime > @p_now then 'Scheduled' else 'Pending' end,
       case when r.Priority < q.MaxPriority then r.Priority else q.MaxPriority end,
       case when r.DueTime > @p_now then r.DueTime else @p_now end,
       r.DedupKey, r.GroupKey, r.Payload, r.Headers
  from rowlease.Lane as r with (forceseek (lane_pkey (RunNumber)))
  join rowlease.QueueSettings as q on q.QueueName = @p_queue_name
 where r.RunNumber = @p_run_number;
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
