-- claim_carefully: lease the first waiting requests of a queue.
-- params:   p_queue_name nvarchar(400), p_worker_id nvarchar(400), p_now datetime2(6),
--           p_lease_ms bigint, p_policy varchar(10), p_limit int, p_slots int,
--           p_group_rate varchar(30), p_leased xml output, p_more bit output
-- returns:  p_leased -- the ids as a JSON array, in claim order; null: none; p_more -- it gave up early
-- errors:   2601 another claim took a request of the same group at this moment
-- locks:    keys of the claim's index, for update, skipping locked ones; the requests' own locks and
--           their groups', without waiting; rows of queue, exclusive; as lease_from_lane
-- why:      hints are only hints. Two claims are kept apart by the lock on the request's id, and by
--           the update, which checks the status again. A claim that does not get the lock skips the
--           request. A round may return fewer requests than asked for because it met requests that
--           others hold, or that are behind another of their group; those are set aside, and the
--           next round continues after them. A session whose context has rowlease_claim_locks = off
--           does not take the locks on ids, which keep claims from waiting for each other; so their
--           cost can be measured. A token grows by a random number up to 2^32: after a failover or
--           a restore, a lost claim and a new claim of the same id have different tokens.
create or alter procedure rowlease_internal.claim_carefully
  @p_queue_name nvarchar(400), @p_worker_id nvarchar(400), @p_now datetime2(6), @p_lease_ms bigint,
  @p_policy varchar(10), @p_limit int, @p_slots int, @p_group_rate varchar(30),
  @p_leased xml output, @p_more bit output
as
set nocount on;
set xact_abort on;
declare @round int = 0, @last int = 0, @found int, @taken int = 0, @turn int, @left int;
declare @by_policy bit, @place int, @id bigint, @group nvarchar(200), @name nvarchar(255), @granted bit;
declare @in_lane bit = (select count(*) from rowlease.[Load] as l with (forceseek (load_in_lane (QueueName)), readpast, readcommittedlock)
                         where l.QueueName = @p_queue_name and l.InLane = 1);
declare @written datetime2(6), @met_ids nvarchar(max), @lane nvarchar(max), @candidates xml, @moved xml, @locked bit = 0, @locks bit =
  case when cast(session_context(N'rowlease_claim_locks') as nvarchar(10)) = N'off' then 0 else 1 end;
-- Turn: null while nothing is known, or if it cannot be had now; 0 if its row is locked.
-- RunNumber, Priority and Part: of a request in the lane.
declare @met table (Place int identity primary key, RequestId bigint not null unique,
                    GroupKey nvarchar(200) collate Latin1_General_100_BIN2, Turn int,
                    RunNumber bigint, Priority smallint, Part bigint);
