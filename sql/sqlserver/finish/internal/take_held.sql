-- take_held: lock the requests whose leases the caller still holds.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_held xml output
-- returns:  p_held -- their ids, as a JSON array; null: none
-- errors:   51012 as take_lock
-- locks:    the groups of the requests; then rows of queue, exclusive; to the end of the transaction
-- why:      the update changes nothing, but it locks the rows on every engine, so that they cannot
--           change between the caller's read and its write. The ids are returned as lease does.
create or alter procedure rowlease_internal.take_held
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_held xml output
as
set nocount on;
set xact_abort on;
declare @given table (RequestId bigint not null, LockToken bigint not null,
                      primary key (RequestId, LockToken));
declare @held table (RequestId bigint not null primary key);
declare @groups nvarchar(max) = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@p_request_ids) as g for json path);
insert into @given (RequestId, LockToken)
select distinct g.request_id, g.lock_token
  from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
 where g.request_id is not null and g.lock_token is not null;
exec rowlease_internal.lock_groups @groups;
update rowlease.Queue set LockToken = Queue.LockToken
output inserted.RequestId into @held (RequestId)
  from @given as g
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock)
         on Queue.RequestId = g.RequestId and Queue.LockToken = g.LockToken
 where Queue.LockedBy is not null
option (loop join, force order, maxdop 1);
set @p_held = (select N'[' + string_agg(cast(h.RequestId as nvarchar(max)), N',') + N']' from @held as h);
