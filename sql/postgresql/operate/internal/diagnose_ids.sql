-- diagnose_ids: find sequences that would hand out ids again, or have few left; a part of diagnose.
-- params:   none
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      logical replication does not copy sequences, and a restore may leave them behind. No
--           sequence comes to 2^62 by handing out ids: somebody has set it.
create or replace function rowlease_internal.diagnose_ids()
returns table (finding text, subject text, message text, action text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select 'ids', b.sequence_name,
         format('the sequence %s hands out the id %s next, although the largest id is %s: ids would name '
                'other requests than those that clients know', b.sequence_name, b.next_id, b.largest_id),
         format('before producers go on: select * from rowlease.%s()', 'advance_ids')
    from rowlease_internal.ids_behind() b
  union all
  select 'ids', 'rowlease.queue_request_id_seq',
         format('the sequence rowlease.queue_request_id_seq hands out the id %s next; after '
                '9223372036854775807 it hands out none, and enqueues fail', s.next_id),
         format('somebody has set it; as its owner: select setval(%L, %s)',
                'rowlease.queue_request_id_seq', greatest(1, (
                  select max(q.request_id) from rowlease.queue q
                   where q.request_id < 4611686018427387904), (
                  select max(h.request_id) from rowlease.queue_history h
                   where h.request_id < 4611686018427387904), (
                  select max(p.last_id) from rowlease.lane_part p
                   where p.last_id < 4611686018427387904)))
    from (select least(r.last_value, 9223372036854775806) + r.is_called::integer as next_id
            from rowlease.queue_request_id_seq r) s
   where s.next_id >= 4611686018427387904;
$$;
