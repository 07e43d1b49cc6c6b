-- listen: listen for notifications on this connection.
-- params:   p_room boolean -- true: notifications for producers (a full queue has room); false:
--           notifications for workers
-- returns:  void
-- errors:   none
-- locks:    none
-- why:      all queues share one channel, and each message names a queue; see wake_workers and
--           wake_producers. Workers also hear which requests were cancelled; see cancel_requests.
create or replace function rowlease.listen(p_room boolean default false) returns void
language plpgsql
as $$
begin
  if p_room then
    listen rowlease_room;
  else
    listen rowlease;
    listen rowlease_cancel;
  end if;
end $$;
