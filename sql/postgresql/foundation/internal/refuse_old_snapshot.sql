-- refuse_old_snapshot: refuse a transaction whose statements do not see what others have committed.
-- params:   none
-- returns:  void
-- errors:   25000 the transaction is at REPEATABLE READ or SERIALIZABLE
-- locks:    none
-- why:      a routine that takes a lock and then counts must see what the last holder of the lock has
--           committed. At these levels it sees what was there at the first statement of the
--           transaction, and PostgreSQL reports only changes of rows that the routine itself changes.
create or replace function rowlease_internal.refuse_old_snapshot() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    raise exception using errcode = '25000',
      message = format('this call counts what others have committed, which a transaction at %s does '
                       'not see; make it in a transaction at READ COMMITTED',
                       upper(current_setting('transaction_isolation')));
  end if;
end $$;
