-- floor_in_force: check the claimer's scan floor, and drop it once it is a second old.
-- params:   p_floor text, p_now timestamptz
-- returns:  jsonb -- 'born' and 'xid': when the floor was started, and a transaction id assigned
--           after that; 'proven': no request that is due before this time can still be committed;
--           'queues': see keep_floor
-- errors:   none
-- locks:    none
-- why:      a request that appears below a floor (a late commit) is skipped until the floor is
--           dropped, for at most a second. After that, little has to be read again: an enqueue
--           reads the clock after it has its transaction id, so once all transactions older than
--           'xid' have ended, no request that is due before 'born' can still be committed. The
--           claimer keeps the floor in memory, as opaque text.
create or replace function rowlease_internal.floor_in_force(p_floor text, p_now timestamptz) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old    jsonb := p_floor::jsonb;
  v_age    interval := p_now - (v_old ->> 'born')::timestamptz;
  v_xid    xid8;
  v_oldest xid8;
begin
  if v_age between interval '0' and interval '1 second' then
    return v_old;
  elsif v_age < interval '0' then
    v_old := null;  -- the clock was set back
  end if;
  v_xid := pg_current_xact_id();
  v_oldest := pg_snapshot_xmin(pg_current_snapshot());
  return jsonb_build_object(
    'born', p_now, 'xid', v_xid,
    'proven', case when v_oldest >= v_xid then to_jsonb(p_now)
                   when v_oldest >= (v_old ->> 'xid')::xid8 then v_old -> 'born'
                   else v_old -> 'proven' end,
    'queues', (select coalesce(jsonb_object_agg(q.key, q.value - '{times,ids,moved,expiring}'::text[]),
                               '{}') from jsonb_each(v_old -> 'queues') q));
end $$;
