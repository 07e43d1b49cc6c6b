-- table_lock: explain which session has locked a whole table, or is waiting to lock it.
-- params:   none
-- returns:  message text -- null: there is none; is_exclusive boolean -- the table cannot even be
--           read
-- errors:   none
-- locks:    none
-- why:      lock requests form a queue: each waits behind earlier requests that have not been
--           granted yet. So this must be called before any of these tables is read.
create or replace function rowlease_internal.table_lock(out message text, out is_exclusive boolean)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  select format('%s %s a lock (%s) on the table rowlease.%s; nothing can be claimed until its '
                'transaction ends', rowlease_internal.describe_session(l.pid),
                case when l.granted then 'holds' else 'waits for' end, l.mode, c.relname),
         l.mode = 'AccessExclusiveLock'
    into message, is_exclusive
    from pg_locks l join pg_class c on c.oid = l.relation
   where l.locktype = 'relation' and l.pid is distinct from pg_backend_pid()
     and l.database = (select d.oid from pg_database d where d.datname = current_database())
     and c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'rowlease')
     and c.relname in ('queue', 'queue_history', 'queue_settings', 'queue_depth', 'gate', 'worker')
     and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
   order by l.mode <> 'AccessExclusiveLock', not l.granted
   limit 1;
end $$;
