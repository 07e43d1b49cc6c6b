-- needs_floor: test whether a claim has stepped over many index entries of finished requests.
-- params:   p_before bigint, p_limit integer
-- returns:  boolean
-- errors:   none
-- locks:    none
-- why:      p_before is num_stepped_over at the beginning of a claim of p_limit requests. 1,000 entries take
--           about 0.2 ms. Without an old snapshot, a claim meets the entries of the last few claims,
--           until nobody can see their rows any more; they are as many as those claims have taken.
create or replace function rowlease_internal.needs_floor(p_before bigint, p_limit integer)
returns boolean
language sql volatile
as $$ select rowlease_internal.num_stepped_over() - p_before > greatest(1000, 5 * p_limit) $$;
