-- explain_workers: explain why no worker may claim requests of a kind; a part of explain.
-- params:   p_queue_name text, p_kind text, p_now timestamptz
-- returns:  reason text -- null: a worker may claim them; 'no_worker' | 'unknown_kind' |
--           'consumer_priority', message text -- without a reason, the worker whose consumer priority
--           goes before others, or null
-- errors:   none
-- locks:    none
-- why:      a worker that goes first by its consumer priority declines a kind that it does not know,
--           and the request waits for the same worker again.
create or replace function rowlease_internal.explain_workers(
  p_queue_name text, p_kind text, p_now timestamptz, out reason text, out message text
) language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settings rowlease.queue_settings;
  v_live     bigint;
  v_knowing  bigint;
  v_lowest   integer;
  v_first    rowlease.worker;
begin
  select * into v_settings from rowlease.queue_settings s where s.queue_name = p_queue_name;
  select count(*), count(*) filter (where w.kinds is null or w.kinds::jsonb ? p_kind),
         min(w.consumer_priority)
    into v_live, v_knowing, v_lowest
    from rowlease.workers w
   where w.queue_names::jsonb ? p_queue_name and w.alive;
  if v_settings.consumer_priorities then
    select * into v_first from rowlease.worker w
     where w.queue_names::jsonb ? p_queue_name and w.heartbeat_time > p_now - interval '2 seconds'
       and w.busy < w.slots and w.consumer_priority > v_lowest
     order by w.consumer_priority desc, w.worker_id limit 1;
  end if;
  if v_live = 0 then
    reason := 'no_worker';
    message := format('no worker of the queue "%s" has sent a heartbeat within 30 s', p_queue_name);
  elsif v_knowing = 0 then
    reason := 'unknown_kind';
    message := format('no live worker of the queue "%s" knows the kind "%s"; start one that does, or it '
                    'becomes a dead letter after %s s', p_queue_name, p_kind,
                    v_settings.unknown_kind_seconds);
  elsif v_first.worker_id is not null then
    message := format('worker "%s" has free slots and goes first (consumer priority %s)',
                    v_first.worker_id, v_first.consumer_priority);
    if not coalesce(v_first.kinds::jsonb ? p_kind, true) then
      reason := 'consumer_priority';
      message := message || format(', but does not know the kind "%s"; workers of a lower consumer priority '
                               'claim nothing until its slots are full', p_kind);
    end if;
  end if;
end $$;
