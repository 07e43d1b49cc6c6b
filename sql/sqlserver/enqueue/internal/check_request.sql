-- check_request: refuse a request that no queue accepts.
-- params:   p_kind nvarchar(max), p_priority int, p_payload nvarchar(max), p_max_attempts int
-- returns:  nothing
-- errors:   RL003 bad priority, RL004 bad payload, RL006 no kind, RL007 attempts below 1; 51011 a payload
--           that is not JSON
create or alter procedure rowlease_internal.check_request
  @p_kind nvarchar(max), @p_priority int, @p_payload nvarchar(max), @p_max_attempts int
as
set nocount on;
set xact_abort on;
declare @says nvarchar(2048);
if coalesce(@p_kind, N'') = N'' or len(@p_kind) > 200
  throw 51006, N'kind must be a task name of 1 to 200 characters', 1;
if @p_priority < 0
begin
  set @says = concat(N'priority is ', @p_priority,
                     N'; it must be 0 or more, and bigger is more urgent');
  throw 51003, @says, 1;
end;
if rowlease_internal.num_bytes(@p_payload) > 1048576
begin
  set @says = concat(N'payload is ', rowlease_internal.num_bytes(@p_payload),
                     N' bytes; the limit is 1048576. Store large data elsewhere and enqueue a reference');
  throw 51004, @says, 1;
end;
if @p_max_attempts < 1
begin
  set @says = concat(N'max_attempts is ', @p_max_attempts, N'; it must be 1 or more');
  throw 51007, @says, 1;
end;
if rowlease_internal.is_json(@p_payload) = 0
  throw 51011, N'a payload, result or header is not JSON', 1;
if rowlease_internal.are_arguments(@p_payload) = 0
  throw 51004, N'payload must be a JSON object of arguments by name, without half of a surrogate pair (\ud800 to \udfff)', 1;
