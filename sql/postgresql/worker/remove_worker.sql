-- remove_worker: remove a worker that is ending.
-- params:   p_worker_id text
-- returns:  void
-- errors:   none
-- locks:    the worker's own row
-- why:      other workers do not have to wait until its heartbeat is too old; those that were held
--           back by its priority are notified.
create or replace function rowlease.remove_worker(p_worker_id text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text;
begin
  for v_name in
    with gone as (delete from rowlease.worker w where w.worker_id = p_worker_id
                  returning w.queue_names, w.consumer_priority)
    select n from gone g, json_array_elements_text(g.queue_names) n where g.consumer_priority <> 0
  loop
    perform rowlease_internal.wake_workers(v_name, false);
  end loop;
end $$;
