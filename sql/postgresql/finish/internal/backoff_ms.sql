-- backoff_ms: compute how long a request waits before its next attempt.
-- params:   p_base_ms integer, p_cap_ms integer, p_num_attempts integer
-- returns:  bigint -- milliseconds, 0 or more
-- errors:   none
-- locks:    none
-- why:      the delay doubles with every attempt, up to the cap. Half of it is random, so that
--           requests that failed together are not retried together ("equal jitter", AWS
--           Architecture Blog, 2015).
create or replace function rowlease_internal.backoff_ms(
  p_base_ms integer, p_cap_ms integer, p_num_attempts integer
) returns bigint
language sql volatile
return (least(p_cap_ms, p_base_ms * power(2.0, least(p_num_attempts, 40) - 1))
        * (0.5 + random() / 2))::bigint;
