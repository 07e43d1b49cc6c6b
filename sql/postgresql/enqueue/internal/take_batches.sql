-- take_batches: add the requests of a call to a batch, and have them wait for another batch.
-- params:   p_batch_id text, p_after text, p_now timestamptz, p_kinds text[],
--           p_delays_ms bigint[], p_due_times timestamptz[], p_headers text[]
-- returns:  timestamptz[] -- the due times of the requests
-- errors:   RL016 headers too long, RL017 a wrong id, a due time beside p_after, a batch that is
--           finished or does not exist
-- locks:    rows of batch, for key share; held to the caller's commit
-- why:      a request that waits for a batch is due at the end of the calendar, until finish_idle_batches
--           changes that. The lock keeps finish_idle_batches away until the requests are committed, but
--           not fold_batches, which counts. Headers that leave no room for the headers of the batch
--           would make a copy of the request impossible (requeue).
create or replace function rowlease_internal.take_batches(
  p_batch_id text, p_after text, p_now timestamptz, p_kinds text[], p_delays_ms bigint[],
  p_due_times timestamptz[], p_headers text[]
) returns timestamptz[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_finished timestamptz;
begin
  if p_batch_id = '' or length(p_batch_id) > 100 or p_batch_id = p_after then
    raise exception using errcode = 'RL017',
      message = 'a batch id has 1 to 100 characters, and requests cannot wait for their own batch';
  elsif p_batch_id is not null then
    insert into rowlease.batch (batch_id, created_time) values (p_batch_id, p_now)
    on conflict do nothing;
    if not found then
      perform from rowlease.batch b
        where b.batch_id = p_batch_id and b.finished_time is null for key share;
      if not found then
        raise exception using errcode = 'RL017',
          message = format('the batch "%s" is finished and takes no more requests; choose another id', p_batch_id);
      end if;
    end if;
  end if;
  if p_after is null then
    return p_due_times;
  elsif num_nonnulls(variadic p_delays_ms) > 0 or num_nonnulls(variadic p_due_times) > 0 then
    raise exception using errcode = 'RL017',
      message = 'requests that wait for a batch have no due time of their own; leave delay and due_time out';
  elsif exists (select from unnest(p_headers) as h where octet_length(h) > 7168) then
    raise exception using errcode = 'RL016',
      message = 'headers of a request that waits for a batch have at most 7168 bytes, because the batch adds its counts';
  end if;
  select b.finished_time into v_finished from rowlease.batch b where b.batch_id = p_after for key share;
  if not found then
    raise exception using errcode = 'RL017',
      message = format('there is no batch "%s" to wait for; enqueue its requests, or promote its load, first', p_after);
  end if;
  return case when v_finished is null
              then array_fill('9999-12-31 00:00+00'::timestamptz, array[cardinality(p_kinds)]) end;
end $$;
