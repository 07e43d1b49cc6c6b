-- floor_in_force: the claimer's floor, or a new one when it is too old to trust.
-- params:   p_floor text, p_now timestamptz
-- returns:  jsonb -- 'born', and 'queues': what raise_floor says of each
-- errors:   none
-- locks:    none
-- why:      a request that appears below a floor (a late commit) is passed over until the floor is
--           dropped; a second bounds that. The floor lives in the claimer's memory, as text that it
--           does not read.
create or replace function rowlease.floor_in_force(p_floor text, p_now timestamptz) returns jsonb
language sql immutable
return case
  when p_now - (p_floor::jsonb ->> 'born')::timestamptz between interval '0' and interval '1 second'
  then p_floor::jsonb
  else jsonb_build_object('born', p_now, 'queues', '{}'::jsonb)
end;
