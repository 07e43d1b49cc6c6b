-- note_unknown: record how long no live worker has known the kind of a declined request.
-- params:   p_queue_name text, p_kind text, p_now timestamptz
-- returns:  delay_ms bigint -- delay until the requests are due again, verdict text -- the reason
--           if they are dead letters, or null
-- errors:   none
-- locks:    the row of unknown_kind
-- why:      a live worker that lists no kinds counts as knowing every kind. If the last decline is
--           older than unknown_kind_seconds (at least a minute), the clock restarts, because no
--           worker may have tried since.
create or replace function rowlease_internal.note_unknown(
  p_queue_name text, p_kind text, p_now timestamptz, out delay_ms bigint, out verdict text
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_seconds integer := (select s.unknown_kind_seconds from rowlease.queue_settings s
                         where s.queue_name = p_queue_name);
  v_known   boolean;
  v_unknown interval;
begin
  v_known := exists (
    select from rowlease.workers w
     where w.alive
       and w.queue_names::jsonb ? p_queue_name
       and (w.kinds is null or w.kinds::jsonb ? p_kind));
  insert into rowlease.unknown_kind as u (queue_name, kind, unknown_since, declined_time)
  values (p_queue_name, p_kind, p_now, p_now)
  on conflict (queue_name, kind) do update
     set declined_time = p_now,
         unknown_since = case when v_known or u.declined_time
                                < p_now - greatest(v_seconds, 60) * interval '1 second'
                              then p_now else u.unknown_since end
  returning p_now - u.unknown_since into v_unknown;
  if v_known then
    delay_ms := 30000;
  elsif v_unknown >= v_seconds * interval '1 second' then
    verdict := format('for %s s no live worker of queue "%s" has known kind "%s"', v_seconds,
                      p_queue_name, p_kind);
  else
    delay_ms := least(greatest(extract(epoch from v_unknown) * 250, 1000), 30000);
  end if;
end $$;
