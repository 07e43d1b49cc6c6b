-- enqueue: put one request into a queue.
-- params:   p_queue_name text, p_kind text, p_payload text, p_priority integer, p_delay_ms bigint,
--           p_due_time timestamptz, p_dedup_key text, p_group_key text, p_max_attempts integer,
--           p_retry_base_ms integer, p_headers text, p_receipt_key text, p_in_transaction boolean
-- returns:  request_id bigint, outcome text -- 'ok' | 'duplicate' | 'repeat'
-- errors:   as enqueue_many
-- locks:    as enqueue_many
-- why:      the short form for a single request and for use by hand.
create or replace function rowlease.enqueue(
  p_queue_name text, p_kind text, p_payload text default '{}', p_priority integer default 0,
  p_delay_ms bigint default null, p_due_time timestamptz default null,
  p_dedup_key text default null, p_group_key text default null,
  p_max_attempts integer default null, p_retry_base_ms integer default null,
  p_headers text default null, p_receipt_key text default null, p_in_transaction boolean default true
) returns table (request_id bigint, outcome text)
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  select e.request_id, e.outcome
    from rowlease.enqueue_many(
      p_queue_name, array[p_kind], array[p_payload], array[p_priority], array[p_delay_ms],
      array[p_due_time], array[p_dedup_key], array[p_group_key], array[p_max_attempts],
      array[p_retry_base_ms], case when p_headers is not null then array[p_headers] end,
      p_receipt_key, p_in_transaction) e;
$$;
