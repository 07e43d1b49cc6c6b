-- candidates_by_policy: choose which waiting requests to claim, in the queue and in its lane.
-- params:   p_queue_name nvarchar(400), p_policy varchar(10), p_limit int, p_met nvarchar(max) (ids to leave out),
--           p_candidates xml output, p_locked bit output
-- returns:  p_candidates -- a JSON array of objects, in claim order: i, the request id, and of one in
--           the lane r, p and t, its run, priority and part; null if nothing waits that the policy
--           would take; p_locked -- a part of the lane is locked: nothing
--           was chosen
-- errors:   none
-- locks:    none; rows that others have locked are skipped
-- why:      weighted distributes the places among the priorities with waiting requests, with one
--           random offset for the whole batch (systematic sampling), which makes every share exact on
--           average. aging: each PolicyAgingSeconds of waiting count as one priority, so the request
--           with the lowest value of due time minus priority times PolicyAgingSeconds goes first.
--           strict: highest priority first. For strict it is called only if a load is in the lane.
--           Only maintain locks parts of a lane (sweep_lane), for a moment. A claim does not wait for
--           it, without READ_COMMITTED_SNAPSHOT either, and does not step over a part, because what is
--           behind it is later in the order. With XACT_ABORT on, error 1222 would end the claim.
create or alter procedure rowlease_internal.candidates_by_policy
  @p_queue_name nvarchar(400), @p_policy varchar(10), @p_limit int, @p_met nvarchar(max),
  @p_candidates xml output, @p_locked bit output
as
set nocount on;
set xact_abort on;
declare @in_lane bit = (select count(*)
                          from rowlease.[Load] as l
                            with (forceseek (load_in_lane (QueueName)), readpast, readcommittedlock)
                         where l.QueueName = @p_queue_name and l.InLane = 1);
declare @weights nvarchar(max), @aging_us bigint;
declare @priority smallint, @offset float = rand(), @origin datetime2(6) = '2000-01-01';
declare @met table (RequestId bigint not null primary key);
declare @waiting table (Priority smallint not null primary key, Weight float not null, Quota int);
select @weights = s.PolicyWeights, @priority = s.MaxPriority + 1,
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
set @p_locked = 0;
set xact_abort off;
begin try
  insert into @waiting (Priority, Weight, Quota)
  select b.Priority, 0, @p_limit
    from (select distinct p.Priority
            from rowlease.[Load] as l
              with (forceseek (load_in_lane (QueueName)), readpast, readcommittedlock)
           inner join rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber)), nowait)
                   on p.RunNumber = l.RunNumber
           where l.QueueName = @p_queue_name and l.InLane = 1) as b
   where b.Priority not in (select w.Priority from @waiting as w)
     and exists (select 1 from rowlease_internal.first_in_lane(@p_queue_name, b.Priority, 1, @p_met));
  if @p_policy = 'weighted'
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
  set @p_candidates = rowlease_internal.as_xml((
    select top (@p_limit) f.RequestId as i, f.RunNumber as r, f.Priority as p, f.Part as t
      from @waiting as w
     cross apply (
       select top (w.Quota) c.RequestId, c.DueTime, c.Line, c.Place, c.Priority, c.RunNumber, c.Part
         from (select p.RequestId, p.DueTime, p.RequestId as Line, 0 as Place, p.Priority,
                      cast(null as bigint) as RunNumber, cast(null as bigint) as Part
                 from (select top (w.Quota) q.RequestId, q.DueTime, q.Priority
                         from rowlease.Queue as q
                           with (forceseek (queue_pending (QueueName)), readpast, readcommittedlock)
                        where q.QueueName = @p_queue_name and q.Status = 'Pending' and q.GroupBlocked = 0
                          and q.Priority = w.Priority and q.RequestId not in (select m.RequestId from @met as m)
                        order by q.DueTime, q.RequestId) as p
               union all
               select l.request_id, l.due_time, l.line, l.place, l.priority, l.run_number, l.part
                 from rowlease_internal.first_in_lane(@p_queue_name, w.Priority, w.Quota, @p_met) as l
                where @in_lane = 1) as c
        order by c.DueTime, c.Line, c.Place) as f
     order by case when @p_policy = 'aging' then datediff_big(microsecond, @origin, f.DueTime) - f.Priority * @aging_us
                   else 0 end,
              f.Priority desc, f.DueTime, f.Line, f.Place
       for json path));
end try
begin catch
  set xact_abort on;
  if error_number() <> 1222
    throw;
  set @p_locked = 1;
end catch;
