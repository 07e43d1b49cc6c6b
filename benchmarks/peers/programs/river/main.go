// River; the orders and lines are those of reporting.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type args struct {
	At float64 `json:"at,omitempty"` // seconds
}

func (args) Kind() string { return "noop" }

type settings struct {
	MaxWorkers      int `json:"max_workers"`
	FetchCooldownMs int `json:"fetch_cooldown_ms"`
	FetchPollMs     int `json:"fetch_poll_ms"`
	MaxConnections  int `json:"max_connections"`
}

var ran atomic.Int64

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

type noop struct{ river.WorkerDefaults[args] }

func (noop) Work(_ context.Context, job *river.Job[args]) error {
	if ran.Add(1) == 1 {
		fmt.Println("first", strconv.FormatFloat(now(), 'f', 6, 64))
	}
	if job.Args.At > 0 {
		fmt.Println("late", 1000*(now()-job.Args.At))
	}
	return nil
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func number(place int) float64 { return must(strconv.ParseFloat(os.Args[place], 64)) }

func report() {
	var said int64
	for range time.Tick(10 * time.Millisecond) {
		if count := ran.Load(); count != said {
			said = count
			fmt.Println("ran", said)
		}
	}
}

func main() {
	ctx := context.Background()
	var chosen settings
	must(0, json.Unmarshal([]byte(os.Getenv("PEER_SETTINGS")), &chosen))
	pooling := must(pgxpool.ParseConfig(os.Getenv("PEER_DSN")))
	if chosen.MaxConnections > 0 {
		pooling.MaxConns = int32(chosen.MaxConnections)
	}
	driver := riverpgxv5.New(must(pgxpool.NewWithConfig(ctx, pooling)))
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	config := &river.Config{Logger: quiet}
	if os.Args[1] == "work" {
		workers := max(chosen.MaxWorkers, 100) // 100 is what its documentation shows
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}}
		config.FetchCooldown = time.Duration(chosen.FetchCooldownMs) * time.Millisecond
		config.FetchPollInterval = time.Duration(chosen.FetchPollMs) * time.Millisecond
		config.Workers = river.NewWorkers()
		river.AddWorker(config.Workers, &noop{})
	}
	client := must(river.NewClient[pgx.Tx](driver, config))
	switch os.Args[1] {
	case "install":
		must(must(rivermigrate.New(driver, nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))
	case "enqueue":
		count, size := int(number(2)), int(number(3))
		began := time.Now()
		for start := 0; start < count; start += size {
			if size == 1 {
				must(client.Insert(ctx, args{}, nil))
				continue
			}
			batch := make([]river.InsertManyParams, min(size, count-start))
			for place := range batch {
				batch[place].Args = args{}
			}
			must(client.InsertManyFast(ctx, batch))
		}
		fmt.Println("took", time.Since(began).Seconds())
	case "send":
		rate, seconds := number(2), number(3)
		start := time.Now().Add(100 * time.Millisecond)
		for turn := 0; turn < int(rate*seconds); turn++ {
			time.Sleep(time.Until(start.Add(time.Duration(float64(turn) / rate * 1e9))))
			must(client.Insert(ctx, args{At: now()}, nil))
		}
	case "work":
		must(0, client.Start(ctx))
		fmt.Println("ready")
		report()
	}
}
