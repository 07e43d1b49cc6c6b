-- claim_order: which priorities to claim from, and how many of each.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_round integer,
--           p_limit integer, p_floor_times timestamptz[], p_floor_ids bigint[]
-- returns:  priorities integer[], quotas integer[], until timestamptz (take nothing due later),
--           last boolean (no further round)
-- errors:   none
-- locks:    none
-- why:      strict walks down from the top. weighted shares the places out by the weights of the
--           priorities where something waits; one random offset for the whole batch (systematic
--           sampling) makes every share exact on average, whatever the batch size. aging takes the
--           priority whose oldest request stands highest when each aging_seconds of waiting count
--           as one priority, as far as the next one's oldest. What they leave free is filled
--           strictly, so that no slot stays empty while requests wait.
create or replace function rowlease.claim_order(
  p_settings rowlease.queue_settings, p_now timestamptz, p_round integer, p_limit integer,
  p_floor_times timestamptz[], p_floor_ids bigint[],
  out priorities integer[], out quotas integer[], out until timestamptz, out last boolean
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_offset float8 := random();
  v_best   record;
begin
  until := 'infinity';
  last := false;
  if p_settings.policy = 'weighted' and p_round = 1 then
    select array_agg(s.priority order by s.priority desc),
           array_agg((floor(p_limit * s.upto + v_offset)
                      - floor(p_limit * (s.upto - s.share) + v_offset))::integer
                     order by s.priority desc)
      into priorities, quotas
      from (select w.priority, w.weight / sum(w.weight) over () as share,
                   sum(w.weight) over (order by w.priority) / sum(w.weight) over () as upto
              from (select h.priority,
                           coalesce((p_settings.policy_weights ->> h.priority)::float8,
                                    h.priority + 1) as weight
                      from rowlease.heads(p_settings.queue_name, p_floor_times, p_floor_ids) h) w
             where w.weight > 0) s;
  elsif p_settings.policy = 'aging' and p_round <= 2 * cardinality(p_floor_times) then
    select o.priority, o.standing, o.next into v_best
      from (select s.priority, s.standing, lead(s.standing) over w as next, row_number() over w as r
              from (select h.priority,
                           h.priority + extract(epoch from p_now - h.due_time)::float8
                                        / p_settings.policy_aging_seconds as standing
                      from rowlease.heads(p_settings.queue_name, p_floor_times, p_floor_ids) h) s
            window w as (order by s.standing desc, s.priority desc)) o
     where o.r = 1;
    if v_best.next is not null then
      priorities := array[v_best.priority];
      quotas := array[p_limit];
      until := p_now - (v_best.next - v_best.priority) * p_settings.policy_aging_seconds
                       * interval '1 second';
    end if;
  end if;
  if priorities is null then
    priorities := array(select generate_series(cardinality(p_floor_times) - 1, 0, -1));
    quotas := array_fill(p_limit, array[cardinality(priorities)]);
    last := true;
  end if;
end $$;
