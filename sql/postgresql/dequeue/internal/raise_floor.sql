-- raise_floor: move a queue's scan floor past the requests that a claim has taken, and past empty ranges.
-- params:   p_moved timestamptz, p_priorities integer[], p_due_times timestamptz[],
--           p_request_ids bigint[], p_order integer[], p_quotas integer[], p_until timestamptz,
--           p_limit integer, p_times timestamptz[], p_ids bigint[]
-- returns:  p_times timestamptz[], p_ids bigint[] -- per priority, from 0, the key (due time, request
--           id) below which nothing waits
-- errors:   none
-- locks:    none
-- why:      p_priorities, p_due_times and p_request_ids are the keys of the requests that the claim
--           met, in order (null: none). p_order, p_quotas, p_until and p_limit are the arguments of
--           the claim. If a priority gave fewer requests than its quota, and neither p_until nor
--           p_limit ended its scan, the claim has read it to the end, so its floor rises to p_moved.
--           No floor rises above p_moved, because requests that are due then or later may still
--           be committed or made due. A floor is not lowered for a request that has become Pending again: such
--           requests have an index of their own. Each claim calls this, so it is arithmetic without
--           a query.
create or replace function rowlease_internal.raise_floor(
  p_moved timestamptz, p_priorities integer[], p_due_times timestamptz[], p_request_ids bigint[],
  p_order integer[], p_quotas integer[], p_until timestamptz, p_limit integer,
  inout p_times timestamptz[], inout p_ids bigint[]
) language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_num_met integer := coalesce(cardinality(p_priorities), 0);
  v_met     integer[];
  v_last    integer;
  v_at      integer;
begin
  for v_place in 1 .. cardinality(p_order) loop
    v_met := array_positions(p_priorities, p_order[v_place]);
    v_last := v_met[cardinality(v_met)];
    v_at := p_order[v_place] + 1;
    if p_until = 'infinity' and coalesce(cardinality(v_met), 0) < p_quotas[v_place]
       and (v_num_met < p_limit or p_order[v_place] > p_priorities[v_num_met]) then
      p_times[v_at] := p_moved;
      p_ids[v_at] := 0;
    elsif (p_due_times[v_last], p_request_ids[v_last]) > (p_times[v_at], p_ids[v_at]) then
      p_times[v_at] := p_due_times[v_last];
      p_ids[v_at] := p_request_ids[v_last];
    end if;
    if p_times[v_at] >= p_moved then
      p_times[v_at] := p_moved;
      p_ids[v_at] := 0;
    end if;
  end loop;
end $$;
