-- take_held: lock the rows of those requests whose leases the caller still holds.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_held_ids nvarchar(max) output,
--           p_groups nvarchar(max) output
-- returns:  p_held_ids -- [1, 2, ...]; p_groups -- of lock_groups
-- errors:   51012 a group's lock was not had in time
-- locks:    the groups of the requests; then rows of queue, exclusive; to the end of the transaction
-- why:      the update changes nothing, but its lock is one that every engine takes; what is read
--           afterwards cannot change until the caller has written it.
create or alter procedure rowlease.take_held
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_held_ids nvarchar(max) output,
  @p_groups nvarchar(max) output
as
set nocount on;
set xact_abort on;
declare @given table (RequestId bigint not null, LockToken bigint not null,
                      primary key (RequestId, LockToken));
declare @held table (RequestId bigint not null primary key);
insert into @given (RequestId, LockToken)
select distinct g.request_id, g.lock_token
  from rowlease.held_pairs(@p_request_ids, @p_lock_tokens) as g
 where g.request_id is not null and g.lock_token is not null;
exec rowlease.lock_groups @p_request_ids, @p_groups output;
update rowlease.Queue with (rowlock) set LockToken = LockToken
output inserted.RequestId into @held (RequestId)
 where LockedBy is not null
   and exists (select 1 from @given as g
                where g.RequestId = Queue.RequestId and g.LockToken = Queue.LockToken)
option (maxdop 1);
set @p_held_ids = coalesce(N'[' + (
  select string_agg(cast(h.RequestId as nvarchar(max)), N',') from @held as h) + N']', N'[]');
