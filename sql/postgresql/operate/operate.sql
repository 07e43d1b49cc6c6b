-- operate: apply a verb to the requests that match a filter, in steps; each step is a transaction.
-- params:   p_verb text (docs/operations.md lists the verbs), p_filter jsonb (as of find_requests),
--           p_arguments jsonb (those of the verb, by name), p_actor text (the operator's name), p_dry_run
--           boolean (true: change nothing), p_after bigint (dry run: start below this id),
--           p_operation_id bigint (do the next step of this operation), p_limit integer (how many
--           requests in this step)
-- returns:  request_id bigint, outcome text, new_request_id bigint, operation_id bigint, after bigint,
--           num_requests bigint -- a row for each request: 'ok', 'cancel_requested', 'duplicate',
--           'waits' or 'not_found'; then one row with only operation_id (null in a dry run), after
--           (where the next step starts; null: nothing is left) and num_requests (how many the operation
--           has changed, in all its steps; null in a dry run)
-- errors:   as do_verb and check_filter; RL001 a wrong verb, filter or argument, or an operation
--           that cannot be continued
-- locks:    the operation's row; settings of the queues, shared, in the order of names
--           (reprioritise); as bring_in_named; rows of queue, exclusive, in request order; as
--           do_verb
-- why:      a request that no longer matches when it is locked is left alone. The first step is
--           noted in operation, and each step adds its count and its place there, so an interrupted
--           operation can be continued by its p_operation_id. In every step, ages in the filter are
--           measured at the time of the first step.
create or replace function rowlease.operate(
  p_verb text, p_filter jsonb default '{}', p_arguments jsonb default '{}', p_actor text default null,
  p_dry_run boolean default false, p_after bigint default null, p_operation_id bigint default null,
  p_limit integer default 1000
) returns table (request_id bigint, outcome text, new_request_id bigint, operation_id bigint, after bigint,
                 num_requests bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := rowlease.now();
  v_op     rowlease.operation;
  v_filter jsonb;
  v_found  record;
  v_ids    bigint[];
  v_left   bigint[];
  v_count  bigint := 0;
begin
  if p_operation_id is not null then
    select * into v_op from rowlease.operation o where o.operation_id = p_operation_id for update;
    if v_op.verb is distinct from p_verb or v_op.finished_time is not null then
      raise exception using errcode = 'RL001', message = format(
        'there is no unfinished operation %s with the verb %s; list the operations to see which can be resumed',
        p_operation_id, p_verb);
    end if;
  else
    v_op.filter := rowlease_internal.filter_of_operation(p_verb, p_filter, p_arguments);
    v_op.started_time := v_now;
    v_op.after := p_after;
    v_op.arguments := coalesce(p_arguments, '{}');
    if not p_dry_run then
      v_op.operation_id := rowlease_internal.note_operation(p_verb, v_op.filter, p_arguments, p_actor, v_now);
    end if;
  end if;
  v_filter := v_op.filter;
  select * into v_found from rowlease_internal.find_ids(v_filter, v_op.started_time, v_op.after, p_limit, 10000);
  v_left := rowlease_internal.left_to_batches(p_verb, v_filter, v_found.request_ids);
  v_ids := array(select u.id from unnest(v_found.request_ids) with ordinality as u(id, place)
                  where u.id <> all(v_left) order by u.place);
  if p_dry_run then
    return query select w.request_id, w.outcome, null::bigint, null::bigint, null::bigint, null::bigint
                   from rowlease_internal.would_be(p_verb, v_ids) w;
  else
    if p_verb = 'reprioritise' then
      perform from rowlease.queue_settings s
        where s.queue_name = any(array(select r.queue_name from unnest(v_ids) as u(id)
                                       cross join lateral rowlease.get_request(u.id) r))
        order by s.queue_name for share;
    end if;
    perform rowlease_internal.bring_in_named(v_ids);
    perform from (select u.id from unnest(v_ids) as u(id)) g
       join rowlease.queue q on q.request_id = any(array[g.id])
      order by g.id for update of q;
    v_ids := (rowlease_internal.find_ids(v_filter || jsonb_build_object('ids', v_ids),
                                         v_op.started_time, null, p_limit, 10000)).request_ids;
    for request_id, outcome, new_request_id in
      select d.request_id, d.outcome, d.new_request_id
        from rowlease_internal.do_verb(p_verb, v_ids, v_op.arguments, v_op.operation_id,
                                       v_op.started_time, v_now) d
    loop
      v_count := v_count + (outcome in ('ok', 'cancel_requested'))::int;
      return next;
    end loop;
    update rowlease.operation o
       set num_requests = o.num_requests + v_count, last_time = v_now, after = v_found.after,
           finished_time = case when v_found.after is null then v_now end
     where o.operation_id = v_op.operation_id
    returning * into v_op;
  end if;
  return query select u.id, 'waits', null::bigint, null::bigint, null::bigint, null::bigint from unnest(v_left) as u(id);
  request_id := null; outcome := null; new_request_id := null;
  operation_id := v_op.operation_id; after := v_found.after; num_requests := v_op.num_requests;
  return next;
end $$;
