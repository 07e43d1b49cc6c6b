-- diagnose_workers: find requests that no worker may claim; a part of diagnose.
-- params:   p_now datetime2(6), p_findings xml output
-- returns:  p_findings -- a JSON array of objects: finding, subject, message, action; null: none
create or alter procedure rowlease_internal.diagnose_workers @p_now datetime2(6), @p_findings xml output
as
set nocount on;
set xact_abort on;
declare @place int = 0, @queue nvarchar(100), @kind nvarchar(200), @reason varchar(20);
declare @message nvarchar(4000);
declare @findings table (Place int identity primary key, Finding varchar(20) not null,
                         Subject nvarchar(200) not null, Message nvarchar(4000) not null,
                         Action nvarchar(4000) not null);
declare @kinds table (Place int identity primary key,
                      QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null,
                      Kind nvarchar(200) collate Latin1_General_100_BIN2 not null);
insert into @kinds (QueueName, Kind)
select r.QueueName, r.Kind from rowlease.Ready as r
union
select u.QueueName, u.Kind from rowlease.UnknownKind as u
 where u.DeclinedTime > dateadd(minute, -1, @p_now);
while 1 = 1
begin
  select top (1) @place = k.Place, @queue = k.QueueName, @kind = k.Kind
    from @kinds as k where k.Place > @place order by k.Place;
  if @@rowcount = 0
    break;
  exec rowlease_internal.explain_workers @queue, @kind, @p_now, @reason output, @message output;
  set @message = N'requests wait: ' + @message;
  if @reason is not null and not exists (
    select 1 from @findings as f where f.Subject = @queue and f.Message = @message)
    insert into @findings (Finding, Subject, Message, Action)
    values (@reason, @queue, @message,
            case when @reason = 'no_worker' then N'start a worker that has tasks of this queue'
                 when @reason = 'unknown_kind'
                   then N'start a worker with this task, or cancel the requests'
                 else N'give that worker the task, or start it without --consumer-priority' end);
end;
set @p_findings = rowlease_internal.as_xml((
  select f.Finding as finding, f.Subject as subject, f.Message as message, f.Action as action
    from @findings as f order by f.Place for json path));
