-- metrics_server: measure the server, for the exporter.
-- params:   none
-- returns:  metric text -- 'connections' | 'max_connections' | 'horizon_seconds'; on PostgreSQL also
--           'dead_rows', subject text (the table, or empty), value double precision
-- errors:   none
-- locks:    none
-- why:      it runs with the rights of its caller, as diagnose_sessions: the age of the horizon counts
--           transactions of other users only for a member of pg_read_all_stats. Every user may see how
--           many connections each database has. It reads the server's statistics and no table of rowlease.
create or replace function rowlease.metrics_server()
returns table (metric text, subject text, value double precision)
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select 'dead_rows', t.relname::text, t.n_dead_tup::double precision
    from pg_stat_user_tables t
    join pg_class c on c.oid = t.relid
   where t.schemaname = 'rowlease' and not c.relispartition
  union all
  select 'connections', '', sum(d.numbackends)::double precision from pg_stat_database d
  union all
  select 'max_connections', '', current_setting('max_connections')::double precision
  union all
  select 'horizon_seconds', '',
         greatest(0, extract(epoch from clock_timestamp() - min(h.since)))::double precision
    from (select clock_timestamp() as since
          union all
          select a.xact_start from pg_stat_activity a
           where a.backend_xmin is not null and a.pid <> pg_backend_pid()
             and (a.datname = current_database() or a.backend_type = 'walsender')
             and a.backend_type <> 'autovacuum worker'
          union all
          select p.prepared from pg_prepared_xacts p where p.database = current_database()) h;
$$;
