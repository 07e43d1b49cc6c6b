-- wake_later: have idle workers notified when the caller's transaction commits.
-- params:   p_queue_name text
-- returns:  boolean -- true
-- errors:   none
-- locks:    none
-- why:      call it before the requests are inserted; see wake_at_commit. The planner inlines this
--           function.
create or replace function rowlease_internal.wake_later(p_queue_name text) returns boolean
language sql volatile
return current_setting('rowlease.wake', true) is not distinct from p_queue_name
       or set_config('rowlease.wake', '?', true) is not null;
