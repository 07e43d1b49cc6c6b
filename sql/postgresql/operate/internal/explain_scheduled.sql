-- explain_scheduled: explain why a request is not due yet; a part of explain.
-- params:   p_request_id bigint, p_now timestamptz
-- returns:  reason text -- 'batch' | 'unknown_kind' | 'consumer_priority' | 'snoozed' | 'rate' |
--           'scheduled', message text
-- errors:   none
-- locks:    none
-- why:      a declined request is due again within 30 s.
create or replace function rowlease_internal.explain_scheduled(
  p_request_id bigint, p_now timestamptz, out reason text, out message text
) language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_request rowlease.queue;
  v_due     text;
begin
  select * into v_request from rowlease.queue q where q.request_id = p_request_id;
  v_due := format('it is due at %s, in %s', v_request.due_time,
                  date_trunc('second', v_request.due_time - p_now))
           || case when v_request.returned
                   then ', or when a worker that knows its kind has a free slot' else '' end;
  select w.reason, w.message into reason, message
    from rowlease_internal.explain_workers(v_request.queue_name, v_request.kind, p_now) w
   where w.reason <> 'no_worker' and v_request.due_time <= p_now + interval '30 seconds';
  if reason is null then
    select 'batch', format('it waits for the batch "%s" (unfinished: %s of %s)', b.batch_id, b.num_live,
                           b.num_requests)
      into reason, message
      from rowlease.batch_wait w join rowlease.batches b on b.batch_id = w.batch_id
     where w.request_id = v_request.request_id and v_request.due_time = '9999-12-31 00:00+00';
  end if;
  if reason is null then
    select 'snoozed', format('its task snoozed it at %s%s; %s', a.ended_time, ': ' || nullif(a.error, ''),
                             v_due)
      into reason, message
      from rowlease.attempt a
     where a.request_id = v_request.request_id and a.lock_token = v_request.lock_token
       and a.outcome = 'snoozed';
  end if;
  if reason is null and rowlease_internal.is_delayed(
       v_request.queue_name, v_request.group_key, v_request.due_time) then
    reason := 'rate';
    message := (select format('the queue allows %s starts of a group, and the group "%s" has used them; '
                              'the next start is possible at %s', s.group_rate, v_request.group_key,
                              v_request.due_time)
                  from rowlease.queue_settings s where s.queue_name = v_request.queue_name);
  end if;
  reason := coalesce(reason, 'scheduled');
  message := coalesce(message, v_due);
end $$;
