-- begin_load: start a run of a load, and end any earlier run.
-- params:   p_load_id text, p_queue_name text, p_run_by text (the name of the run, 1 to 200
--           characters, unique), p_columns text (a description of its rows; null: none),
--           p_stream_name text (of which stream it is a batch; null: none), p_query_id text (the
--           streaming query; null: not known), p_batch_number bigint
-- returns:  outcome text -- 'ok' | 'repeat' (it is promoted: stage nothing), run_number bigint (of this
--           run; null if it is promoted), num_rows bigint, num_enqueued bigint, num_duplicates bigint,
--           num_clamped bigint (all 0 for a batch whose load is no longer known), max_priority
--           integer (of the queue; writers clamp to it)
-- errors:   RL001 bad argument, RL002 unknown queue, RL009 the load id was used for another queue or
--           for other columns, or as check_stream, RL014 a later run has taken the load over from
--           this one, or it was ended
-- locks:    the load's row
-- why:      the run number is a fencing token: a later run has a larger one, and rows that an earlier
--           run stages do not count. It starts at a random number up to 2^32 and grows by random
--           numbers, as lock tokens do. If it grew by 1, a number could be assigned twice after a
--           restore, or after a failover that lost commits. The same run may call twice and gets the
--           same number, because an answer may be lost. A run that was superseded or
--           ended cannot begin again, so two live drivers cannot take the load from each other for ever.
--           A promoted load that is begun with other columns is refused, because it would enqueue
--           nothing.
create or replace function rowlease.begin_load(
  p_load_id text, p_queue_name text, p_run_by text, p_columns text default null,
  p_stream_name text default null, p_query_id text default null, p_batch_number bigint default null
) returns table (outcome text, run_number bigint, num_rows bigint, num_enqueued bigint,
                 num_duplicates bigint, num_clamped bigint, max_priority integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := rowlease.now();
  v_by       text := format('%s (%s)', p_run_by, session_user);
  v_step     bigint := 1 + floor(random() * 4294967296)::bigint;
  v_load     rowlease.load;
  v_settings rowlease.queue_settings;
begin
  if (length(p_load_id) between 1 and 100 and p_load_id not like '% '
      and length(p_run_by) between 1 and 200) is not true then
    raise exception using errcode = 'RL001',
      message = 'a load id has 1 to 100 characters and no blank at its end, '
                'and the name of its run has 1 to 200';
  end if;
  v_settings := rowlease_internal.check_queue(p_queue_name);
  if rowlease_internal.check_stream(p_stream_name, p_query_id, p_batch_number) then
    select * into v_load from rowlease.load l
     where l.load_id = p_load_id and l.status = 'Promoted';
    return query select 'repeat'::text, null::bigint, coalesce(v_load.num_rows, 0),
                        coalesce(v_load.num_enqueued, 0), coalesce(v_load.num_duplicates, 0),
                        coalesce(v_load.num_clamped, 0), v_settings.max_priority::integer;
    return;
  end if;
  insert into rowlease.load as l (load_id, queue_name, status, num_rows, columns, run_number, run_by,
                                  started_time, reported_time, stream_name, query_id, batch_number)
  values (p_load_id, p_queue_name, 'Staging', 0, p_columns, v_step, v_by, v_now, v_now,
          p_stream_name, p_query_id, p_batch_number)
  on conflict (load_id) do update set load_id = l.load_id
  returning * into v_load;
  if v_load.queue_name <> p_queue_name then
    raise exception using errcode = 'RL009',
      message = format('load "%s" belongs to queue "%s", not to "%s"; use another load id',
                       p_load_id, v_load.queue_name, p_queue_name);
  end if;
  if strpos(e'\n' || v_load.past_runs, e'\n' || v_by || e'\n') > 0
     or v_load.status = 'Ended' and v_load.run_by = v_by then
    perform rowlease_internal.take_load(p_load_id, null);
  end if;
  if v_load.status = 'Promoted' then
    if v_load.columns <> p_columns then
      raise exception using errcode = 'RL009',
        message = format('load "%s" was enqueued from other columns: %s, not %s; use another load id',
                         p_load_id, v_load.columns, p_columns);
    end if;
    return query select 'repeat'::text, null::bigint, v_load.num_rows, v_load.num_enqueued,
                        v_load.num_duplicates, v_load.num_clamped,
                        v_settings.max_priority::integer;
    return;
  end if;
  if v_load.run_by <> v_by then
    update rowlease.load l
       set status = 'Staging', run_number = l.run_number + v_step, run_by = v_by,
           past_runs = left(l.run_by || e'\n' || l.past_runs, 10000), queue_name = p_queue_name,
           columns = p_columns, num_staged = 0, started_time = v_now, reported_time = v_now,
           stream_name = p_stream_name, query_id = p_query_id, batch_number = p_batch_number
     where l.load_id = p_load_id
    returning * into v_load;
  end if;
  return query select 'ok'::text, v_load.run_number, null::bigint, null::bigint, null::bigint,
                      null::bigint, v_settings.max_priority::integer;
end $$;
