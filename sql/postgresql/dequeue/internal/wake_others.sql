-- wake_others: notify workers and producers that a claim has made room for.
-- params:   p_settings rowlease.queue_settings, p_worker_id text, p_now timestamptz,
--           p_slots integer, p_num_leased integer
-- returns:  void
-- errors:   none
-- locks:    the worker's own row, in a queue whose workers have different priorities
-- why:      when this worker is full, workers of lower priority may continue; producers that wait
--           for room try again. If no worker is held back and no producer waits, nothing is
--           written.
create or replace function rowlease_internal.wake_others(
  p_settings rowlease.queue_settings, p_worker_id text, p_now timestamptz,
  p_slots integer, p_num_leased integer
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_settings.consumer_priorities then
    update rowlease.worker w
       set busy = greatest(0, w.slots - p_slots + p_num_leased), heartbeat_time = p_now
     where w.worker_id = p_worker_id;
    if p_num_leased >= p_slots then
      perform rowlease_internal.wake_workers(p_settings.queue_name, false);
    end if;
  end if;
  if p_settings.capacity is not null and p_num_leased > 0 then
    perform rowlease_internal.wake_producers(p_settings.queue_name);
  end if;
end $$;
