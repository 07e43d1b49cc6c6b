-- worker_bye: a worker says that it is leaving.
-- params:   p_worker_id text
-- returns:  void
-- errors:   none
-- locks:    the worker's own row
-- why:      others need not wait for its silence.
create or replace function rowlease.worker_bye(p_worker_id text) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$ delete from rowlease.worker w where w.worker_id = p_worker_id $$;
