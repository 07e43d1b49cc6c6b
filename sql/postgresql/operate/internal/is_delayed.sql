-- is_delayed: test whether a scheduled request waits for the rate of its group.
-- params:   p_queue_name text, p_group_key text, p_due_time timestamptz
-- returns:  boolean
-- errors:   none
-- locks:    none
-- why:      such a request is due when a start of its group leaves the period (delay_groups).
create or replace function rowlease_internal.is_delayed(
  p_queue_name text, p_group_key text, p_due_time timestamptz
) returns boolean
language sql stable
return exists (select from rowlease.rate_start r
                where r.queue_name = p_queue_name and r.rate_key = ':' || p_group_key
                  and r.expires_time = p_due_time);
