-- cancel: cancel waiting requests; ask running ones to stop.
-- params:   p_request_ids nvarchar(max)
-- returns:  request_id bigint, outcome text -- 'ok' (cancelled) | 'cancel_requested' (running: its
--           worker learns of it at the next renew) | 'not_found' (the request is finished, or
--           never existed)
-- errors:   51012 as take_lock
-- locks:    the requests' own locks, in request order, then their groups'; rows of queue, exclusive;
--           held to the caller's commit
-- why:      no lease is broken: a running request ends when its worker reports an outcome, or when
--           its lease runs out. A claim locks a row that it has found in an index; this routine
--           finds the row by key. Both first take the request's own lock, so they cannot wait for
--           each other. A single update of all rows could lock them in any order, and two such
--           updates could deadlock.
create or alter procedure rowlease.cancel @p_request_ids nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @groups nvarchar(max);
declare @id bigint = -9223372036854775808;
declare @given table (Place int not null primary key, RequestId bigint, Outcome varchar(20));
declare @ids table (RequestId bigint not null primary key);
insert into @given (Place, RequestId, Outcome)
select cast(i.[key] as int), cast(i.value as bigint), 'not_found' from openjson(@p_request_ids) as i;
insert into @ids (RequestId)
select distinct g.RequestId from @given as g where g.RequestId is not null;
begin transaction;
exec rowlease_internal.lock_requests @p_request_ids;
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@p_request_ids) as g for json path);
exec rowlease_internal.lock_groups @groups;
while @id is not null
begin
  set @id = (select min(i.RequestId) from @ids as i where i.RequestId > @id);
  update q set CancelRequested = case when q.LockedBy is null then 0 else 1 end
    from rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
   where q.RequestId = @id
  option (maxdop 1);
end;
update g set Outcome = 'cancel_requested'
  from @given as g
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = g.RequestId
 where q.LockedBy is not null;
update g set Outcome = 'ok'
  from @given as g
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = g.RequestId
 where q.LockedBy is null;
exec rowlease_internal.take_out @p_request_ids, @groups, @now;
commit transaction;
select g.RequestId as request_id, g.Outcome as outcome from @given as g order by g.Place;
