-- advance_ids: advance the sequences that would hand out ids again.
-- params:   none
-- returns:  sequence_name text, was bigint, next_id bigint -- one row per sequence that was behind: the id
--           that it would have handed out, and the one that comes next now
-- errors:   55P03 a sequence is behind, and a transaction that has taken an id has been open for 2 s
-- locks:    a sequence that is behind, against nextval, after at most 2 s of waiting
-- why:      logical replication does not copy sequences, and a restore may leave them behind. The lock
--           waits for all transactions that have taken an id, so that the second look sees all ids and
--           no call can pass the new value. Ids of requests that were dropped are not known any more, so a
--           million is skipped. A read-only session, such as on a standby, advances nothing.
create or replace function rowlease.advance_ids()
returns table (sequence_name text, was bigint, next_id bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
  v_name text;
begin
  if current_setting('transaction_read_only')::boolean then
    return;
  end if;
  for v_name in select b.sequence_name from rowlease_internal.ids_behind() b loop
    -- It changes nothing, but takes the lock.
    case v_name
      when 'rowlease.queue_request_id_seq' then
        alter sequence rowlease.queue_request_id_seq no cycle;
      when 'rowlease.operation_operation_id_seq' then
        alter sequence rowlease.operation_operation_id_seq no cycle;
      else
        alter sequence rowlease.queue_waiter_waiter_id_seq no cycle;
    end case;
    select b.sequence_name, b.next_id, b.largest_id + 1000000 into sequence_name, was, next_id
      from rowlease_internal.ids_behind() b where b.sequence_name = v_name;
    if found then
      perform setval(v_name::regclass, next_id, false);
      return next;
    end if;
  end loop;
exception when lock_not_available then
  raise exception using errcode = '55P03', message = format(
    'the sequence %s would hand out ids again, and a transaction that has taken an id has been open for '
    '2 s; nothing was done, call again', v_name);
end $$;
