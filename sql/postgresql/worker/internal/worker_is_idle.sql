-- worker_is_idle: test whether a worker of a queue is idle.
-- params:   p_queue_name text
-- returns:  boolean
-- errors:   none
-- locks:    a session advisory lock, taken without waiting and released immediately
-- why:      an idle worker holds the lock in shared mode (announce_idle), so if an exclusive lock is
--           not granted, a worker is idle. The planner inlines this function.
create or replace function rowlease_internal.worker_is_idle(p_queue_name text) returns boolean
language sql volatile
return case when pg_try_advisory_lock(1919907436, hashtext(p_queue_name))
            then not pg_advisory_unlock(1919907436, hashtext(p_queue_name)) else true end;
