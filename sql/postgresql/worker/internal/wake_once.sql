-- wake_once: notify idle workers of new requests, unless another transaction is about to do so.
-- params:   p_queue_name text, p_now timestamptz
-- returns:  boolean -- whether a notification was sent
-- errors:   none
-- locks:    advisory locks of the transaction, taken without waiting
-- why:      transactions that notify commit one after the other, because NOTIFY holds a
--           database-wide lock until the commit record is on disk. So at most one transaction of a
--           queue notifies at a time: it holds the first lock. The others hold the second one in
--           shared mode. A worker that is notified and meets the second lock claims again soon
--           (next_commit). The first lock is tried again after that, because its holder may
--           have ended before the second lock was taken. Its key changes every second: a
--           transaction that stays open does not suppress notifications for longer.
create or replace function rowlease_internal.wake_once(p_queue_name text, p_now timestamptz)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hash integer := hashtext(p_queue_name);
  v_key  integer := v_hash # date_part('epoch', p_now)::bigint::bit(32)::integer;
begin
  if pg_try_advisory_xact_lock(1919907434, v_key)
     or not pg_try_advisory_xact_lock_shared(1919907435, v_hash)
     or pg_try_advisory_xact_lock(1919907434, v_key) then
    perform pg_notify('rowlease', p_queue_name);
    return true;
  end if;
  return false;
end $$;
