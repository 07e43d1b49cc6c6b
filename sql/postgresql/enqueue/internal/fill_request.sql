-- fill_request: fill in a request that was inserted through the view `inbox`.
-- params:   none -- a trigger on rowlease.queue
-- returns:  trigger
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL005 queue is full,
--           RL006 no kind, RL016 bad headers
-- locks:    the queue's settings row if it has a capacity; held to the caller's commit
-- why:      a program that writes to the inbox gives only the columns of that view. Routines set
--           max_attempts themselves, so their rows do not fire this trigger and cost one
--           comparison. A row with a dedup key may still be dropped by ON CONFLICT DO NOTHING, so
--           count_request counts it. Idle workers are notified by wake_at_commit.
create or replace function rowlease_internal.fill_request() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
declare
  v_xid      xid8 := pg_current_xact_id();  -- must be assigned before the clock is read: see floor_in_force
  v_now      timestamptz := rowlease.now();
  v_settings rowlease.queue_settings;
begin
  v_settings := rowlease_internal.check_capacity(coalesce(new.queue_name, 'default'), 1,
                               coalesce(new.priority, 0), v_now);
  perform rowlease_internal.check_request(new.kind, new.priority, new.payload::text, null);
  perform rowlease_internal.check_names(new.payload);
  perform rowlease_internal.check_headers(new.headers::text);
  new.queue_name := v_settings.queue_name;
  new.payload := coalesce(new.payload, '{}');
  new.priority := least(coalesce(new.priority, 0), v_settings.max_priority);
  new.requested_time := v_now;
  new.due_time := greatest(coalesce(new.due_time, v_now), v_now);
  new.status := case when new.due_time > v_now then 'Scheduled' else 'Pending' end;
  new.max_attempts := v_settings.max_attempts;
  if new.dedup_key is null then
    insert into rowlease.queue_depth (queue_name, priority, scheduled, pending)
    values (new.queue_name, new.priority,
            (new.status = 'Scheduled')::int, (new.status = 'Pending')::int);
  else
    perform set_config('rowlease.inserted', new.request_id::text, true);
  end if;
  perform rowlease_internal.wake_later(new.queue_name);
  return new;
end $$;

do $$
begin
  if not exists (select from pg_catalog.pg_trigger t
                  where t.tgrelid = 'rowlease.queue'::regclass and t.tgname = 'fill_request') then
    create trigger fill_request
    before insert on rowlease.queue
    for each row when (new.max_attempts is null)
    execute function rowlease_internal.fill_request();
  end if;
end $$;
