-- ids_behind: find the sequences whose next id is not above all ids of their tables.
-- params:   none
-- returns:  sequence_name text, next_id bigint, largest_id bigint -- one row per sequence that is behind
-- errors:   none
-- locks:    none
-- why:      a sequence is read after the snapshot of the statement was taken, so no id that the snapshot
--           sees is above a sequence in order. Each index is read from the next id on, where nothing is
--           if the sequence is in order: neither the number of rows nor dead entries matter. An id of
--           2^62 or more was written by hand, and no sequence can follow it.
create or replace function rowlease_internal.ids_behind()
returns table (sequence_name text, next_id bigint, largest_id bigint)
language sql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  select 'rowlease.queue_request_id_seq', s.next_id, l.id
    from (select least(r.last_value, 9223372036854775806) + r.is_called::integer as next_id
            from rowlease.queue_request_id_seq r) s
   cross join lateral (
     select max(i.id) as id
       from (select max(q.request_id) as id from rowlease.queue q
              where q.request_id >= s.next_id and q.request_id < 4611686018427387904
             union all
             select max(h.request_id) from rowlease.queue_history h
              where h.request_id >= s.next_id and h.request_id < 4611686018427387904
             union all
             select max(p.last_id) from rowlease.lane_part p
              where p.last_id >= s.next_id and p.last_id < 4611686018427387904) i) l
   where l.id is not null
  union all
  select 'rowlease.operation_operation_id_seq', s.next_id, l.id
    from (select least(r.last_value, 9223372036854775806) + r.is_called::integer as next_id
            from rowlease.operation_operation_id_seq r) s
   cross join lateral (
     select max(o.operation_id) as id from rowlease.operation o
      where o.operation_id >= s.next_id and o.operation_id < 4611686018427387904) l
   where l.id is not null
  union all
  select 'rowlease.queue_waiter_waiter_id_seq', s.next_id, l.id
    from (select least(r.last_value, 9223372036854775806) + r.is_called::integer as next_id
            from rowlease.queue_waiter_waiter_id_seq r) s
   cross join lateral (
     select max(w.waiter_id) as id from rowlease.queue_waiter w
      where w.waiter_id >= s.next_id and w.waiter_id < 4611686018427387904) l
   where l.id is not null
$$;