declare @claimed table (RequestId bigint not null primary key, Priority smallint not null);
while @taken < @p_limit and @round < 50
begin
  select @round = @round + 1, @left = @p_limit - @taken, @candidates = null;
  if @p_policy <> 'strict' or @in_lane = 1
    set @met_ids = (select N'[' + string_agg(cast(m.RequestId as nvarchar(max)), N',') + N']'
                      from @met as m);
  if @p_policy <> 'strict' and @round <= 40
    exec rowlease_internal.candidates_by_policy @p_queue_name, @p_policy, @left, @met_ids, @candidates output, @locked output;
  set @by_policy = case when @candidates is null then 0 else 1 end;
  if @by_policy = 0 and @in_lane = 1 and @locked = 0
    exec rowlease_internal.candidates_by_policy @p_queue_name, 'strict', @left, @met_ids, @candidates output, @locked output;
  if @locked = 1
    break;
  if @candidates is not null
    insert into @met (RequestId, GroupKey, Turn, RunNumber, Priority, Part)
    select c.i, q.GroupKey, case when coalesce(c.r, q.RequestId) is null then 0 end, c.r, c.p, c.t
      from openjson(cast(@candidates as nvarchar(max))) as o
     cross apply openjson(o.value) with (i bigint, r bigint, p smallint, t bigint) as c
      left join rowlease.Queue as q with (index (queue_pkey), forceseek, readpast, readcommittedlock)
        on q.RequestId = c.i order by cast(o.[key] as int)
    option (loop join, force order, maxdop 1);
  else
    insert into @met (RequestId, GroupKey)
    select top (@left) q.RequestId, q.GroupKey
      from rowlease.Queue as q with (forceseek (queue_pending (QueueName)), updlock, readpast, rowlock)
     where q.QueueName = @p_queue_name and q.Status = 'Pending' and q.GroupBlocked = 0
       and q.RequestId not in (select m.RequestId from @met as m)
     order by q.Priority desc, q.DueTime, q.RequestId
    option (loop join, maxdop 1);
  select @found = @@rowcount, @place = @last, @turn = 0;
  set @last = (select coalesce(max(m.Place), 0) from @met as m);
  while @place < @last
  begin
    set @place = @place + 1;
    select @id = m.RequestId, @group = m.GroupKey, @granted = coalesce(m.Turn, 1) from @met as m where m.Place = @place;
    if @group is not null
      exec rowlease_internal.take_group @id, @p_queue_name, @group, @p_group_rate, @p_now,
                                        @granted output;
    set @name = concat(N'rowlease:r:', @id);
    if @granted = 1 and @locks = 1
      exec rowlease_internal.try_lock @name, @granted output;
    if @granted = 1
    begin
      set @turn = @turn + 1;
      update @met set Turn = @turn where Place = @place;
    end;
  end;
  delete from @claimed;
  set @written = rowlease.now();
  update rowlease.Queue
     set Status = 'Processing', LockedBy = @p_worker_id, LockedTime = @written,
         LockExpiresTime = rowlease_internal.add_ms(@written, @p_lease_ms), StartedTime = case when Queue.RequestId in (
           select t.RequestId from @met as t where t.Turn <= @p_slots - @taken) then @written end,
         LockToken = LockToken + cast(2147483649 as bigint) + checksum(newid()),
         NumAttempts = NumAttempts + 1, Returned = 0
  output inserted.RequestId, inserted.Priority into @claimed (RequestId, Priority)
    from @met as m
   inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
           on Queue.RequestId = m.RequestId
   where Queue.Status = 'Pending' and Queue.GroupBlocked = 0
     and m.Place > @last - @found and m.Turn > 0
  option (loop join, force order, maxdop 1);
  insert into rowlease.QueueDepth (QueueName, Priority, Pending, Processing)
  select @p_queue_name, c.Priority, -count(*), count(*) from @claimed as c group by c.Priority;
  set @lane = (select m.RequestId as i, m.RunNumber as r, m.Priority as p, m.Part as t, @p_lease_ms as m,
                      case when m.Turn <= @p_slots - @taken then 1 else 0 end as s
                 from @met as m
                where m.Place > @last - @found and m.Turn > 0 and m.RunNumber is not null for json path);
  if @lane is not null
  begin
    exec rowlease_internal.lease_from_lane @lane, @p_worker_id, @moved output;
    insert into @claimed (RequestId, Priority)
    select cast(t.value as bigint), 0 from openjson(cast(@moved as nvarchar(max))) as t;
  end;
  set @taken = @taken + (select count(*) from @claimed as c);
  update @met set Turn = null where Turn > 0 and Place > @last - @found
                                and RequestId not in (select c.RequestId from @claimed as c);
  if @found < @left and @by_policy = 0
    break;
end;
set @p_more = case when @round >= 50 or @locked = 1 then 1 else 0 end;
set @p_leased = (select N'[' + string_agg(cast(m.RequestId as nvarchar(max)), N',') within group (order by m.Place)
                        + N']' from @met as m where m.Turn > 0);
