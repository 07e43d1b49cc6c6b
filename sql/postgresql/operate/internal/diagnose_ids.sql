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
  select 'ids', s.sequence_name,
         format('the sequence %s hands out the id %s next; after 9223372036854775807 it hands out none, '
                'and %s', s.sequence_name, s.next_id, s.fails),
         format('somebody has set it; as its owner: select setval(%L, %s)', s.sequence_name,
                greatest(1, s.largest_id))
    from (select 'rowlease.queue_request_id_seq' as sequence_name, 'enqueues fail' as fails,
                 least(r.last_value, 9223372036854775806) + r.is_called::integer as next_id,
                 greatest((
                   select max(q.request_id) from rowlease.queue q
                    where q.request_id < 4611686018427387904), (
                   select max(h.request_id) from rowlease.queue_history h
                    where h.request_id < 4611686018427387904), (
                   select max(p.last_id) from rowlease.lane_part p
                    where p.last_id < 4611686018427387904)) as largest_id
            from rowlease.queue_request_id_seq r
          union all
          select 'rowlease.operation_operation_id_seq', 'operators can change nothing',
                 least(r.last_value, 9223372036854775806) + r.is_called::integer, (
                   select max(o.operation_id) from rowlease.operation o
                    where o.operation_id < 4611686018427387904)
            from rowlease.operation_operation_id_seq r
          union all
          select 'rowlease.queue_waiter_waiter_id_seq', 'producers of a full queue fail',
                 least(r.last_value, 9223372036854775806) + r.is_called::integer, (
                   select max(w.waiter_id) from rowlease.queue_waiter w
                    where w.waiter_id < 4611686018427387904)
            from rowlease.queue_waiter_waiter_id_seq r) s
   where s.next_id >= 4611686018427387904;
$$;
