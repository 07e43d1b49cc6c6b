-- enqueue_by_operator: put one request into a queue, and record who did.
-- params:   p_queue_name text, p_kind text, p_payload text, p_priority integer, p_delay_ms bigint,
--           p_due_time timestamptz, p_actor text (the operator's name)
-- returns:  request_id bigint, outcome text -- 'ok'
-- errors:   as enqueue
-- locks:    as enqueue
-- why:      the enqueue of programs has no operator. Operators may do this without the rights of a
--           producer: a schedule that they put and fire enqueues, too.
create or replace function rowlease.enqueue_by_operator(
  p_queue_name text, p_kind text, p_payload text default '{}', p_priority integer default 0,
  p_delay_ms bigint default null, p_due_time timestamptz default null, p_actor text default null
) returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  select e.request_id, e.outcome into request_id, outcome
    from rowlease.enqueue(p_queue_name, p_kind, p_payload, p_priority, p_delay_ms, p_due_time) e;
  perform rowlease_internal.note_operation(
    'enqueue', jsonb_build_object('queue', p_queue_name),
    jsonb_build_object('kind', p_kind, 'request_id', request_id), p_actor, rowlease.now(), true);
  return next;
end $$;
