-- complete: finish leased requests, if the caller still holds their leases.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_results nvarchar(max)
-- errors:   RL001 arrays of different lengths; 51011 a result that is not JSON
-- locks:    the requests' groups, then rows of queue, exclusive; held to the caller's commit
-- why:      the row is locked by an update that compares the token, and moved to queue_history
--           while it is locked, so there is no gap between check and write. If the caller calls
--           this in its own transaction, its effects and the completion commit together.
--           complete_held joins the settings of the queue with an outer join, because a request must
--           not be lost if these settings were deleted.
create or alter procedure rowlease.complete
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_results nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @done nvarchar(max), @held xml;
declare @answer table (Place int not null primary key, RequestId bigint, Outcome varchar(20) not null);
begin transaction;
exec rowlease_internal.complete_held @p_request_ids, @p_lock_tokens, @p_results, @held output;
set @done = cast(@held as nvarchar(max));
insert into @answer (Place, RequestId, Outcome)
select o.place, o.request_id, o.outcome
  from rowlease_internal.lease_outcomes(@p_request_ids, @p_lock_tokens, @done) as o;
commit transaction;
select a.RequestId as request_id, a.Outcome as outcome from @answer as a order by a.Place;
