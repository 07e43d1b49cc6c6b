-- The user of the workers of docker-compose.yml. sqlcmd reads the password from the environment.
if suser_id(N'worker') is null
  create login worker with password = N'$(WORKER_PASSWORD)', default_database = rowlease;
else
  alter login worker with password = N'$(WORKER_PASSWORD)';
go
if user_id(N'worker') is null
  create user worker for login worker;
alter role rowlease_worker add member worker;
go
