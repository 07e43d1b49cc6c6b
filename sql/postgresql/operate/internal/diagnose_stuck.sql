-- diagnose_stuck: find leases, gates, groups, schedules and loads that do not move; a part of diagnose.
-- params:   p_now timestamptz
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      claims and maintain break leases and unblock groups within seconds, so after 10 s none of
--           them works. It reads at most 10,000 requests that have a group. Every claim locks a gate
--           for a moment, so row_lock checks twice.
create or replace function rowlease_internal.diagnose_stuck(p_now timestamptz)
returns table (finding text, subject text, message text, action text)
language sql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  select 'overdue', q.queue_name,
         format('leases of the queue "%s" ran out more than 10 s ago and were not broken (%s, the first '
                'of request %s)', q.queue_name, count(*), min(q.request_id)),
         format('start a worker; if one runs, ask for the reason: select * from rowlease.%s(%s)',
                'explain', min(q.request_id))
    from rowlease.queue q
   where q.status = 'Processing' and q.lock_expires_time < p_now - interval '10 seconds'
   group by q.queue_name
  union all
  select 'gate', s.queue_name, l.message,
         format('end that session''s transaction: select pg_terminate_backend(%s)',
                substring(l.message from '^session (\d+)'))
    from rowlease.queue_settings s
   cross join lateral rowlease_internal.row_lock(null, s.queue_name) as l(message)
   where s.max_in_flight is not null and l.message is not null
  union all
  select 'group', f.queue_name,
         format('groups of the queue "%s" wait for a request that no longer exists (%s, the first for '
                'request %s)', f.queue_name, count(*), min(f.request_id)),
         format('unblock them: select * from rowlease.%s(%L)', 'recount', f.queue_name)
    from (select distinct on (g.queue_name, g.group_key) g.queue_name, g.request_id, g.group_blocked
            from (select q.queue_name, q.group_key, q.request_id, q.group_blocked
                    from rowlease.queue q
                   where q.group_key is not null and q.status <> 'Failed'
                   order by q.queue_name, q.group_key, q.request_id limit 10000) g
           order by g.queue_name, g.group_key, g.request_id) f
   where f.group_blocked
   group by f.queue_name
  union all
  select 'schedule', s.schedule_name,
         format('the schedule "%s" did not fire at %s, when it was due', s.schedule_name, s.next_time),
         'start a worker that knows its task; if one runs, its log says why: schedule not fired'
    from rowlease.schedule s
   where not s.paused and s.next_time < p_now - interval '1 minute'
  union all
  select 'load', l.load_id,
         format('the load "%s" has reported nothing since %s, and none of its rows is a request; it is run '
                'by %s', l.load_id, date_trunc('second', l.reported_time), l.run_by),
         format('run its job again, or discard it: select rowlease.%s(%L)', 'discard_load', l.load_id)
    from rowlease.load l
   where l.status = 'Staging' and l.reported_time < p_now - interval '15 minutes';
$$;
