-- backoff_ms: compute how long a request waits before its next attempt.
-- params:   p_base_ms int, p_cap_ms int, p_num_attempts int, p_random float (0 to 1)
-- why:      the delay doubles with every attempt, up to the cap. Half of it is random, so that
--           requests that failed together are not retried together ("equal jitter", AWS
--           Architecture Blog, 2015). A function cannot draw a random number itself.
create or alter function rowlease_internal.backoff_ms(
  @p_base_ms int, @p_cap_ms int, @p_num_attempts int, @p_random float
) returns bigint
as
begin
  declare @doublings int = case when @p_num_attempts > 40 then 39 else @p_num_attempts - 1 end;
  declare @ms float = @p_base_ms * power(cast(2 as float), @doublings);
  if @ms > @p_cap_ms
    set @ms = @p_cap_ms;
  return cast(round(@ms * (0.5 + @p_random / 2), 0) as bigint);
end;
