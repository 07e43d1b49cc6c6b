-- worker_heartbeat: register a worker, or record that it is alive, with its load.
-- params:   p_worker_id text, p_host text, p_pid integer, p_version text, p_queue_names text[],
--           p_slots integer, p_busy integer, p_consumer_priority integer, p_kinds json (the task
--           of each kind that it knows; null: it may know all)
-- returns:  void
-- errors:   none
-- locks:    rows of queue_settings, if the worker has a consumer priority; the worker's own row; rows
--           of unknown_kind, skipping locked ones
-- why:      it shows people which worker does what; leases do not depend on it. This routine
--           records in the queue's settings that its workers have different priorities; claims
--           check priorities only after that. Workers of lower priority are notified when the
--           slots of this worker are full. Kinds that the worker knows are removed from
--           unknown_kind. The settings come first: delete_queue locks them, then rows of unknown_kind.
create or replace function rowlease.worker_heartbeat(
  p_worker_id text, p_host text, p_pid integer, p_version text, p_queue_names text[],
  p_slots integer, p_busy integer, p_consumer_priority integer default 0,
  p_kinds json default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now  timestamptz := rowlease.now();
  v_name text;
begin
  if p_consumer_priority <> 0 then
    update rowlease.queue_settings s set consumer_priorities = true
     where s.queue_name = any(p_queue_names) and not s.consumer_priorities;
  end if;
  for v_name in select s.queue_name from rowlease.queue_settings s
                 where s.queue_name = any(p_queue_names) and s.consumer_priorities
                   and p_busy >= p_slots loop
    perform rowlease_internal.wake_workers(v_name, false);
  end loop;
  insert into rowlease.worker as w (worker_id, host, pid, version, queue_names, slots, busy,
                                    consumer_priority, kinds, started_time, heartbeat_time)
  values (p_worker_id, p_host, p_pid, p_version, to_json(p_queue_names), p_slots, p_busy,
          p_consumer_priority, p_kinds, v_now, v_now)
  on conflict (worker_id) do update
     set busy = excluded.busy, slots = excluded.slots, queue_names = excluded.queue_names,
         consumer_priority = excluded.consumer_priority, kinds = excluded.kinds,
         heartbeat_time = v_now;
  delete from rowlease.unknown_kind u
   where (u.queue_name, u.kind) in (
           select k.queue_name, k.kind from rowlease.unknown_kind k
            where k.queue_name = any(p_queue_names) and (p_kinds is null or p_kinds::jsonb ? k.kind)
              for update skip locked);
end $$;
