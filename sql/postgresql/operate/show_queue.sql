-- show_queue: show the settings of a queue.
-- params:   p_queue_name text
-- returns:  json -- all settings, as configure_queue returns them
-- errors:   RL002 unknown queue
-- locks:    none
-- why:      programs that may not read tables can compare the settings with those they expect.
create or replace function rowlease.show_queue(p_queue_name text) returns json
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select row_to_json(rowlease_internal.check_queue(p_queue_name)) $$;
