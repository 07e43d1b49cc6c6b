-- grants: what each role may do.
-- params:   none
-- locks:    catalogue rows only
-- why:      applied after every routine. Only the owner may write to a table: the routines reach
--           tables because everything has one owner (ownership chaining), and no role can use what
--           is not granted here. It uses dynamic SQL, because it revokes the rights of all others,
--           by name. What one of our roles has been granted beside is found by `migrate --check`:
--           to revoke its rights first would stop the workers that run meanwhile.
declare @revoked nvarchar(max) = (
  select string_agg(cast(concat(
           'revoke ', p.permission_name, ' on ',
           case p.class when 3 then concat('schema::', quotename(schema_name(p.major_id)))
                        else concat('object::', quotename(object_schema_name(p.major_id)), '.',
                                    quotename(object_name(p.major_id)),
                                    ' (' + quotename(col_name(p.major_id, nullif(p.minor_id, 0))) + ')')
           end, ' from ', quotename(user_name(p.grantee_principal_id)), ' cascade;')
           as nvarchar(max)), ' ')
    from sys.database_permissions as p
   where p.state in ('G', 'W')
     and (p.class = 1 and object_schema_name(p.major_id) in ('rowlease', 'rowlease_internal')
          or p.class = 3 and schema_name(p.major_id) in ('rowlease', 'rowlease_internal'))
     and user_name(p.grantee_principal_id) not in (
           'rowlease_owner', 'rowlease_producer', 'rowlease_worker', 'rowlease_operator',
           'rowlease_reader'));
if @revoked is not null execute (@revoked);

grant select, insert on rowlease.Inbox to rowlease_producer;
grant select, insert on rowlease.LoadInbox to rowlease_producer;
grant insert on rowlease.Lane to rowlease_producer;
grant execute on rowlease.schema_version
   to rowlease_producer, rowlease_worker, rowlease_operator, rowlease_reader;

grant execute on rowlease.enqueue to rowlease_producer;
grant execute on rowlease.enqueue_many to rowlease_producer;
grant execute on rowlease.begin_load to rowlease_producer;
grant execute on rowlease.report_load to rowlease_producer;
grant execute on rowlease.promote to rowlease_producer;
grant execute on rowlease.end_run to rowlease_producer;

grant execute on rowlease.dequeue to rowlease_worker;
grant execute on rowlease.complete to rowlease_worker;
grant execute on rowlease.complete_and_enqueue to rowlease_worker;
grant execute on rowlease.fail to rowlease_worker;
grant execute on rowlease.abandon to rowlease_worker;
grant execute on rowlease.expire to rowlease_worker;
grant execute on rowlease.snooze to rowlease_worker;
grant execute on rowlease.decline to rowlease_worker;
grant execute on rowlease.disown to rowlease_worker;
grant execute on rowlease.exchange to rowlease_worker;
grant execute on rowlease.renew to rowlease_worker;
grant execute on rowlease.maintain to rowlease_worker;
grant execute on rowlease.finish_batches to rowlease_worker;
grant execute on rowlease.worker_heartbeat to rowlease_worker;
grant execute on rowlease.set_dead_letter_tasks to rowlease_worker;
grant execute on rowlease.remove_worker to rowlease_worker;
grant execute on rowlease.advance_ids to rowlease_worker;
grant execute on rowlease.depth to rowlease_worker;
grant execute on rowlease.list_queues to rowlease_worker;
grant execute on rowlease.show_queue to rowlease_worker;
grant execute on rowlease.list_workers to rowlease_worker;
grant execute on rowlease.list_shared_kinds to rowlease_worker;
grant execute on rowlease.put_schedule to rowlease_worker;
grant execute on rowlease.claim_schedules to rowlease_worker;
grant execute on rowlease.fire_schedule to rowlease_worker;
grant execute on rowlease.report_progress to rowlease_worker;

grant execute on rowlease.now to rowlease_operator;
grant execute on rowlease.depth to rowlease_operator;
grant execute on rowlease.list_queues to rowlease_operator;
grant execute on rowlease.show_queue to rowlease_operator;
grant execute on rowlease.list_workers to rowlease_operator;
grant execute on rowlease.explain to rowlease_operator;
grant execute on rowlease.diagnose to rowlease_operator;
grant execute on rowlease.diagnose_server to rowlease_operator;
grant execute on rowlease.diagnose_sessions to rowlease_operator;
grant execute on rowlease.discard_load to rowlease_operator;
grant execute on rowlease.enqueue_by_operator to rowlease_operator;
grant execute on rowlease.recount to rowlease_operator;
grant execute on rowlease.advance_ids to rowlease_operator;
grant execute on rowlease.operate to rowlease_operator;
grant execute on rowlease.pause to rowlease_operator;
grant execute on rowlease.resume to rowlease_operator;
grant execute on rowlease.configure_queue to rowlease_operator;
grant execute on rowlease.delete_queue to rowlease_operator;
grant execute on rowlease.maintain to rowlease_operator;
grant execute on rowlease.put_schedule to rowlease_operator;
grant execute on rowlease.fire_schedule to rowlease_operator;
grant execute on rowlease.pause_schedule to rowlease_operator;
grant execute on rowlease.resume_schedule to rowlease_operator;
grant execute on rowlease.remove_schedule to rowlease_operator;
grant execute on rowlease.list_schedules to rowlease_operator;
grant execute on rowlease.get_request to rowlease_operator;
grant execute on rowlease.find_requests to rowlease_operator;
grant execute on rowlease.list_ready to rowlease_operator;
grant execute on rowlease.list_leases to rowlease_operator;
grant execute on rowlease.list_dead_letters to rowlease_operator;
grant execute on rowlease.list_loads to rowlease_operator;
grant execute on rowlease.list_streams to rowlease_operator;
grant execute on rowlease.forget_stream to rowlease_operator;
grant execute on rowlease.measure_waits to rowlease_operator;
grant execute on rowlease.list_days to rowlease_operator;
grant execute on rowlease.list_kinds to rowlease_operator;
grant execute on rowlease.list_shared_kinds to rowlease_operator;
grant execute on rowlease.list_operations to rowlease_operator;
grant execute on rowlease.list_batches to rowlease_operator;
grant execute on rowlease.finish_batches to rowlease_operator;
grant execute on rowlease.demand to rowlease_operator;
grant execute on rowlease.metrics to rowlease_operator;
grant execute on rowlease.metrics_server to rowlease_operator;

