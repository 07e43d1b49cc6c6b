-- listen_finished: listen for finished requests on this connection.
-- params:   none
-- returns:  void
-- errors:   none
-- locks:    a session advisory lock, shared, after at most 1 s of waiting; it ends with the
--           connection
-- why:      the lock tells calls that finish requests that somebody waits (somebody_waits). No row
--           is written. The caller must check its requests again after this call, because a call
--           that checked the lock before may commit later. Any session can hold the lock
--           exclusively; while it does, every call that finishes requests notifies, so waiting
--           sessions need no lock of their own.
create or replace function rowlease.listen_finished() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
begin
  listen rowlease_finished;
  begin
    perform pg_advisory_lock_shared(1919907437, 0);
  exception when lock_not_available then
    null;
  end;
end $$;
