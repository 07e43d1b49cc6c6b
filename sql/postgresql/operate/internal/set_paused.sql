-- set_paused: pause or resume a queue.
-- params:   p_queue_name text, p_paused boolean, p_actor text
-- returns:  void
-- errors:   RL002 unknown queue
-- locks:    the queue's settings row
-- why:      resuming notifies idle workers, so that they claim immediately.
create or replace function rowlease_internal.set_paused(
  p_queue_name text, p_paused boolean, p_actor text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform rowlease_internal.check_queue(p_queue_name);
  update rowlease.queue_settings s set paused = p_paused where s.queue_name = p_queue_name;
  perform rowlease_internal.note_operation(
    case when p_paused then 'pause' else 'resume' end, jsonb_build_object('queue', p_queue_name), null,
    p_actor, rowlease.now(), true);
  perform rowlease_internal.wake_workers(p_queue_name, not p_paused);
end $$;
