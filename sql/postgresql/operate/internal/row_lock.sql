-- row_lock: explain which session has locked a request, or its queue's gate.
-- params:   p_request_id bigint, p_queue_name text
-- returns:  text -- null: neither is locked
-- errors:   none
-- locks:    none
-- why:      every claim locks rows for a moment, so this checks again after 0.1 s and returns only
--           a lock that was there both times.
create or replace function rowlease_internal.row_lock(p_request_id bigint, p_queue_name text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
as $$
declare
  v_before text;
  v_message  text;
begin
  for v_look in 1..2 loop
    v_message := coalesce(
      (select rowlease_internal.describe_holder(q.xmax) || ' has locked the request''s row; claims skip it'
         from rowlease.queue q where q.request_id = p_request_id),
      (select rowlease_internal.describe_holder(r.xmax) || ' has locked the request''s row; claims skip it'
         from rowlease.load l
         join rowlease.lane_part p on p.run_number = l.run_number
         join rowlease.lane r on r.run_number = p.run_number and r.writer = p.writer
                             and r.priority = p.priority and r.part = p.part
                             and r.request_id = p_request_id
        where l.in_lane and p_request_id between p.first_id and p.last_id
          and not exists (select from rowlease.queue q where q.request_id = p_request_id)
          and not exists (select from rowlease.queue_history h where h.request_id = p_request_id)),
      (select rowlease_internal.describe_holder(g.xmax) || format(' has locked the gate of the queue "%s", a row '
                'of rowlease.gate; nothing is claimed from the queue', p_queue_name)
         from rowlease.gate g where g.queue_name = p_queue_name));
    exit when v_message is null;
    if v_look = 1 then
      v_before := v_message;
      perform pg_sleep(0.1);
    end if;
  end loop;
  return case when v_message = v_before then v_message || ' until its transaction ends' end;
end $$;
