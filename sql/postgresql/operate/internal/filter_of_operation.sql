-- filter_of_operation: check the arguments of an operation, and return its filter with statuses.
-- params:   p_verb text, p_filter jsonb, p_arguments jsonb
-- returns:  jsonb -- the filter; if it names no status, with the statuses that the verb takes
-- errors:   RL001 an unknown verb, a status that the verb does not take, a filter that selects every
--           request, or a wrong argument; as check_filter
-- locks:    none
-- why:      requests that are named by id may have any status that the verb takes.
create or replace function rowlease_internal.filter_of_operation(
  p_verb text, p_filter jsonb, p_arguments jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_filter  jsonb := jsonb_strip_nulls(coalesce(p_filter, '{}'));
  v_takes   text[];
  v_default text[];
  v_verbs   text;
begin
  perform rowlease_internal.check_filter(v_filter);
  select v.takes, v.defaults, (select string_agg(o.verb, ', ' order by o.verb) from rowlease_internal.verbs() o)
    into v_takes, v_default, v_verbs
    from (values (p_verb)) as g(verb) left join rowlease_internal.verbs() v on v.verb = g.verb;
  if v_takes is null then
    raise exception using errcode = 'RL001', message = format(
      'there is no verb "%s"; the verbs are %s', p_verb, v_verbs);
  elsif v_filter - 'status' = '{}' then
    raise exception using errcode = 'RL001', message =
      'the filter selects every request, or all of a status; add a queue, ids, or another term, such as an age';
  elsif v_filter ? 'status' and not v_filter -> 'status' <@ to_jsonb(v_takes) then
    raise exception using errcode = 'RL001', message = format(
      '%s takes requests that are %s', p_verb, array_to_string(v_takes, ', '));
  elsif p_verb = 'cancel' and jsonb_typeof(coalesce(p_arguments -> 'kill', 'true')) <> 'boolean' then
    raise exception using errcode = 'RL001', message = 'cancel takes kill: true or false';
  elsif p_verb = 'reprioritise'
        and coalesce(p_arguments ->> 'priority' !~ '^[0-9]{1,9}$', true) then
    raise exception using errcode = 'RL001', message =
      'reprioritise needs a priority: a whole number of 0 or more';
  elsif p_verb = 'reschedule'
        and (coalesce(p_arguments ->> 'delay_ms' !~ '^[0-9]{1,13}$', false)
             or coalesce(p_arguments ->> 'due_time' !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?$', false)) then
    raise exception using errcode = 'RL001', message =
      'reschedule needs delay_ms, a whole number, or due_time, such as 2026-11-22T18:00:00Z';
  end if;
  return v_filter || jsonb_build_object('status', coalesce(
    v_filter -> 'status', to_jsonb(case when v_filter ? 'ids' then v_takes else v_default end)));
end $$;
