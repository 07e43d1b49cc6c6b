-- pause: stop claims from a queue; running requests and producers continue.
-- params:   p_queue_name text, p_actor text (the operator's name)
-- returns:  void
-- errors:   RL002 unknown queue
-- locks:    the queue's settings row
-- why:      every claim reads the settings, so a pause takes effect at the next claim.
create or replace function rowlease.pause(p_queue_name text, p_actor text default null) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$ select rowlease_internal.set_paused(p_queue_name, true, p_actor) $$;
