-- choose_priorities: choose which priorities to claim from, and how many requests of each.
-- params:   p_settings rowlease.queue_settings, p_round integer, p_limit integer,
--           p_floor_times timestamptz[], p_floor_ids bigint[]
-- returns:  priorities integer[], quotas integer[], until timestamptz (claim nothing that is due
--           later), last boolean (there is no further round)
-- errors:   none
-- locks:    none
-- why:      strict starts at the highest priority. If the other policies do not fill the claim,
--           the rest of it is filled in strict order, so that no slot stays empty while requests
--           wait.
create or replace function rowlease_internal.choose_priorities(
  p_settings rowlease.queue_settings, p_round integer, p_limit integer,
  p_floor_times timestamptz[], p_floor_ids bigint[],
  out priorities integer[], out quotas integer[], out until timestamptz, out last boolean
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  c_rounds constant integer := 40;  -- each round finds requests, unless other claims take them first
begin
  if p_settings.policy = 'weighted' and p_round <= c_rounds then
    select o.priorities, o.quotas into priorities, quotas
      from rowlease_internal.order_by_weight(p_settings, p_limit, p_floor_times, p_floor_ids) o;
  elsif p_settings.policy = 'aging' and p_round <= c_rounds then
    select array[o.priority], array[p_limit], o.until into priorities, quotas, until
      from rowlease_internal.order_by_age(p_settings, p_floor_times, p_floor_ids) o
     where o.priority is not null;
  end if;
  until := coalesce(until, 'infinity');
  last := priorities is null;
  if last then
    priorities := array(select generate_series(cardinality(p_floor_times) - 1, 0, -1));
    quotas := array_fill(p_limit, array[cardinality(priorities)]);
  end if;
end $$;
