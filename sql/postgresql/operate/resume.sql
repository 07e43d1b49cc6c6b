-- resume: allow claims from a paused queue again.
-- params:   p_queue_name text, p_actor text (the operator's name)
-- returns:  void
-- errors:   RL002 unknown queue
-- locks:    the queue's settings row
-- why:      idle workers are notified, so that they claim immediately.
create or replace function rowlease.resume(p_queue_name text, p_actor text default null) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$ select rowlease_internal.set_paused(p_queue_name, false, p_actor) $$;
