-- check_arrays: refuse parallel arrays of different lengths.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], variadic p_lengths integer[]
-- returns:  integer -- their length
-- errors:   RL001 arrays of different lengths
-- locks:    none
-- why:      unnest would fill a short array up with nulls, and a null token must never be
--           compared.
create or replace function rowlease_internal.check_arrays(
  p_request_ids bigint[], p_lock_tokens bigint[], variadic p_lengths integer[]
) returns integer
language plpgsql immutable
as $$
begin
  if p_request_ids is null or cardinality(p_request_ids) is distinct from cardinality(p_lock_tokens)
     or cardinality(p_request_ids) <> any(p_lengths) then
    raise exception using errcode = 'RL001',
      message = 'request ids, lock tokens and the other arrays must have the same length';
  end if;
  return cardinality(p_request_ids);
end $$;
