-- listen: hear the bell on this connection.
-- params:   none
-- returns:  void
-- errors:   none
-- locks:    none
-- why:      one channel for all queues, whose messages name the queue; see wake_workers.
create or replace function rowlease.listen() returns void
language plpgsql
as $$ begin listen rowlease; end $$;
