-- promote: move a staged load into the queue, all of it or nothing.
-- params:   p_load_id text, p_run_number bigint, p_expected_rows bigint, p_kind text (for rows that
--           name none), p_num_clamped bigint (how many rows had their priority lowered by the
--           writer)
-- returns:  outcome text -- 'ok' | 'repeat', num_rows bigint, num_enqueued bigint, num_duplicates
--           bigint (rows whose dedup key a live request or an earlier row of the load has),
--           num_clamped bigint (rows whose priority was lowered to the queue's maximum, by the
--           writer or here)
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL005 queue is full, RL006
--           no kind, RL008 staged rows differ from the expected count, RL001, RL009 as take_stream, RL014
--           another run has taken the load over, RL016 bad headers, RL017 as take_batches; 22P02 a payload or headers
--           that are not JSON, 40001 as check_staged and check_copies
-- locks:    the load's row; as take_stream; the queue's settings row if it has a capacity; as
--           take_batches and add_staged
-- why:      each (load, row) becomes one request, even if a Spark task wrote its rows several
--           times. The load's row makes a second call return the counts of the first. Rows of other
--           runs are not counted; maintain deletes them. Two tries of a task that computed
--           different rows under the same ids cannot be distinguished, so check_copies refuses such
--           a load. The server's own message about JSON would quote a payload, so it is replaced.
create or replace function rowlease.promote(
  p_load_id text, p_run_number bigint, p_expected_rows bigint, p_kind text default null,
  p_num_clamped bigint default 0
) returns table (outcome text, num_rows bigint, num_enqueued bigint, num_duplicates bigint,
                 num_clamped bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
  v_xid      xid8 := pg_current_xact_id();  -- must be assigned before the clock is read: see floor_in_force
  v_now      timestamptz := rowlease.now();
  v_settings rowlease.queue_settings;
  v_load     rowlease.load := rowlease_internal.take_load(p_load_id, p_run_number);
  v_written  bigint;
  v_staged   bigint;
  v_in_lane  bigint := (select coalesce(sum(p.num_rows), 0) from rowlease.lane_part p
                         where p.run_number = p_run_number);
  v_grouped  bigint;
  v_enqueued bigint;
  v_clamped  bigint;
begin
  if v_load.status = 'Promoted' then
    delete from rowlease.staging s where (s.load_id, s.run_number) = (p_load_id, p_run_number);
    return query select 'repeat'::text, v_load.num_rows, v_load.num_enqueued, v_load.num_duplicates,
                        v_load.num_clamped;
    return;
  end if;
  select count(*), count(distinct s.row_id), count(s.group_key),
         p_num_clamped + count(distinct s.row_id) filter (where s.priority > (
           select q.max_priority from rowlease.queue_settings q
            where q.queue_name = v_load.queue_name))
    into v_written, v_staged, v_grouped, v_clamped
    from rowlease.staging s where (s.load_id, s.run_number) = (p_load_id, p_run_number);
  if v_staged + v_in_lane is distinct from p_expected_rows then
    raise exception using errcode = 'RL008',
      message = format('load "%s" has the wrong number of staged rows (%s; expected: %s); write it again',
                       p_load_id, v_staged + v_in_lane, p_expected_rows);
  end if;
  perform rowlease_internal.take_stream(v_load, v_now);
  if v_written > v_staged then
    perform rowlease_internal.check_copies(p_load_id, p_run_number);
  end if;
  v_settings := rowlease_internal.check_capacity(v_load.queue_name, p_expected_rows, 0, v_now);
  perform rowlease_internal.take_batches(p_load_id, null, v_now, null, null, null, null);
  perform rowlease_internal.check_request(coalesce(s.kind, p_kind), s.priority, s.payload, null)
     from rowlease.staging s
    where (s.load_id, s.run_number) = (p_load_id, p_run_number)
      and not rowlease_internal.is_acceptable(coalesce(s.kind, p_kind), s.priority, s.payload, null)
    limit 1;
  begin
    perform rowlease_internal.check_names(s.payload::json) from rowlease.staging s
      where (s.load_id, s.run_number) = (p_load_id, p_run_number) limit 1;
    perform rowlease_internal.check_headers(s.headers) from rowlease.staging s
      where (s.load_id, s.run_number) = (p_load_id, p_run_number) and s.headers is not null;
    if v_written = v_staged and v_grouped = 0 then
      v_enqueued := rowlease_internal.add_distinct(v_settings, v_now, v_load, p_kind, v_written);
    end if;
    if v_enqueued is null then
      v_enqueued := rowlease_internal.add_staged(v_settings, v_now, v_load, p_kind, v_written);
    end if;
  exception when invalid_text_representation then
    raise exception using errcode = '22P02',
      message = format('load "%s" has a payload or headers that are not JSON; nothing was enqueued', p_load_id);
  end;
  delete from rowlease.staging s where (s.load_id, s.run_number) = (p_load_id, p_run_number);
  if v_in_lane > 0 then
    v_clamped := v_clamped + rowlease_internal.count_lane(v_settings, v_load);
    v_enqueued := v_enqueued + v_in_lane;
  end if;
  update rowlease.load l
     set status = 'Promoted', promoted_time = v_now, num_rows = p_expected_rows,
         num_enqueued = v_enqueued, num_duplicates = p_expected_rows - v_enqueued,
         num_clamped = v_clamped, in_lane = v_in_lane > 0, max_attempts = v_settings.max_attempts,
         place = case when v_in_lane > 0 then nextval('rowlease.queue_request_id_seq') end
   where l.load_id = p_load_id;
  perform rowlease_internal.wake_workers(v_load.queue_name, true);
  return query select 'ok'::text, p_expected_rows, v_enqueued, p_expected_rows - v_enqueued, v_clamped;
end $$;
