-- check_names: refuse a payload that names an argument twice.
-- params:   p_payload json
-- returns:  boolean -- true, also for null
-- errors:   RL004 an argument is named twice
-- locks:    none
-- why:      a task gets one of the two values, and the other one is lost. To read the names costs as
--           much as a tenth of a load (decision 105). So it is called where requests come one by one,
--           and for one row of each part of a load: a program that writes payloads as text names an
--           argument twice in each of them.
create or replace function rowlease_internal.check_names(p_payload json) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text := (
    select k.name from json_object_keys(replace(p_payload::text, '\u0000', ' ')::json) as k(name)
     group by k.name having count(*) > 1 limit 1);
begin
  if v_name is not null then
    raise exception using errcode = 'RL004',
      message = format('payload names the argument "%s" twice; give each argument one value',
                       left(v_name, 100));
  end if;
  return true;
end $$;
