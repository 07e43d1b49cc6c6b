-- delete_queue: delete a queue that nothing uses.
-- params:   p_queue_name text, p_purge boolean (true: also purge its requests, in a step of operate
--           of at most 10,000), p_dry_run boolean (true: delete nothing; only raise errors and count),
--           p_actor text (the operator's name)
-- returns:  bigint -- how many requests were purged; in a dry run, how many would be
-- errors:   RL002 unknown queue, RL015 the queue has requests, a live worker, a schedule or a
--           load, 25000 as refuse_old_snapshot; 55P03 maintain has been running for 2 s, or another transaction is using queues
-- locks:    the gate without a name, after at most 2 s; queue_settings, access exclusive, after at
--           most 100 ms of waiting; as operate; rows of batch, against changes only; no lock in a dry
--           run
-- why:      every call that enqueues reads the settings, and so blocks this routine until its
--           transaction ends. So no request can be missed here or be added later. Counts of batches
--           that are not folded yet are in the rows that are deleted here, so they are folded first.
--           Another session may be folding those of one batch: its sum is seen when it has committed.
--           The history of the queue stays until it expires.
create or replace function rowlease.delete_queue(
  p_queue_name text, p_purge boolean default false, p_dry_run boolean default false,
  p_actor text default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  v_purged bigint := 0;
  v_used   text;
begin
  perform rowlease_internal.refuse_old_snapshot();
  if not p_dry_run then
    if not rowlease_internal.take_gate('') then
      raise exception using errcode = '55P03',
        message = 'maintain or a recount has been running for 2 s; nothing was done, call again';
    end if;
    begin
      lock table rowlease.queue_settings in access exclusive mode;
    exception when lock_not_available then
      raise exception using errcode = '55P03',
        message = 'another transaction was still using queues after 100 ms; nothing was done, call again';
    end;
  end if;
  perform rowlease_internal.check_queue(p_queue_name);
  if p_purge then
    select count(*) into v_purged
      from rowlease.operate(
        'purge', jsonb_build_object(
          'queue', p_queue_name, 'status', array['Scheduled', 'Pending', 'Failed'],
          'ids', array(select r.request_id from rowlease_internal.sample_requests(p_queue_name, 10000) r
                        limit 10000)),
        p_actor => p_actor, p_dry_run => p_dry_run, p_limit => 10000) o
     where o.outcome = 'ok';
  end if;
  if exists (select from rowlease_internal.sample_requests(p_queue_name, 1) r
              where r.status = 'Processing' or not p_purge or not p_dry_run) then
    select format('it has requests (%s waiting, %s running, %s failed): purge or cancel them',
                  coalesce(sum(d.scheduled + d.pending), 0), coalesce(sum(d.processing), 0),
                  coalesce(sum(d.failed), 0))
      into v_used from rowlease.queue_depth d where d.queue_name = p_queue_name;
  else
    v_used := coalesce(
      (select format('the worker "%s" claims from it: stop the worker', min(w.worker_id))
         from rowlease.workers w
        where w.alive and w.queue_names::jsonb ? p_queue_name having count(*) > 0),
      (select format('the schedule "%s" enqueues into it: remove the schedule', min(s.schedule_name))
         from rowlease.schedule s where s.queue_name = p_queue_name having count(*) > 0),
      (select format('the load "%s" is staged for it: promote or discard the load', min(l.load_id))
         from rowlease.load l where l.queue_name = p_queue_name and l.status = 'Staging'
       having count(*) > 0));
  end if;
  if v_used is not null then
    raise exception using errcode = 'RL015',
      message = format('queue "%s" cannot be deleted, because %s first', p_queue_name, v_used);
  end if;
  if not p_dry_run then
    perform rowlease_internal.note_operation(
      'delete_queue', jsonb_build_object('queue', p_queue_name), jsonb_build_object('purge', p_purge),
      p_actor, rowlease.now(), true);
    perform rowlease_internal.fold_batches(null, 2147483647);
    delete from rowlease.queue_settings s where s.queue_name = p_queue_name;
    delete from rowlease.gate g where g.queue_name = p_queue_name;
    loop
      delete from rowlease.queue_depth d where d.queue_name = p_queue_name;
      exit when not found;
    end loop;
    delete from rowlease.queue_day d where d.queue_name = p_queue_name;
    delete from rowlease.queue_waiter w where w.queue_name = p_queue_name;
    delete from rowlease.unknown_kind u where u.queue_name = p_queue_name;
    delete from rowlease.dead_letter_task t where t.queue_name = p_queue_name;
  end if;
  return v_purged;
end $$;
