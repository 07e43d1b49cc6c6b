-- filter_of_operation: return the filter of an operation, with the statuses that the verb takes.
-- params:   p_verb nvarchar(max), p_filter nvarchar(max)
-- returns:  nvarchar(max) -- the filter; where it names no status, with those of the verb
-- errors:   none
create or alter function rowlease_internal.filter_of_operation(@p_verb nvarchar(max), @p_filter nvarchar(max))
returns nvarchar(max)
as
begin
  declare @has_status bit = 0, @named bit = 0, @statuses nvarchar(200);
  select @has_status = max(case when j.[key] = 'status' and j.type = 4 then 1 else 0 end),
         @named = max(case when j.[key] = 'ids' and j.type = 4 then 1 else 0 end)
    from openjson(@p_filter) as j;
  select @statuses = case when @named = 1 then v.Takes else v.Defaults end
    from rowlease_internal.verbs() as v where v.Verb = @p_verb;
  return case when @has_status = 1 then @p_filter
              else json_modify(@p_filter, '$.status', json_query(@statuses)) end;
end;
