-- describe_holder: describe the session that has locked the row with this xmax.
-- params:   p_xmax xid
-- returns:  text -- null: no other session has locked it
-- errors:   none
-- locks:    none
-- why:      a transaction that locks a row leaves its id in the row, and holds a lock on that id
--           as long as it runs. If several transactions share a row, the row has the id of a list
--           of transactions instead, which looks the same: an id that belongs to no running
--           transaction is tried as a list.
create or replace function rowlease_internal.describe_holder(p_xmax xid) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_xids  xid[] := array[p_xmax];
  v_found boolean;
  v_pid   integer;
begin
  for v_try in 1..2 loop
    select true, l.pid into v_found, v_pid
      from pg_locks l
     where l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock'
       and l.transactionid = any(v_xids) and l.pid is distinct from pg_backend_pid()
     limit 1;
    if v_found then
      return rowlease_internal.describe_session(v_pid);
    end if;
    exit when v_try = 2 or coalesce(p_xmax, '0') = '0';
    v_xids := array(select m.xid from pg_get_multixact_members(p_xmax) m);
  end loop;
  return null;
exception when invalid_parameter_value or internal_error then
  return null;  -- there is no such list
end $$;
