-- pause: stop a queue from being dequeued; what runs goes on, and so do producers.
-- params:   p_queue_name text
-- returns:  void
-- errors:   RL002 unknown queue
-- locks:    the queue's settings row
-- why:      every dequeue reads the settings, so that it takes effect within one claim.
create or replace function rowlease.pause(p_queue_name text) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$ select rowlease.set_paused(p_queue_name, true) $$;
