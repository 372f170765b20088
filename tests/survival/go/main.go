// go-redis with the retries that it has by default: a list of tasks, and a worker that waits with
// BLPOP. What the programs share is explained in ../python/shared.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const (
	queue = "{survival}:queue"
	wait  = 2 * time.Second
	pause = 100 * time.Millisecond
)

func main() {
	logging.Disable()
	ctx, client := context.Background(), client()
	if os.Args[1] == "worker" {
		work(ctx, client)
	} else {
		produce(ctx, client)
	}
}

func client() redis.UniversalClient {
	kind, place, _ := strings.Cut(os.Getenv("SURVIVAL_URL"), "://")
	list, group, _ := strings.Cut(place, "/")
	nodes := strings.Split(list, ",")
	switch kind {
	case "redis-sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: group, SentinelAddrs: nodes})
	case "redis-cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes})
	}
	return redis.NewClient(&redis.Options{Addr: nodes[0]})
}

func work(ctx context.Context, client redis.UniversalClient) {
	for {
		taken, err := client.BLPop(ctx, wait, queue).Result()
		var said redis.Error
		switch {
		case err == nil:
			done(taken[1])
		case errors.Is(err, redis.Nil):
		case errors.As(err, &said):
			// The server's word; after any other error an application goes on.
			report(err)
			os.Exit(1)
		default:
			report(err)
			time.Sleep(pause)
		}
	}
}

func produce(ctx context.Context, client redis.UniversalClient) {
	tasks, pace := number(os.Args[2]), time.Duration(number(os.Args[3]))*time.Millisecond
	fmt.Println("version", redis.Version())
	for task := range tasks {
		for {
			err := client.RPush(ctx, queue, task).Err()
			if err == nil {
				break
			}
			report(err)
			time.Sleep(pace)
		}
		fmt.Println("queued", task)
		time.Sleep(pace)
	}
	fmt.Println("end")
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return value
}

func report(err error) {
	fmt.Printf("error %T: %v\n", err, err)
}

func done(task string) {
	file, err := os.OpenFile(os.Getenv("SURVIVAL_DONE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.WriteString(task + "\n"); err != nil {
		panic(err)
	}
}
