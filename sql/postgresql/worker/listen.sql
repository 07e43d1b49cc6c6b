-- listen: listen for notifications on this connection.
-- params:   p_room boolean -- notifications for producers (a full queue has room) instead of workers
-- returns:  void
-- errors:   none
-- locks:    none
-- why:      one channel for all queues, whose messages name the queue; see wake_workers and
--           dequeue_one.
create or replace function rowlease.listen(p_room boolean default false) returns void
language plpgsql
as $$
begin
  if p_room then
    listen rowlease_room;
  else
    listen rowlease;
  end if;
end $$;
