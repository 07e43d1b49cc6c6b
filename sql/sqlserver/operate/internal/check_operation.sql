-- check_operation: refuse an operation that is wrong.
-- params:   p_verb nvarchar(max), p_filter nvarchar(max), p_arguments nvarchar(max)
-- returns:  nothing
-- errors:   RL001 an unknown verb, a status that the verb does not take, a filter that selects every
--           request, or a wrong argument
-- locks:    none
-- why:      an operation without a filter would change every request.
create or alter procedure rowlease_internal.check_operation
  @p_verb nvarchar(max), @p_filter nvarchar(max), @p_arguments nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @says nvarchar(2048), @takes nvarchar(200);
declare @priority nvarchar(max) = json_value(@p_arguments, '$.priority');
declare @delay nvarchar(max) = json_value(@p_arguments, '$.delay_ms');
declare @due nvarchar(max) = json_value(@p_arguments, '$.due_time');
select @takes = v.Takes from rowlease_internal.verbs() as v where v.Verb = @p_verb;
if @takes is null
begin
  set @says = concat(N'there is no verb "', left(@p_verb, 100),
                     N'"; the verbs are ', (select string_agg(v.Verb, N', ') within group (order by v.Verb)
                                             from rowlease_internal.verbs() as v));
  throw 51001, @says, 1;
end;
if not exists (select 1 from openjson(@p_filter) as j where j.[key] <> 'status' and j.type <> 0)
  throw 51001, N'the filter selects every request, or all of a status; add a queue, ids, or another term, such as an age', 1;
if exists (select 1 from openjson(@p_filter, '$.status') as s
            where charindex(concat(N'"', s.value, N'"'), @takes) = 0)
begin
  set @says = concat(@p_verb, N' takes requests that are ',
                     replace(replace(replace(replace(@takes, N'[', N''), N']', N''), N'"', N''), N',', N', '));
  throw 51001, @says, 1;
end;
if @p_verb = N'cancel' and exists (select 1 from openjson(@p_arguments) as j where j.[key] = 'kill' and j.type <> 3)
  throw 51001, N'cancel takes kill: true or false', 1;
if @p_verb = N'reprioritise' and (@priority is null or @priority like N'%[^0-9]%' or len(@priority) > 9)
  throw 51001, N'reprioritise needs a priority: a whole number of 0 or more', 1;
if @p_verb = N'reschedule' and (@delay like N'%[^0-9]%' or len(@delay) > 13
                                or @due is not null and try_cast(@due as datetime2(6)) is null
                                or @due like N'%[+-][0-9][0-9]:[0-9][0-9]')
  throw 51001, N'reschedule needs delay_ms, a whole number, or due_time, such as 2026-11-22T18:00:00Z', 1;
