-- needs_floor: test whether a claim has stepped over many index entries of finished requests.
-- params:   p_before bigint -- num_stepped_over as the claim began
-- returns:  boolean
-- errors:   none
-- locks:    none
-- why:      to step over 1,000 takes about 0.2 ms. Fewer are met without an old snapshot, too: those
--           of the last claims, until a scan has marked them as dead for everybody.
create or replace function rowlease_internal.needs_floor(p_before bigint) returns boolean
language sql volatile
as $$ select rowlease_internal.num_stepped_over() - p_before > 1000 $$;
