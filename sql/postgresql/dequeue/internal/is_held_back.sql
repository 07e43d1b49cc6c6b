-- is_held_back: test whether a worker with a higher consumer priority goes first.
-- params:   p_settings rowlease.queue_settings, p_worker_id text, p_now timestamptz
-- returns:  boolean
-- errors:   none
-- locks:    none
-- why:      while a worker of higher priority is alive (a heartbeat within 2 s) and has free
--           slots, a worker of lower priority gets nothing (RabbitMQ, "Consumer Priorities"). Only
--           queues whose workers have different consumer priorities need this test.
create or replace function rowlease_internal.is_held_back(
  p_settings rowlease.queue_settings, p_worker_id text, p_now timestamptz
) returns boolean
language sql stable
return exists (
  select from rowlease.worker w
   where w.worker_id <> p_worker_id and w.busy < w.slots
     and w.heartbeat_time > p_now - interval '2 seconds'
     and w.queue_names::jsonb ? p_settings.queue_name
     and w.consumer_priority > coalesce((select me.consumer_priority from rowlease.worker me
                                          where me.worker_id = p_worker_id), 0));
