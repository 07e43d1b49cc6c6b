-- is_acceptable: test whether check_request would accept a request.
-- params:   p_kind text, p_priority integer, p_payload text, p_max_attempts integer
-- returns:  boolean
-- errors:   none
-- locks:    none
-- why:      PostgreSQL inlines this function, so a batch calls check_request only for the requests
--           that it refuses. `between` is not used, because PostgreSQL prints it in another
--           form, so a restored dump would differ.
create or replace function rowlease_internal.is_acceptable(
  p_kind text, p_priority integer, p_payload text, p_max_attempts integer
) returns boolean
language sql immutable
return coalesce(length(p_kind), 0) >= 1 and coalesce(length(p_kind), 0) <= 200
       and coalesce(p_priority, 0) >= 0
       and rowlease_internal.are_arguments(p_payload)
       and coalesce(octet_length(p_payload), 0) <= 1048576 and coalesce(p_max_attempts, 1) >= 1;
