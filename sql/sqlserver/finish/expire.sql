-- expire: cancel leased requests that were not to start any more; no attempt is counted.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max)
-- locks:    the requests' groups, then rows of queue, exclusive; held to the caller's commit
create or alter procedure rowlease.expire @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @held xml;
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens;
begin transaction;
exec rowlease_internal.take_held @p_request_ids, @p_lock_tokens, @held output;
update q
   set CancelRequested = 1, LastError = N'it expired before it started'
  from openjson(cast(@held as nvarchar(max))) as h
  join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
    on q.RequestId = cast(h.value as bigint)
option (loop join, force order, maxdop 1);
commit transaction;
exec rowlease.abandon @p_request_ids, @p_lock_tokens;