grant execute on rowlease.now to rowlease_reader;
grant execute on rowlease.depth to rowlease_reader;
grant execute on rowlease.list_queues to rowlease_reader;
grant execute on rowlease.show_queue to rowlease_reader;
grant execute on rowlease.list_workers to rowlease_reader;
grant execute on rowlease.explain to rowlease_reader;
grant execute on rowlease.diagnose to rowlease_reader;
grant execute on rowlease.diagnose_server to rowlease_reader;
grant execute on rowlease.diagnose_sessions to rowlease_reader;
grant execute on rowlease.list_schedules to rowlease_reader;
grant execute on rowlease.get_request to rowlease_reader;
grant execute on rowlease.find_requests to rowlease_reader;
grant execute on rowlease.list_ready to rowlease_reader;
grant execute on rowlease.list_leases to rowlease_reader;
grant execute on rowlease.list_dead_letters to rowlease_reader;
grant execute on rowlease.list_loads to rowlease_reader;
grant execute on rowlease.list_streams to rowlease_reader;
grant execute on rowlease.measure_waits to rowlease_reader;
grant execute on rowlease.list_days to rowlease_reader;
grant execute on rowlease.list_kinds to rowlease_reader;
grant execute on rowlease.list_shared_kinds to rowlease_reader;
grant execute on rowlease.list_operations to rowlease_reader;
grant execute on rowlease.list_batches to rowlease_reader;
grant execute on rowlease.finish_batches to rowlease_reader;
grant execute on rowlease.demand to rowlease_reader;
grant execute on rowlease.metrics to rowlease_reader;
grant execute on rowlease.metrics_server to rowlease_reader;

grant select on rowlease.Queue to rowlease_reader, rowlease_operator;
grant select on rowlease.QueueHistory to rowlease_reader, rowlease_operator;
grant select on rowlease.QueueSettings to rowlease_reader, rowlease_operator;
grant select on rowlease.QueueDepth to rowlease_reader, rowlease_operator;
grant select on rowlease.QueueWaiter to rowlease_reader, rowlease_operator;
grant select on rowlease.Lane to rowlease_reader, rowlease_operator;
grant select on rowlease.LanePart to rowlease_reader, rowlease_operator;
grant select on rowlease.[Load] to rowlease_reader, rowlease_operator;
grant select on rowlease.Progress to rowlease_reader, rowlease_operator;
grant select on rowlease.Schedule to rowlease_reader, rowlease_operator;
grant select on rowlease.Worker to rowlease_reader, rowlease_operator;
grant select on rowlease.UnknownKind to rowlease_reader, rowlease_operator;
grant select on rowlease.EnqueueReceipt to rowlease_reader, rowlease_operator;
grant select on rowlease.QueueDay to rowlease_reader, rowlease_operator;
grant select on rowlease.RateStart to rowlease_reader, rowlease_operator;
grant select on rowlease.DeadLetterTask to rowlease_reader, rowlease_operator;
grant select on rowlease.Stream to rowlease_reader, rowlease_operator;
grant select on rowlease.MaintainFailure to rowlease_reader, rowlease_operator;
grant select on rowlease.SchemaInfo to rowlease_reader, rowlease_operator;
grant select on rowlease.alembic_version to rowlease_reader, rowlease_operator;
grant select on rowlease.Inbox to rowlease_reader, rowlease_operator;
grant select on rowlease.LoadInbox to rowlease_reader, rowlease_operator;
grant select on rowlease.Requests to rowlease_reader, rowlease_operator;
grant select on rowlease.Operation to rowlease_reader, rowlease_operator;
grant select on rowlease.Operations to rowlease_reader, rowlease_operator;
grant select on rowlease.Batch to rowlease_reader, rowlease_operator;
grant select on rowlease.BatchWait to rowlease_reader, rowlease_operator;
grant select on rowlease.Batches to rowlease_reader, rowlease_operator;
grant select on rowlease.Requeued to rowlease_reader, rowlease_operator;
grant select on rowlease.Cancellation to rowlease_reader, rowlease_operator;
grant select on rowlease.Attempt to rowlease_reader, rowlease_operator;
grant select on rowlease.Ready to rowlease_reader, rowlease_operator;
grant select on rowlease.Leased to rowlease_reader, rowlease_operator;
grant select on rowlease.Overdue to rowlease_reader, rowlease_operator;
grant select on rowlease.DeadLetters to rowlease_reader, rowlease_operator;
grant select on rowlease.DepthByPriority to rowlease_reader, rowlease_operator;
grant select on rowlease.Workers to rowlease_reader, rowlease_operator;
grant select on rowlease.Loads to rowlease_reader, rowlease_operator;
grant select on rowlease.Schedules to rowlease_reader, rowlease_operator;
grant select on rowlease.Throughput to rowlease_reader, rowlease_operator;
