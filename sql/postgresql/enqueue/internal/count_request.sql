-- count_request: count a request with a dedup key that was inserted through the view `inbox`.
-- params:   none -- a trigger on rowlease.queue
-- returns:  trigger
-- errors:   RL002 unknown queue, RL005 queue is full
-- locks:    as fill_request
-- why:      ON CONFLICT DO NOTHING may drop a row after fill_request has run, if another
--           transaction inserts the same key concurrently; this trigger fires only for rows that
--           are inserted. It fires only for rows of the inbox: fill_request stores the id of its
--           row in a setting, and the trigger's condition is evaluated before the next row is
--           inserted. All other rows cost one comparison.
create or replace function rowlease_internal.count_request() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
begin
  perform rowlease_internal.check_capacity(new.queue_name, 1, new.priority, new.requested_time);
  insert into rowlease.queue_depth (queue_name, priority, scheduled, pending)
  values (new.queue_name, new.priority,
          (new.status = 'Scheduled')::int, (new.status = 'Pending')::int);
  return null;
end $$;

do $$
begin
  if not exists (select from pg_catalog.pg_trigger t
                  where t.tgrelid = 'rowlease.queue'::regclass and t.tgname = 'count_request') then
    create trigger count_request
    after insert on rowlease.queue
    for each row when (new.dedup_key is not null
                       and current_setting('rowlease.inserted', true) = new.request_id::text)
    execute function rowlease_internal.count_request();
  end if;
end $$;
