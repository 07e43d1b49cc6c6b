-- candidates_by_policy: choose which waiting requests to claim under the policies weighted and aging.
-- params:   p_queue_name nvarchar(400), p_limit int, p_met nvarchar(max) (ids to leave out)
-- returns:  the ids in claim order in the caller's table #candidate; none if nothing waits that the
--           policy would take
-- errors:   none
-- locks:    none; rows that others have locked are skipped
-- why:      weighted distributes the places among the priorities with waiting requests, with one
--           random offset for the whole batch (systematic sampling), which makes every share exact on
--           average. aging: each PolicyAgingSeconds of waiting count as one priority, so the request
--           with the lowest value of due time minus priority times PolicyAgingSeconds goes first.
create or alter procedure rowlease_internal.candidates_by_policy
  @p_queue_name nvarchar(400), @p_limit int, @p_met nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @policy varchar(10), @weights nvarchar(max), @aging_us bigint;
declare @priority smallint, @offset float = rand(), @origin datetime2(6) = '2000-01-01';
declare @met table (RequestId bigint not null primary key);
declare @waiting table (Priority smallint not null primary key, Weight float not null, Quota int);
select @policy = s.Policy, @weights = s.PolicyWeights, @priority = s.MaxPriority + 1,
       @aging_us = cast(s.PolicyAgingSeconds as bigint) * 1000000
  from rowlease.QueueSettings as s where s.QueueName = @p_queue_name;
insert into @met (RequestId) select distinct cast(m.value as bigint) from openjson(@p_met) as m;
while @priority is not null
begin
  -- One probe of the claim's index for each priority that has something.
  set @priority = (
    select top (1) q.Priority
      from rowlease.Queue as q
        with (forceseek (queue_pending (QueueName)), readpast, readcommittedlock)
     where q.QueueName = @p_queue_name and q.Status = 'Pending' and q.GroupBlocked = 0
       and q.Priority < @priority and q.RequestId not in (select m.RequestId from @met as m)
     order by q.Priority desc);
  if @priority is not null
    insert into @waiting (Priority, Weight, Quota) values (@priority, 0, @p_limit);
end;
if @policy = 'weighted'
begin
  update @waiting set Weight = coalesce(
    (select cast(w.value as float) from openjson(@weights) as w where cast(w.[key] as int) = Priority),
    Priority + 1);
  delete from @waiting where Weight = 0;
  update w set Quota = floor(@p_limit * s.Upto + @offset) - floor(@p_limit * s.Before + @offset)
    from @waiting as w
    join (select x.Priority, sum(x.Weight) over (order by x.Priority) / sum(x.Weight) over () as Upto,
                 (sum(x.Weight) over (order by x.Priority) - x.Weight) / sum(x.Weight) over () as Before
            from @waiting as x) as s on s.Priority = w.Priority;
end;
insert into #candidate (RequestId)
select top (@p_limit) f.RequestId
  from @waiting as w
 cross apply (
   select top (w.Quota) q.RequestId, q.DueTime, q.Priority
     from rowlease.Queue as q
       with (forceseek (queue_pending (QueueName)), readpast, readcommittedlock)
    where q.QueueName = @p_queue_name and q.Status = 'Pending' and q.GroupBlocked = 0
      and q.Priority = w.Priority and q.RequestId not in (select m.RequestId from @met as m)
    order by q.DueTime, q.RequestId) as f
 order by case when @policy = 'aging' then datediff_big(microsecond, @origin, f.DueTime) - f.Priority * @aging_us
               else 0 end,
          f.Priority desc, f.DueTime, f.RequestId;
