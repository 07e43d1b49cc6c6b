-- fail: report that leased requests failed; each is retried later or becomes a dead letter.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_errors nvarchar(max),
--           p_retries_ms nvarchar(max) (null: the queue's back-off), p_dead nvarchar(max) (never retry),
--           p_error_types nvarchar(max) (names of exceptions), p_tracebacks nvarchar(max)
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', and
--           dead bit (it is a dead letter now), in the order given
-- locks:    the requests' groups, then rows of queue, exclusive; held to the caller's commit
create or alter procedure rowlease.fail
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_errors nvarchar(max),
  @p_retries_ms nvarchar(max) = null, @p_dead nvarchar(max) = null,
  @p_error_types nvarchar(max) = null, @p_tracebacks nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @done nvarchar(max), @held xml;
declare @answer table (Place int not null primary key, RequestId bigint, Outcome varchar(20) not null,
                       Dead bit not null);
begin transaction;
exec rowlease_internal.fail_held @p_request_ids, @p_lock_tokens, @p_errors, @p_retries_ms, @p_dead,
                                 @p_error_types, @p_tracebacks, @held output;
set @done = cast(@held as nvarchar(max));
insert into @answer (Place, RequestId, Outcome, Dead)
select o.place, o.request_id, o.outcome, o.dead
  from rowlease_internal.settled_outcomes(@p_request_ids, @p_lock_tokens, @done) as o;
commit transaction;
select a.RequestId as request_id, a.Outcome as outcome, a.Dead as dead
  from @answer as a order by a.Place;
