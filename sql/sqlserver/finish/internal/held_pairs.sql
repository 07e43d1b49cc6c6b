-- held_pairs: pair request ids with their lock tokens.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max)
-- returns:  place int (from 0), request_id bigint, lock_token bigint
-- errors:   none
-- locks:    none
-- why:      arrays are passed as JSON texts; openjson numbers their elements.
create or alter function rowlease_internal.held_pairs(
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max)
) returns table
as
return
  select cast(i.[key] as int) as place, cast(i.value as bigint) as request_id,
         cast(t.value as bigint) as lock_token
    from openjson(@p_request_ids) as i
    join openjson(@p_lock_tokens) as t on t.[key] = i.[key];
