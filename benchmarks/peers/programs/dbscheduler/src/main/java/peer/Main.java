package peer;

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.net.URI;
import java.sql.Connection;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicLong;

/** db-scheduler; the orders and lines are those of reporting.py, the settings are a list of words. */
public final class Main {
  private static final AtomicLong RAN = new AtomicLong();
  private static final String TABLE =
      """
      create table scheduled_tasks (
        task_name text not null, task_instance text not null, task_data bytea,
        execution_time timestamp with time zone not null, picked boolean not null, picked_by text,
        last_success timestamp with time zone, last_failure timestamp with time zone,
        consecutive_failures int, last_heartbeat timestamp with time zone, version bigint not null,
        priority smallint, primary key (task_name, task_instance));
      create index execution_time_idx on scheduled_tasks (execution_time);
      create index last_heartbeat_idx on scheduled_tasks (last_heartbeat);
      create index priority_execution_time_idx
        on scheduled_tasks (priority desc, execution_time asc);
      """;

  public static void main(String[] arguments) throws Exception {
    String settings = System.getenv().getOrDefault("PEER_SETTINGS", "{}");
    boolean tuned = settings.contains("lock_and_fetch");
    int threads = tuned ? 20 : 10;
    HikariDataSource source = pool(arguments[0].equals("work") ? threads + 5 : 2);
    OneTimeTask<Double> noop =
        Tasks.oneTime("noop", Double.class).execute((instance, context) -> ran(instance.getData()));
    switch (arguments[0]) {
      case "install" -> {
        try (Connection connection = source.getConnection()) {
          connection.createStatement().execute(TABLE);
        }
      }
      case "enqueue" -> enqueue(source, arguments);
      case "send" -> send(client(source, noop), noop, arguments);
      default -> {
        var builder = Scheduler.create(source, noop).threads(threads);
        if (tuned) {
          // docs/performance.md of db-scheduler: 20 threads, lower 4.0, upper 20.0
          builder.pollUsingLockAndFetch(4.0, 20.0).pollingInterval(Duration.ofMillis(100));
        }
        Scheduler scheduler = builder.build();
        scheduler.start();
        System.out.println("ready ");
        report();
      }
    }
    source.close();
    System.exit(0);
  }

  private static void ran(Double at) {
    if (RAN.incrementAndGet() == 1) {
      System.out.println("first " + now());
    }
    if (at != null) {
      System.out.println("late " + 1000 * (now() - at));
    }
  }

  private static void report() throws InterruptedException {
    long said = 0;
    while (true) {
      Thread.sleep(10);
      long count = RAN.get();
      if (count != said) {
        said = count;
        System.out.println("ran " + said);
      }
    }
  }

  /** By SQL: filling is not what is measured, and its own batches take a commit for each row. */
  private static void enqueue(HikariDataSource source, String[] given) throws Exception {
    try (Connection connection = source.getConnection();
        var insert =
            connection.prepareStatement(
                """
                insert into scheduled_tasks (
                  task_name, task_instance, execution_time, picked, version, consecutive_failures)
                select 'noop', 'request-' || place, now(), false, 1, 0
                  from generate_series(1, ?) place
                """)) {
      insert.setInt(1, Integer.parseInt(given[1]));
      insert.execute();
    }
  }

  private static void send(SchedulerClient client, OneTimeTask<Double> noop, String[] given)
      throws InterruptedException {
    double rate = Double.parseDouble(given[1]);
    double seconds = Double.parseDouble(given[2]);
    double start = now() + 0.1;
    for (int turn = 0; turn < rate * seconds; turn++) {
      double wait = start + turn / rate - now();
      if (wait > 0) {
        Thread.sleep((long) (1000 * wait), (int) (1e9 * wait % 1e6));
      }
      client.scheduleIfNotExists(noop.instance("sent-" + turn, now()), Instant.now());
    }
  }

  private static SchedulerClient client(HikariDataSource source, OneTimeTask<Double> noop) {
    return SchedulerClient.Builder.create(source, noop).build();
  }

  private static double now() {
    Instant instant = Instant.now();
    return instant.getEpochSecond() + instant.getNano() / 1e9;
  }

  private static HikariDataSource pool(int size) {
    URI place = URI.create(System.getenv("PEER_DSN"));
    String[] user = place.getUserInfo().split(":");
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(
        "jdbc:postgresql://" + place.getHost() + ":" + place.getPort() + place.getPath());
    config.setUsername(user[0]);
    if (user.length > 1) {
      config.setPassword(user[1]);
    }
    config.setMaximumPoolSize(size);
    return new HikariDataSource(config);
  }
}
