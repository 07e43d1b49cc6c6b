-- diagnose_stuck: find leases, gates, groups, schedules and loads that do not move; a part of diagnose.
-- params:   p_now datetime2(6), p_findings xml output
-- returns:  p_findings -- a JSON array of objects: finding, subject, message, action; null: none
-- why:      claims and maintain break leases and unblock groups within seconds, so after 10 s nobody
--           does. Of the requests with a group, it reads 10,000. Every claim locks a gate for a
--           moment, so it looks twice.
create or alter procedure rowlease_internal.diagnose_stuck @p_now datetime2(6), @p_findings xml output
as
set nocount on;
set xact_abort on;
declare @queue nvarchar(100), @lock nvarchar(4000), @again nvarchar(4000), @who nvarchar(4000);
declare @findings table (Place int identity primary key, Finding varchar(20) not null,
                         Subject nvarchar(200) not null, Message nvarchar(4000) not null,
                         Action nvarchar(4000) not null);
insert into @findings (Finding, Subject, Message, Action)
select 'overdue', o.QueueName,
       concat(N'leases of the queue "', o.QueueName, N'" ran out more than 10 s ago and were not broken (',
              o.Number, N', the first of request ', o.RequestId, N')'),
       concat(N'start a worker; if one runs, ask for the reason: exec rowlease.explain ', o.RequestId)
  from (select q.QueueName, count(*) as Number, min(q.RequestId) as RequestId
          from rowlease.Queue as q
         where q.Status = 'Processing' and q.LockExpiresTime < dateadd(second, -10, @p_now)
         group by q.QueueName) as o;
set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s where s.MaxInFlight is not null);
while @queue is not null
begin
  exec rowlease_internal.row_lock null, @queue, @lock output;
  if @lock is not null
    exec rowlease_internal.row_lock null, @queue, @again output;
  if @lock = @again
  begin
    begin try
      exec rowlease_internal.describe_session N'APPLICATION', @who output;
    end try
    begin catch
      set @who = null;
    end catch;
    insert into @findings (Finding, Subject, Message, Action)
    values ('gate', @queue, concat(coalesce(@who, N'another session'), @lock, N' until its transaction ends'),
            concat(N'end that session''s transaction: kill ',
                   coalesce(substring(@who, 9, charindex(N' (', @who) - 9), N'SESSION')));
  end;
  set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s
                 where s.MaxInFlight is not null and s.QueueName > @queue);
end;
insert into @findings (Finding, Subject, Message, Action)
select 'group', o.QueueName,
       concat(N'groups of the queue "', o.QueueName, N'" wait for a request that no longer exists (',
              o.Number, N', the first for request ', o.RequestId, N')'),
       concat(N'unblock them: exec rowlease.recount N''', o.QueueName, N'''')
  from (select f.QueueName, count(*) as Number, min(f.RequestId) as RequestId
          from (select g.QueueName, g.RequestId, g.GroupBlocked,
                       row_number() over (partition by g.QueueName, g.GroupKey order by g.RequestId)
                         as Place
                  from (select top (10000) q.QueueName, q.GroupKey, q.RequestId, q.GroupBlocked
                          from rowlease.Queue as q
                         where q.GroupKey is not null and q.Status <> 'Failed'
                         order by q.QueueName, q.GroupKey, q.RequestId) as g) as f
         where f.Place = 1 and f.GroupBlocked = 1
         group by f.QueueName) as o;
insert into @findings (Finding, Subject, Message, Action)
select 'schedule', s.ScheduleName,
       concat(N'the schedule "', s.ScheduleName, N'" did not fire at ',
              rowlease_internal.time_text(s.NextTime), N', when it was due'),
       N'start a worker that knows its task; if one runs, its log says why: schedule not fired'
  from rowlease.Schedule as s
 where s.Paused = 0 and s.NextTime < dateadd(minute, -1, @p_now);
insert into @findings (Finding, Subject, Message, Action)
select 'load', l.LoadId,
       concat(N'the load "', l.LoadId, N'" has reported nothing since ',
              rowlease_internal.time_text(l.ReportedTime),
              N', and none of its rows is a request; it is run by ', l.RunBy),
       concat(N'run its job again, or discard it: exec rowlease.discard_load N''',
              replace(l.LoadId, N'''', N''''''), N'''')
  from rowlease.[Load] as l
 where l.Status = 'Staging' and l.ReportedTime < dateadd(minute, -15, @p_now);
set @p_findings = rowlease_internal.as_xml((
  select f.Finding as finding, f.Subject as subject, f.Message as message, f.Action as action
    from @findings as f order by f.Place for json path));
