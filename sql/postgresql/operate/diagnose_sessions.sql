-- diagnose_sessions: find sessions that block others, or keep dead rows from being removed.
-- params:   p_long_ms bigint (null: a minute for a transaction, 5 s for a wait) -- the shortest time
--           to report
-- returns:  as diagnose; finding text -- 'horizon' | 'blocker' | 'hidden' (the caller may not see the
--           sessions of others); on PostgreSQL 'slot'
-- errors:   none
-- locks:    none
-- why:      it runs with the rights of its caller, because a superuser or a member of
--           pg_read_all_stats sees the transactions of all sessions, and rowlease_owner may not. It
--           reads no table of rowlease.
create or replace function rowlease.diagnose_sessions(p_long_ms bigint default null)
returns table (finding text, subject text, message text, action text)
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select 'horizon', 'session ' || a.pid,
         format('session %s (user "%s", application "%s", %s) has been in a transaction since %s, so no '
                'row that was deleted or changed since then can be removed', a.pid, a.usename,
                a.application_name, a.state, date_trunc('second', a.xact_start)),
         format('end it: select pg_terminate_backend(%s)', a.pid)
    from pg_stat_activity a
   where a.backend_xmin is not null and a.pid <> pg_backend_pid()
     and (a.datname = current_database() or a.backend_type = 'walsender')
     and a.backend_type <> 'autovacuum worker'
     and a.xact_start < clock_timestamp() - coalesce(p_long_ms, 60000) * interval '1 ms'
  union all
  select 'horizon', p.gid,
         format('the prepared transaction "%s" of user "%s" is open since %s, so no row that was deleted '
                'or changed since then can be removed', p.gid, p.owner, date_trunc('second', p.prepared)),
         format('end it: rollback prepared %L', p.gid)
    from pg_prepared_xacts p
   where p.database = current_database()
     and p.prepared < clock_timestamp() - coalesce(p_long_ms, 60000) * interval '1 ms'
  union all
  select 'slot', s.slot_name,
         format('the replication slot "%s" keeps dead rows for a standby, and none is connected',
                s.slot_name),
         format('connect its standby, or drop it: select pg_drop_replication_slot(%L)', s.slot_name)
    from pg_replication_slots s where s.xmin is not null and not s.active
  union all
  select 'slot', s.slot_name,
         case when s.wal_status = 'lost'
              then format('the replication slot "%s" has lost WAL that its reader needs', s.slot_name)
              else format('the replication slot "%s" has no reader and keeps %s of WAL, until the disk is full',
                          s.slot_name, pg_size_pretty(pg_wal_lsn_diff(
                            case when pg_is_in_recovery() then pg_last_wal_receive_lsn()
                                 else pg_current_wal_lsn() end, s.restart_lsn))) end,
         format('connect its reader again, or drop it: select pg_drop_replication_slot(%L)', s.slot_name)
    from pg_replication_slots s
   where s.xmin is null and not s.active and (s.restart_lsn is not null or s.wal_status = 'lost')
  union all
  select 'blocker', 'session ' || b.pid,
         format('session %s (user "%s", application "%s") has blocked others (%s), the first since %s',
                b.pid, a.usename, a.application_name, count(distinct b.waiter),
                date_trunc('second', min(b.since))),
         format('end its transaction: select pg_terminate_backend(%s)', b.pid)
    from (select l.pid as waiter, l.waitstart as since, unnest(pg_blocking_pids(l.pid)) as pid
            from pg_locks l
           where not l.granted
             and l.waitstart < clock_timestamp() - coalesce(p_long_ms, 5000) * interval '1 ms'
             and exists (
               select from pg_locks o
                where o.pid = l.pid and o.locktype = 'relation'
                  and o.database = (select d.oid from pg_database d where d.datname = current_database())
                  and o.relation in (select c.oid from pg_class c
                                      where c.relnamespace = to_regnamespace('rowlease')))) b
    left join pg_stat_activity a on a.pid = b.pid
   group by b.pid, a.usename, a.application_name
  union all
  select 'hidden', 'sessions',
         format('user "%s" may not see the transactions of other sessions (%s), so none of them is named '
                'here', current_user, count(*)),
         format('as a superuser: grant pg_read_all_stats to %I', current_user)
    from pg_stat_activity a
   where a.datname = current_database() and a.query = '<insufficient privilege>'
  having count(*) > 0;
$$;
