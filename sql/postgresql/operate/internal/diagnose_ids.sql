-- diagnose_ids: find sequences that would hand out ids again; a part of diagnose.
-- params:   none
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      logical replication does not copy sequences, and a restore may leave them behind.
create or replace function rowlease_internal.diagnose_ids()
returns table (finding text, subject text, message text, action text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select 'ids', b.sequence_name,
         format('the sequence %s hands out the id %s next, although the largest id is %s: ids would name '
                'other requests than those that clients know', b.sequence_name, b.next_id, b.largest_id),
         format('before producers go on: select * from rowlease.%s()', 'advance_ids')
    from rowlease_internal.ids_behind() b;
$$;
