-- The users of docker-compose.yml: workers and the exporter. psql reads the passwords from the environment.
\getenv worker_password WORKER_PASSWORD
\getenv reader_password READER_PASSWORD
select format('create role %I login', name) from (values ('worker'), ('reader')) needed(name)
 where not exists (select from pg_roles where rolname = name)
\gexec
alter role worker login password :'worker_password';
alter role reader login password :'reader_password';
grant rowlease_worker to worker;
grant rowlease_reader, pg_read_all_stats to reader;
