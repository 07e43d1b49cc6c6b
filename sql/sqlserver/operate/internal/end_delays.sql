-- end_delays: make requests due that wait for the rate of their group, if the rate has changed.
-- params:   p_queue_name nvarchar(400), p_was varchar(30) (the rate before)
-- returns:  nothing
-- locks:    rows of queue, exclusive, one by one, skipping locked ones
-- why:      when the rate changes, the next claim decides again. Such a request is due when a start of
--           its group leaves the period.
create or alter procedure rowlease_internal.end_delays @p_queue_name nvarchar(400), @p_was varchar(30)
as
set nocount on;
set xact_abort on;
declare @id bigint = -9223372036854775808;
declare @ids table (RequestId bigint not null primary key);
if exists (select 1 from rowlease.QueueSettings as s
            where s.QueueName = @p_queue_name and coalesce(s.GroupRate, '') = coalesce(@p_was, ''))
  return;
insert into @ids (RequestId)
select q.RequestId from rowlease.Queue as q
 where q.QueueName = @p_queue_name and q.Status = 'Scheduled' and q.GroupKey is not null
   and exists (select 1 from rowlease.RateStart as r
                where r.QueueName = q.QueueName and r.RateKey = N':' + q.GroupKey
                  and r.ExpiresTime = q.DueTime);
while @id is not null
begin
  set @id = (select min(i.RequestId) from @ids as i where i.RequestId > @id);
  update q set DueTime = rowlease.now()
    from rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock, readpast)
   where q.RequestId = @id and q.Status = 'Scheduled'
  option (maxdop 1);
end;
