-- needs_floor: test whether a claim has stepped over many index entries of finished requests.
-- params:   p_before bigint, p_limit integer
-- returns:  boolean
-- errors:   none
-- locks:    none
-- why:      p_before is num_stepped_over at the start of a claim of p_limit requests. Stepping over
--           5,000 entries takes about 1 ms, as much as the careful way adds to a claim. Without an
--           old snapshot, a claim meets only entries of the last few claims, until no transaction can
--           see their rows.
create or replace function rowlease_internal.needs_floor(p_before bigint, p_limit integer)
returns boolean
language sql volatile
as $$ select rowlease_internal.num_stepped_over() - p_before > greatest(5000, 20 * p_limit) $$;
