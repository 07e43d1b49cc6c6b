-- ms_until: compute the milliseconds from now until a time.
-- params:   p_time timestamptz, p_now timestamptz
-- returns:  bigint -- 0 or more; null if there is no time
-- errors:   none
-- locks:    none
-- why:      a time set by hand may be 'infinity', which cannot be expressed in milliseconds.
create or replace function rowlease_internal.ms_until(p_time timestamptz, p_now timestamptz) returns bigint
language sql immutable
return case when isfinite(p_time)
              then greatest(0, ceil(extract(epoch from p_time - p_now) * 1000))::bigint end;
