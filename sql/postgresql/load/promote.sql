-- promote: make the rows of a load requests, all of them or none.
-- params:   p_load_id text, p_run_number bigint, p_expected_rows bigint, p_parts bigint[] (the parts that
--           count; null: all), p_num_clamped bigint (how many rows had their priority lowered by the
--           writer)
-- returns:  outcome text -- 'ok' | 'repeat', num_rows bigint, num_enqueued bigint, num_duplicates
--           bigint (rows whose dedup key a live request or an earlier row of the load has),
--           num_clamped bigint (rows whose priority was lowered to the queue's maximum, by the
--           writer or here)
-- errors:   RL002 unknown queue, RL005 queue is full, RL008 the rows of the parts are not as many as
--           expected, RL001, RL009 as take_stream, RL014 another run has taken the load over, RL016,
--           RL017 as take_batches, 25000 as refuse_old_snapshot
-- locks:    the load's row; as take_stream; the queue's settings row if it has a capacity; as
--           take_batches, add_distinct and add_staged
-- why:      the load's row makes a second call return the counts of the first, and keeps the rows as
--           they are: end_part waits for it. Several attempts of a Spark task may each have written a
--           part; the driver knows which one counts. If no row has a key or a
--           group and all are due, the rows stay where they are; else all move into queue, in the order
--           of their parts.
create or replace function rowlease.promote(
  p_load_id text, p_run_number bigint, p_expected_rows bigint, p_parts bigint[] default null,
  p_num_clamped bigint default 0
) returns table (outcome text, num_rows bigint, num_enqueued bigint, num_duplicates bigint,
                 num_clamped bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_xid      xid8 := pg_current_xact_id();  -- must be assigned before the clock is read: see floor_in_force
  v_now      timestamptz := rowlease.now();
  v_settings rowlease.queue_settings;
  v_load     rowlease.load := rowlease_internal.take_load(p_load_id, p_run_number);
  v_rows     bigint;
  v_enqueued bigint;
  v_clamped  bigint;
  v_to_queue boolean;
begin
  perform rowlease_internal.refuse_old_snapshot();
  if v_load.status = 'Promoted' then
    return query select 'repeat'::text, v_load.num_rows, v_load.num_enqueued, v_load.num_duplicates,
                        v_load.num_clamped;
    return;
  end if;
  delete from rowlease.lane_part p where p.run_number = p_run_number and p.part <> all (p_parts);
  select coalesce(sum(p.num_rows), 0), coalesce(bool_or(p.to_queue), false) into v_rows, v_to_queue
    from rowlease.lane_part p where p.run_number = p_run_number;
  if v_rows is distinct from p_expected_rows then
    raise exception using errcode = 'RL008',
      message = format('load "%s" has the wrong number of staged rows (%s; expected: %s); write it again',
                       p_load_id, v_rows, p_expected_rows);
  end if;
  perform rowlease_internal.take_stream(v_load, v_now);
  v_settings := rowlease_internal.check_capacity(v_load.queue_name, v_rows, 0, v_now);
  perform rowlease_internal.take_batches(p_load_id, null, v_now, null, null, null, null);
  v_clamped := p_num_clamped + (
    select coalesce(sum(p.num_rows), 0) from rowlease.lane_part p
     where p.run_number = p_run_number and p.priority > v_settings.max_priority);
  if v_to_queue then
    v_enqueued := coalesce(rowlease_internal.add_distinct(v_settings, v_now, v_load),
                           rowlease_internal.add_staged(v_settings, v_now, v_load));
    with parts as (
      delete from rowlease.lane_part p where p.run_number = p_run_number returning p.*)
    delete from rowlease.lane r using parts p
     where r.run_number = p.run_number and r.writer = p.writer
       and r.priority = p.priority and r.part = p.part;
  else
    perform rowlease_internal.count_lane(v_settings, v_load);
    v_enqueued := v_rows;
  end if;
  update rowlease.load l
     set status = 'Promoted', promoted_time = v_now, num_rows = v_rows, num_enqueued = v_enqueued,
         num_duplicates = v_rows - v_enqueued, num_clamped = v_clamped,
         in_lane = v_rows > 0 and not v_to_queue, max_attempts = v_settings.max_attempts,
         place = case when v_rows > 0 and not v_to_queue
                      then nextval('rowlease.queue_request_id_seq') end
   where l.load_id = p_load_id;
  perform rowlease_internal.wake_workers(v_load.queue_name, true);
  return query select 'ok'::text, v_rows, v_enqueued, v_rows - v_enqueued, v_clamped;
end $$;
