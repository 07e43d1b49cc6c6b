-- revoke_rights: revoke every right on rowlease's schemas, tables and routines, but for the owner's.
-- params:   none
-- returns:  void
-- errors:   none
-- locks:    catalogue rows only
-- why:      grants.sql calls this before it grants. So a right that an earlier release or a person
--           granted goes with the next migration. On a table, `revoke` takes the rights on single
--           columns along. It uses dynamic SQL, because it names each object and role.
create or replace function rowlease_internal.revoke_rights() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_right record;
begin
  for v_right in
    select distinct o.name,
           case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as role
      from (select format('schema %I', n.nspname) as name, n.nspowner as owner,
                   coalesce(n.nspacl, acldefault('n', n.nspowner)) as rights
              from pg_namespace n where n.nspname in ('rowlease', 'rowlease_internal')
            union all
            select format('table rowlease.%I', c.relname), c.relowner,
                   coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char",
                                                 c.relowner))
              from pg_class c
             where c.relnamespace = 'rowlease'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
            union all
            select format('table %s', t.attrelid::regclass), c.relowner, t.attacl
              from pg_attribute t join pg_class c on c.oid = t.attrelid
             where c.relnamespace = 'rowlease'::regnamespace and t.attacl is not null
            union all
            select format('routine %s', p.oid::regprocedure), p.proowner,
                   coalesce(p.proacl, acldefault('f', p.proowner))
              from pg_proc p
             where p.pronamespace in ('rowlease'::regnamespace, 'rowlease_internal'::regnamespace)
           ) o cross join aclexplode(o.rights) a
     where a.grantee <> o.owner
  loop
    execute format('revoke all on %s from %s cascade', v_right.name, v_right.role);
  end loop;
end $$;
