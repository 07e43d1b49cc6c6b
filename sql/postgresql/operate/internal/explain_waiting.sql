-- explain_waiting: explain why a request that may be claimed has not been claimed; a part of explain.
-- params:   p_request_id bigint, p_now timestamptz
-- returns:  reason text, message text -- as explain
-- errors:   none
-- locks:    none
-- why:      the requests ahead of this request are counted in ranges of an index, each of which
--           ends at this request.
create or replace function rowlease_internal.explain_waiting(
  p_request_id bigint, p_now timestamptz, out reason text, out message text
) language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
declare
  c_most    constant integer := 10000;
  v_request  rowlease.requests;
  v_settings rowlease.queue_settings;
  v_other    bigint;
  v_workers  record;
  v_rate     record;
begin
  select * into v_request from rowlease.requests r where r.request_id = p_request_id limit 1;
  select * into v_settings from rowlease.queue_settings s
   where s.queue_name = v_request.queue_name;
  v_workers := rowlease_internal.explain_workers(v_request.queue_name, v_request.kind, p_now);
  v_rate := rowlease_internal.room_in_rate(v_request.queue_name, '', v_settings.rate, p_now);
  if v_request.group_key is not null and not rowlease_internal.group_is_free(
       v_request.queue_name, v_request.group_key, v_request.request_id) then
    reason := 'group';
    message := (select format('request %s of its group "%s" comes first', q.request_id, q.group_key)
                       || case q.status when 'Processing' then ', and is running'
                                        when 'Scheduled' then format(', and is due at %s', q.due_time)
                                        else '' end
                from rowlease.queue q
               where q.queue_name = v_request.queue_name and q.group_key = v_request.group_key
                 and q.status <> 'Failed'
                 and (q.request_id < v_request.request_id or q.status = 'Processing')
               order by q.request_id limit 1);
  elsif v_request.group_blocked then
    reason := 'group';
    message := format('it waits for a request of its group "%s" that no longer exists; recount unblocks it',
                    v_request.group_key);
  elsif rowlease_internal.room_in_flight(v_settings, 1) = 0 then
    v_other := (select count(*) from (
      select from rowlease.queue q
       where q.queue_name = v_request.queue_name and q.status = 'Processing'
       limit v_settings.max_in_flight) r);
    reason := 'in_flight';
    message := format('max_in_flight of the queue is %s, and ', v_settings.max_in_flight)
             || case when v_other < v_settings.max_in_flight
                     then format('fewer are running (%s), but more are counted; recount corrects that', v_other)
                     else 'as many are running' end;
  elsif v_rate.room = 0 then
    reason := 'rate';
    message := format('the queue allows %s starts; the next start is possible at %s', v_settings.rate,
                      v_rate.next_start);
  elsif v_workers.reason is not null then
    reason := v_workers.reason; message := v_workers.message;
  else
    select count(*) into v_other from (
      select from rowlease.queue q
       where q.queue_name = v_request.queue_name and q.status = 'Pending' and not q.group_blocked
         and not q.returned and q.priority > v_request.priority
      union all
      select from rowlease.queue q
       where q.queue_name = v_request.queue_name and q.status = 'Pending' and not q.group_blocked
         and not q.returned and q.priority = v_request.priority
         and (q.due_time, q.request_id) < (v_request.due_time, v_request.request_id)
      union all
      select from generate_series(1, rowlease_internal.num_ahead_in_lane(
        p_request_id, v_request.load_id, v_request.queue_name, v_request.priority,
        v_request.due_time, c_most))
      union all
      select from rowlease.queue q
       where q.queue_name = v_request.queue_name and q.status = 'Pending' and not q.group_blocked
         and q.returned and (q.priority > v_request.priority
           or q.priority = v_request.priority
              and (q.due_time, q.request_id) < (v_request.due_time, v_request.request_id))
       limit c_most) ahead;
    reason := case when v_other = 0 then 'next' else 'behind' end;
    message := case when v_other = 0 then 'nothing is ahead of it: the next claim takes it'
                  else format('%s ahead of it (policy %s)', v_other || case v_other
                              when 1 then ' request is' when c_most then ' or more requests are'
                              else ' requests are' end, v_settings.policy) end
             || coalesce('; ' || v_workers.message, '');
  end if;
end $$;
