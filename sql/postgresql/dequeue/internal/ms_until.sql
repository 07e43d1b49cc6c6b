-- ms_until: compute the milliseconds from now until a time.
-- params:   p_time timestamptz, p_now timestamptz
-- returns:  bigint -- 0 or more; null without a time
-- errors:   none
-- locks:    none
-- why:      a time that was set by hand may be 'infinity', of which no number of milliseconds is left.
create or replace function rowlease_internal.ms_until(p_time timestamptz, p_now timestamptz) returns bigint
language sql immutable
return case when isfinite(p_time)
              then greatest(0, ceil(extract(epoch from p_time - p_now) * 1000))::bigint end;
