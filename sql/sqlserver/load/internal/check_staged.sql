-- check_staged: refuse to promote staged rows that no queue accepts.
-- params:   p_load_id nvarchar(400), p_run_number bigint, p_kind nvarchar(max) (for rows that name none)
-- returns:  nothing
-- errors:   RL003 bad priority, RL004 bad payload, RL006 no kind, RL016 bad headers;
--           51011 a payload that is not JSON
-- why:      the table has no conditions, because a bulk copy passes over them.
create or alter procedure rowlease_internal.check_staged
  @p_load_id nvarchar(400), @p_run_number bigint, @p_kind nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @kind nvarchar(max), @priority int, @payload nvarchar(max), @is_bad bit, @says nvarchar(2048);
select top (1) @kind = coalesce(s.Kind, @p_kind), @priority = s.Priority, @payload = s.Payload
  from rowlease.Staging as s with (forceseek (staging_run (RunNumber)))
 where s.RunNumber = @p_run_number and s.LoadId = @p_load_id
   and (coalesce(s.Kind, @p_kind, N'') = N'' or len(coalesce(s.Kind, @p_kind)) > 200
        or s.Priority < 0 or rowlease_internal.num_bytes(s.Payload) > 1048576
        or rowlease_internal.are_arguments(s.Payload) = 0);
set @is_bad = @@rowcount;
if @is_bad = 1 and rowlease_internal.is_json(@payload) = 0
begin
  set @says = concat(N'load "', @p_load_id, N'" has a payload or headers that are not JSON; nothing was enqueued');
  throw 51011, @says, 1;
end;
if @is_bad = 1
  exec rowlease_internal.check_request @kind, @priority, @payload, null;
select top (1) @payload = s.Payload
  from rowlease.Staging as s with (forceseek (staging_run (RunNumber)))
 where s.RunNumber = @p_run_number and s.LoadId = @p_load_id;
exec rowlease_internal.check_names @payload;
if exists (select 1 from rowlease.Staging as s with (forceseek (staging_run (RunNumber)))
            where s.RunNumber = @p_run_number and s.LoadId = @p_load_id
              and rowlease_internal.are_headers(s.Headers) = 0)
  throw 51016, N'headers must be a JSON object of strings, of at most 8192 bytes', 1;
