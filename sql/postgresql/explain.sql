-- explain: the one reason why a request is not being taken, in words.
-- params:   p_request_id bigint
-- returns:  reason text -- 'unknown' | 'finished' | 'dead_letter' | 'running' | 'expired' |
--           'paused' | 'scheduled' | 'group' | 'in_flight' | 'no_worker' | 'behind' | 'next',
--           words text
-- errors:   none
-- locks:    none
-- why:      the first that holds, in the order in which dequeue would meet them. It counts those
--           ahead only up to 10,000.
create or replace function rowlease.explain(p_request_id bigint)
returns table (reason text, words text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
declare
  v_now      timestamptz := rowlease.now();
  v_request  rowlease.requests;
  v_settings rowlease.queue_settings;
  v_other    bigint;
begin
  select * into v_request from rowlease.requests r where r.request_id = p_request_id limit 1;
  select * into v_settings from rowlease.queue_settings s where s.queue_name = v_request.queue_name;
  if v_request.request_id is null then
    return query select 'unknown', 'there is no such request; it may have been purged';
  elsif v_request.status in ('Complete', 'Cancelled') then
    return query select 'finished', format('it is %s since %s', v_request.status,
                                           v_request.completion_time);
  elsif v_request.status = 'Failed' then
    return query select 'dead_letter', format(
      'it is a dead letter after %s of %s attempts: %s; revive it with requeue',
      v_request.num_attempts, v_request.max_attempts, v_request.last_error);
  elsif v_request.status = 'Processing' and v_request.lock_expires_time > v_now then
    return query select 'running', format('%s holds it until %s, and renews that while it lives',
                                          v_request.locked_by, v_request.lock_expires_time);
  elsif v_settings.paused then
    return query select 'paused', format('the queue "%s" is paused; resume it', v_request.queue_name);
  elsif v_request.status = 'Processing' then
    return query select 'expired', format(
      'the lease of %s ran out at %s; the next dequeue or maintain takes it back',
      v_request.locked_by, v_request.lock_expires_time);
  elsif v_request.status = 'Scheduled' and v_request.due_time > v_now then
    return query select 'scheduled', format('it is due at %s, in %s', v_request.due_time,
                                            date_trunc('second', v_request.due_time - v_now));
  elsif not rowlease.group_is_free(v_request.queue_name, v_request.group_key, p_request_id)
        and v_request.group_key is not null then
    select min(q.request_id) into v_other from rowlease.queue q
     where q.queue_name = v_request.queue_name and q.group_key = v_request.group_key
       and q.status <> 'Failed' and (q.request_id < p_request_id or q.status = 'Processing');
    return query select 'group', format('request %s of its group "%s" comes first', v_other,
                                        v_request.group_key);
  elsif rowlease.room_in_flight(v_settings, 1) = 0 then
    return query select 'in_flight', format('the queue allows %s requests in flight, and they are',
                                            v_settings.max_in_flight);
  elsif not exists (select from rowlease.worker w
                     where w.queue_names::jsonb ? v_request.queue_name
                       and w.heartbeat_time > v_now - interval '30 seconds') then
    return query select 'no_worker', format('no worker has asked for the queue "%s" within 30 s',
                                            v_request.queue_name);
  else
    -- One range of an index each, so that it stops where this request stands.
    select count(*) into v_other from (
      select from rowlease.queue q
       where q.queue_name = v_request.queue_name and q.status = 'Pending' and not q.group_blocked
         and not q.returned and q.priority > v_request.priority
      union all
      select from rowlease.queue q
       where q.queue_name = v_request.queue_name and q.status = 'Pending' and not q.group_blocked
         and not q.returned and q.priority = v_request.priority
         and (q.due_time, q.request_id) < (v_request.due_time, p_request_id)
      union all
      select from rowlease.queue q
       where q.queue_name = v_request.queue_name and q.status = 'Pending' and not q.group_blocked
         and q.returned and (q.priority > v_request.priority
           or q.priority = v_request.priority
              and (q.due_time, q.request_id) < (v_request.due_time, p_request_id))
       limit 10000) ahead;
    return query select case when v_other = 0 then 'next' else 'behind' end,
      case when v_other = 0 then 'nothing stands in its way: the next dequeue takes it'
           else format('%s%s requests stand before it (policy %s)', v_other,
                       case when v_other = 10000 then ' or more' else '' end, v_settings.policy) end;
  end if;
end $$;
