-- check_filter: refuse a filter of requests that is wrong.
-- params:   p_filter jsonb
-- returns:  void
-- errors:   RL001 an unknown key, or a wrong value
-- locks:    none
-- why:      a misspelt key must not select every request.
create or replace function rowlease_internal.check_filter(p_filter jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_keys   text[] := array['queue', 'status', 'kind', 'error', 'error_pattern', 'dedup_key',
                           'group_key', 'load_id', 'worker', 'ids', 'min_priority', 'max_priority',
                           'min_age_ms', 'max_age_ms', 'since', 'until'];
  v_key    text;
  v_filter record;
begin
  select k into v_key from jsonb_object_keys(p_filter) k where k <> all (v_keys);
  if found then
    raise exception using errcode = 'RL001', message = format(
      'a filter has no key "%s"; the keys are %s', v_key, array_to_string(v_keys, ', '));
  end if;
  select * into v_filter from jsonb_to_record(p_filter) as f(
    status text[], ids bigint[], min_priority integer, max_priority integer, min_age_ms bigint,
    max_age_ms bigint, since timestamptz, until timestamptz);
  if not v_filter.status <@ array['Scheduled', 'Pending', 'Processing', 'Failed', 'Complete',
                                  'Cancelled'] then
    raise exception using errcode = 'RL001', message =
      'status must be an array of Scheduled, Pending, Processing, Failed, Complete or Cancelled';
  elsif cardinality(v_filter.ids) > 10000 then
    raise exception using errcode = 'RL001', message = 'a filter may have at most 10,000 ids';
  end if;
exception when data_exception then
  raise exception using errcode = 'RL001', message = format('a value of the filter is wrong: %s', sqlerrm);
end $$;
