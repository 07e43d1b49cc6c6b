-- explain: explain in one sentence why a request is not claimed.
-- params:   p_request_id bigint
-- returns:  reason text -- 'unknown' | 'finished' | 'dead_letter' | 'cancelling' | 'running' | 'no_queue' | 'paused' |
--           'batch' | 'snoozed' | 'scheduled' | 'locked' | 'expired' | 'group' | 'in_flight' |
--           'no_worker' | 'rate' | 'unknown_kind' | 'consumer_priority' | 'behind' | 'next', message text
-- errors:   none
-- locks:    none; if another session is taking a lock on a table, it waits for at most 2 s
-- why:      it returns the first reason that applies, in the order in which a claim would check
--           them. It counts at most 10,000 requests that are ahead of this one. For a lock, it
--           names the session and the time since which that session has held it, if rowlease_owner
--           may see them. The lock of a claim is no longer there when it checks again.
create or replace function rowlease.explain(p_request_id bigint)
returns table (reason text, message text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set lock_timeout = '2s'
as $$
declare
  v_now      timestamptz := rowlease.now();
  v_request  rowlease.requests;
  v_settings record;  -- the type of the table would wait for a lock on the table
  v_table    record := rowlease_internal.table_lock();
  v_lock     text := v_table.message;
  v_asked    record;
begin
  if not coalesce(v_table.is_exclusive, false) then
    select * into v_request from rowlease.requests r where r.request_id = p_request_id limit 1;
    select * into v_settings from rowlease.queue_settings s
     where s.queue_name = v_request.queue_name;
    select c.asked_by, c.asked_time into v_asked from rowlease.cancellation c
     where c.request_id = p_request_id;
    v_lock := coalesce(v_lock, rowlease_internal.row_lock(
      p_request_id, case when v_settings.max_in_flight is not null then v_request.queue_name end));
  end if;
  if v_table.is_exclusive then
    reason := 'locked'; message := v_lock;
  elsif v_request.request_id is null then
    reason := 'unknown'; message := 'there is no such request; it may have been purged';
  elsif v_request.status in ('Complete', 'Cancelled') then
    reason := 'finished';
    message := format('it has been %s since %s%s', v_request.status, v_request.completion_time,
                      case when v_request.status = 'Cancelled' then ', by ' || v_asked.asked_by end);
  elsif v_request.status = 'Failed' then
    reason := 'dead_letter';
    message := format('it is a dead letter after attempt %s of %s: %s; revive it with requeue',
                    v_request.num_attempts, v_request.max_attempts,
                    split_part(v_request.last_error, e'\n', 1));
  elsif v_request.cancel_requested and v_request.lock_expires_time > v_now then
    reason := 'cancelling';
    message := format('%s has cancelled it at %s; %s, which runs it, is asked to stop it',
                    v_asked.asked_by, v_asked.asked_time, v_request.locked_by);
  elsif v_request.status = 'Processing' and v_request.lock_expires_time > v_now then
    reason := 'running';
    message := format('%s has leased it until %s, and renews the lease as long as it is alive',
                    v_request.locked_by, v_request.lock_expires_time);
  elsif v_settings.queue_name is null then
    reason := 'no_queue';
    message := format('the queue "%s" no longer has settings; create it again with configure_queue',
                    v_request.queue_name);
  elsif v_settings.paused then
    reason := 'paused'; message := format('the queue "%s" is paused; resume it', v_request.queue_name);
  elsif v_request.status = 'Scheduled' and v_request.due_time > v_now then
    select w.reason, w.message into reason, message
      from rowlease_internal.explain_scheduled(p_request_id, v_now) w;
  elsif v_lock is not null then
    reason := 'locked'; message := v_lock;
  elsif v_request.status = 'Processing' then
    reason := 'expired';
    message := format('the lease of %s ran out at %s; the next claim or maintain breaks it',
                    v_request.locked_by, v_request.lock_expires_time);
  else
    select w.reason, w.message into reason, message
      from rowlease_internal.explain_waiting(p_request_id, v_now) w;
  end if;
  return next;
end $$;
