-- diagnose_batches: find batches that cannot end; a part of diagnose.
-- params:   p_limit int, p_findings xml output -- p_limit: if there are more requests, they are not counted
-- returns:  p_findings -- a JSON array of objects: finding, subject, message, action; null: none
-- why:      a batch whose counts are wrong, or whose requests are in a queue that does not exist, is not
--           finished. Batches that wait for each other are found by leaving out those that wait for
--           none, or that none waits for, until no more can be left out. Of the waits it reads 10,000.
--           Without READ_COMMITTED_SNAPSHOT, rows and counts of one moment cannot be compared.
create or alter procedure rowlease_internal.diagnose_batches @p_limit int, @p_findings xml output
as
set nocount on;
set xact_abort on;
declare @count int = 1, @snapshot bit = (
  select d.is_read_committed_snapshot_on from sys.databases as d where d.database_id = db_id());
declare @members table (LoadId nvarchar(100) collate Latin1_General_100_BIN2 not null,
                        QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null,
                        Live int not null);
declare @waits table (FromId nvarchar(100) collate Latin1_General_100_BIN2 not null,
                      ToId nvarchar(100) collate Latin1_General_100_BIN2 not null,
                      RequestId bigint not null, primary key (FromId, ToId));
declare @findings table (Place int identity primary key, Finding varchar(20) not null,
                         Subject nvarchar(200) not null, Message nvarchar(4000) not null,
                         Action nvarchar(4000) not null);
insert into @members (LoadId, QueueName, Live)
select top (@p_limit + 1) m.LoadId, m.QueueName, m.Live
  from (select q.LoadId, q.QueueName, case when q.Status <> 'Failed' then 1 else 0 end as Live
          from rowlease.Queue as q where q.LoadId is not null
        union all
        select l.LoadId, l.QueueName, 1
          from rowlease.[Load] as l join rowlease.Lane as r on r.RunNumber = l.RunNumber
         where l.InLane = 1) as m;
if @@rowcount <= @p_limit
  insert into @findings (Finding, Subject, Message, Action)
  select 'batch', b.BatchId,
         concat(N'the batch "', b.BatchId, N'" counts ', b.NumLive, N' unfinished requests and has ',
                coalesce(m.Live, 0), N', so it does not end rightly'),
         N'correct the counts: exec rowlease.recount'
    from rowlease.Batches as b
    left join (select x.LoadId, sum(x.Live) as Live from @members as x group by x.LoadId) as m
      on m.LoadId = b.BatchId
   where @snapshot = 1 and b.FinishedTime is null and b.NumLive <> coalesce(m.Live, 0);
insert into @findings (Finding, Subject, Message, Action)
select 'batch', m.LoadId,
       concat(N'requests of the batch "', m.LoadId, N'" are in the queue "', m.QueueName,
              N'", which does not exist (', sum(m.Live), N')'),
       concat(N'create the queue: rowlease queue create ', m.QueueName)
  from @members as m
 where m.Live = 1
   and not exists (select 1 from rowlease.QueueSettings as s where s.QueueName = m.QueueName)
 group by m.LoadId, m.QueueName;
insert into @waits (FromId, ToId, RequestId)
select q.LoadId, w.BatchId, min(q.RequestId)
  from (select top (10000) p.RequestId, p.BatchId from rowlease.BatchWait as p) as w
  join rowlease.Queue as q on q.RequestId = w.RequestId
 where q.LoadId is not null and q.Status = 'Scheduled' and q.DueTime = '9999-12-31'
 group by q.LoadId, w.BatchId;
while @count > 0
begin
  delete from @waits
   where FromId not in (select w.ToId from @waits as w) or ToId not in (select w.FromId from @waits as w);
  set @count = @@rowcount;
end;
insert into @findings (Finding, Subject, Message, Action)
select 'batch', w.FromId,
       concat(N'the batch "', w.FromId, N'" waits for the batch "', w.ToId,
              N'", which waits for it, so neither ends'),
       concat(N'make a request that waits due now: rowlease requests reschedule id:', w.RequestId)
  from @waits as w order by w.FromId, w.ToId;
set @p_findings = rowlease_internal.as_xml((
  select f.Finding as finding, f.Subject as subject, f.Message as message, f.Action as action
    from @findings as f order by f.Place for json path));
