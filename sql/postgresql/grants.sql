-- grants: what each role may do.
-- params:   none
-- returns:  nothing
-- errors:   none
-- locks:    catalogue rows; tables and views that have another owner, access exclusive
-- why:      applied after every routine, so that no role can call a new routine until it is
--           granted here. Routines run with their owner's rights; only the owner may write to a
--           table. It uses dynamic SQL, because it sets the owner of every object that has another
--           one. A migration beside workers must not lock tables that it does not change.
grant usage, create on schema rowlease, rowlease_internal to rowlease_owner;
do $$
declare
  v_object record;
begin
  for v_object in
    select format('%s rowlease.%I', case c.relkind when 'v' then 'view' else 'table' end, c.relname)
             as name
      from pg_class c
     where c.relnamespace = 'rowlease'::regnamespace and c.relkind in ('r', 'p', 'v')
       and c.relowner <> 'rowlease_owner'::regrole
    union all
    select format('routine %s', p.oid::regprocedure)
      from pg_proc p
     where p.pronamespace in ('rowlease'::regnamespace, 'rowlease_internal'::regnamespace)
       and p.proowner <> 'rowlease_owner'::regrole
    union all
    select format('domain %s', t.oid::regtype)
      from pg_type t
     where t.typnamespace = 'rowlease_internal'::regnamespace and t.typtype = 'd'
       and t.typowner <> 'rowlease_owner'::regrole
  loop
    execute format('alter %s owner to rowlease_owner', v_object.name);
  end loop;
end $$;
alter schema rowlease owner to rowlease_owner;
alter schema rowlease_internal owner to rowlease_owner;

select rowlease_internal.revoke_rights();
grant usage on schema rowlease
   to rowlease_producer, rowlease_worker, rowlease_operator, rowlease_reader;

grant select, insert on rowlease.inbox, rowlease.load_inbox to rowlease_producer;
grant insert (run_number, priority, part, kind, payload, headers, ends_part, due_time, dedup_key, group_key)
   on rowlease.lane to rowlease_producer;
grant usage on sequence rowlease.queue_request_id_seq to rowlease_producer;
grant execute on function rowlease.schema_version
   to rowlease_producer, rowlease_worker, rowlease_operator, rowlease_reader;
grant execute on function rowlease.enqueue, rowlease.enqueue_many, rowlease.begin_load,
                          rowlease.report_load, rowlease.promote, rowlease.end_run,
                          rowlease.listen
   to rowlease_producer;

grant execute on function rowlease.dequeue, rowlease.complete, rowlease.complete_and_enqueue, rowlease.fail,
                          rowlease.abandon, rowlease.expire, rowlease.snooze,
                          rowlease.decline, rowlease.disown, rowlease.exchange, rowlease.renew, rowlease.maintain,
                          rowlease.finish_batches, rowlease.worker_heartbeat,
                          rowlease.set_dead_letter_tasks,
                          rowlease.remove_worker, rowlease.advance_ids, rowlease.depth, rowlease.listen,
                          rowlease.announce_idle, rowlease.put_schedule, rowlease.claim_schedules,
                          rowlease.fire_schedule, rowlease.report_progress,
                          rowlease.list_queues, rowlease.show_queue, rowlease.list_workers,
                          rowlease.list_shared_kinds
   to rowlease_worker;

grant select on all tables in schema rowlease to rowlease_reader, rowlease_operator;
grant execute on function rowlease.now, rowlease.depth, rowlease.explain, rowlease.diagnose,
                          rowlease.diagnose_server, rowlease.diagnose_sessions,
                          rowlease.get_request, rowlease.find_requests, rowlease.listen_finished,
                          rowlease.list_schedules, rowlease.list_queues, rowlease.show_queue,
                          rowlease.list_workers, rowlease.list_ready, rowlease.list_leases,
                          rowlease.list_dead_letters, rowlease.list_loads, rowlease.list_streams,
                          rowlease.measure_waits, rowlease.list_operations, rowlease.list_batches,
                          rowlease.list_days, rowlease.list_kinds, rowlease.list_shared_kinds,
                          rowlease.finish_batches, rowlease.demand, rowlease.metrics, rowlease.metrics_server
   to rowlease_reader, rowlease_operator;
grant execute on function rowlease.discard_load, rowlease.forget_stream, rowlease.enqueue_by_operator,
                          rowlease.pause, rowlease.resume,
                          rowlease.configure_queue, rowlease.delete_queue,
                          rowlease.maintain, rowlease.advance_ids, rowlease.recount, rowlease.operate,
                          rowlease.put_schedule, rowlease.fire_schedule, rowlease.pause_schedule,
                          rowlease.resume_schedule, rowlease.remove_schedule
   to rowlease_operator;
