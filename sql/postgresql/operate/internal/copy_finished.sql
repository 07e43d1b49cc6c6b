-- copy_finished: enqueue the finished ones of these requests again, as new requests.
-- params:   p_request_ids bigint[], p_operation_id bigint
-- returns:  request_id bigint, outcome text, new_request_id bigint -- no row if it is not finished;
--           'ok' | 'duplicate' | 'not_found' (its payload was not kept, or its queue was
--           deleted)
-- errors:   as enqueue_many
-- locks:    as enqueue_many, queue by queue in the order of names; rows of requeued are only added
-- why:      a new request has a place, a capacity and a dedup key like any other, so enqueue_many
--           makes it.
create or replace function rowlease_internal.copy_finished(p_request_ids bigint[], p_operation_id bigint)
returns table (request_id bigint, outcome text, new_request_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_batch record;
begin
  return query
    select h.request_id, 'not_found', null::bigint from rowlease.queue_history h
     where h.request_id = any(p_request_ids)
       and (h.payload is null or not exists (
              select from rowlease.queue_settings s where s.queue_name = h.queue_name));
  for v_batch in
    select h.queue_name, array_agg(h.request_id order by h.request_id) as ids,
           array_agg(h.kind::text order by h.request_id) as kinds,
           array_agg(h.payload::text order by h.request_id) as payloads,
           array_agg(h.priority::integer order by h.request_id) as priorities,
           array_agg(h.dedup_key::text order by h.request_id) as dedup_keys,
           array_agg(h.group_key::text order by h.request_id) as group_keys,
           array_agg(h.max_attempts order by h.request_id) as max_attempts,
           array_agg(h.headers::text order by h.request_id) as headers,
           array_agg(h.retry_base_ms order by h.request_id) as retry_bases
      from rowlease.queue_history h
      join rowlease.queue_settings s on s.queue_name = h.queue_name
     where h.request_id = any(p_request_ids) and h.payload is not null
     group by h.queue_name order by h.queue_name
  loop
    return query
      with made as materialized (
        select v_batch.ids[e.place] as old_id, e.request_id as new_id, e.outcome
          from rowlease.enqueue_many(
            v_batch.queue_name, v_batch.kinds, v_batch.payloads, v_batch.priorities, null, null,
            v_batch.dedup_keys, v_batch.group_keys, v_batch.max_attempts, v_batch.retry_bases,
            v_batch.headers)
            with ordinality as e(request_id, outcome, requested_us, place)),
      linked as (
        insert into rowlease.requeued (request_id, requeued_from, operation_id)
        select m.new_id, m.old_id, p_operation_id from made m where m.outcome = 'ok')
      select m.old_id, m.outcome, case when m.outcome = 'ok' then m.new_id end from made m;
  end loop;
end $$;
