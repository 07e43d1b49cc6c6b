-- list_operations: list the operations of operators, the latest first.
-- params:   p_limit integer
-- returns:  operation_id bigint, verb text, filter text (JSON), arguments text (JSON), actor text,
--           login text, client_address text, application text, started_time timestamptz,
--           last_time timestamptz, num_requests bigint, status text ('Open' | 'Finished')
-- errors:   none
-- locks:    none
-- why:      it returns the rows of the view operations.
create or replace function rowlease.list_operations(p_limit integer default 100)
returns table (
  operation_id bigint, verb text, filter text, arguments text, actor text, login text,
  client_address text, application text, started_time timestamptz, last_time timestamptz,
  num_requests bigint, status text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select o.operation_id, o.verb::text, o.filter::text, o.arguments::text, o.actor::text,
         o.login::text, o.client_address::text, o.application::text, o.started_time, o.last_time,
         o.num_requests, o.status::text
    from rowlease.operations o
   order by o.last_time desc, o.operation_id desc limit p_limit;
$$;
