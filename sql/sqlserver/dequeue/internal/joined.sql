-- joined: join two JSON arrays of numbers.
-- params:   p_first nvarchar(max), p_second nvarchar(max)
-- returns:  nvarchar(max) -- the elements of the first array, then those of the second
-- errors:   none
-- locks:    none
-- why:      SQL may call exchange with arrays that are written in any way, with blanks and line ends.
create or alter function rowlease_internal.joined(@p_first nvarchar(max), @p_second nvarchar(max))
returns nvarchar(max)
as
begin
  return (
    select N'[' + string_agg(coalesce(j.value, N'null'), N',') within group (order by j.part, j.place) + N']'
      from (select 1 as part, cast(f.[key] as int) as place, f.value from openjson(@p_first) as f
             union all
            select 2, cast(s.[key] as int), s.value from openjson(@p_second) as s) as j);
end;
