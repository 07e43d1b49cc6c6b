-- next_commit: estimate when requests that are being committed without a notification can be claimed.
-- params:   p_queue_name text, p_now timestamptz
-- returns:  timestamptz -- in 20 ms; null if there are none
-- errors:   none
-- locks:    a session advisory lock, taken without waiting and released immediately
-- why:      see wake_once. A claim calls this before it looks for requests: a transaction that ends
--           between the two is then noticed by one of them. The planner inlines this function.
create or replace function rowlease_internal.next_commit(p_queue_name text, p_now timestamptz)
returns timestamptz
language sql volatile
return case when pg_try_advisory_lock(1919907435, hashtext(p_queue_name))
                 and pg_advisory_unlock(1919907435, hashtext(p_queue_name)) then null
            else p_now + interval '20 ms' end;
