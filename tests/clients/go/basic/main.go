// go-redis with its default settings against HOST PORT: commands on data of all kinds. The rest is
// in ../pools and ../cluster.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"respool/tests/clients/go/checks"
)

const (
	workers    = 20
	increments = 100
)

var (
	ctx     = context.Background()
	address string
	client  *redis.Client
)

func key(word string) string { return "go-redis:" + word }

func ping() error {
	got, err := client.Ping(ctx).Result()
	return checks.Expect(got, err, "PONG")
}

func setGet() error {
	if err := client.Set(ctx, key("s"), "value", 0).Err(); err != nil {
		return err
	}
	if err := client.Get(ctx, key("absent")).Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("an absent key gave %v", err)
	}
	got, err := client.Get(ctx, key("s")).Result()
	return checks.Expect(got, err, "value")
}

func incr() error {
	client.Incr(ctx, key("n"))
	got, err := client.IncrBy(ctx, key("n"), 41).Result()
	return checks.Expect(got, err, 42)
}

func mgetMsetDel() error {
	if err := client.MSet(ctx, key("m1"), 1, key("m2"), 2).Err(); err != nil {
		return err
	}
	values, err := client.MGet(ctx, key("m1"), key("absent"), key("m2")).Result()
	if err := checks.Expect(values, err, []any{"1", nil, "2"}); err != nil {
		return err
	}
	count, err := client.Del(ctx, key("m1"), key("m2")).Result()
	return checks.Expect(count, err, 2)
}

func hashes() error {
	client.HSet(ctx, key("h"), "a", 1, "b", "zwei")
	got, err := client.HGetAll(ctx, key("h")).Result()
	return checks.Expect(got, err, map[string]string{"a": "1", "b": "zwei"})
}

func lists() error {
	client.RPush(ctx, key("l"), "a", "b", "c")
	got, err := client.LRange(ctx, key("l"), 1, -1).Result()
	return checks.Expect(got, err, []string{"b", "c"})
}

func sets() error {
	client.SAdd(ctx, key("set"), "a", "b")
	got, err := client.SMembers(ctx, key("set")).Result()
	sort.Strings(got)
	return checks.Expect(got, err, []string{"a", "b"})
}

func sortedSets() error {
	client.ZAdd(ctx, key("z"), redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 2.5, Member: "two"})
	got, err := client.ZRangeWithScores(ctx, key("z"), 0, -1).Result()
	return checks.Expect(got, err, []redis.Z{{Score: 1, Member: "one"}, {Score: 2.5, Member: "two"}})
}

func streams() error {
	values := map[string]any{"field": "value"}
	id, err := client.XAdd(ctx, &redis.XAddArgs{Stream: key("x"), Values: values}).Result()
	if err != nil {
		return err
	}
	got, err := client.XRange(ctx, key("x"), "-", "+").Result()
	return checks.Expect(got, err, []redis.XMessage{{ID: id, Values: values}})
}

func scan() error {
	for i := range 100 {
		client.Set(ctx, key(fmt.Sprint("scan:", i)), "x", 0)
	}
	seen := map[string]bool{}
	all := client.Scan(ctx, 0, key("scan:*"), 10).Iterator()
	for all.Next(ctx) {
		seen[all.Val()] = true
	}
	return checks.Expect(len(seen), all.Err(), 100)
}

func wrongTypeKeepsTheConnection() error {
	client.RPush(ctx, key("list"), "x")
	if err := client.Get(ctx, key("list")).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("GET of a list gave %v", err)
	}
	got, err := client.LLen(ctx, key("list")).Result()
	return checks.Expect(got, err, 1)
}

func unicodeAndBinary() error {
	client.Set(ctx, key("ключ 鍵"), "значение 🦀", 0)
	text, err := client.Get(ctx, key("ключ 鍵")).Result()
	if err := checks.Expect(text, err, "значение 🦀"); err != nil {
		return err
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	every = append(every, "\r\n$3\r\n*1\r\n"...)
	client.Set(ctx, string(every), every, 0)
	got, err := client.Get(ctx, string(every)).Bytes()
	return checks.Expect(got, err, every)
}

func largeValue() error {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	if err := client.Set(ctx, key("big"), big, 0).Err(); err != nil {
		return err
	}
	got, err := client.Get(ctx, key("big")).Bytes()
	return checks.Expect(got, err, big)
}

func databases() error {
	other := redis.NewClient(&redis.Options{Addr: address, DB: 3})
	defer other.Close()
	other.Set(ctx, key("db"), "three", 0)
	if err := client.Get(ctx, key("db")).Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("database 0 sees database 3: %v", err)
	}
	got, err := other.Get(ctx, key("db")).Result()
	return checks.Expect(got, err, "three")
}

// manyConnections gives each worker a pool of its own, so that the connections are really many.
func manyConnections() error {
	var wait sync.WaitGroup
	wrong := make(chan error, workers)
	for worker := range workers {
		wait.Go(func() {
			mine := redis.NewClient(&redis.Options{Addr: address})
			defer mine.Close()
			for turn := range increments {
				own := fmt.Sprint(worker, ":", turn)
				mine.Incr(ctx, key("shared"))
				mine.Set(ctx, key(fmt.Sprint("own:", worker)), own, 0)
				got, err := mine.Get(ctx, key(fmt.Sprint("own:", worker))).Result()
				if err := checks.Expect(got, err, own); err != nil {
					wrong <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(wrong)
	if err := <-wrong; err != nil {
		return err
	}
	got, err := client.Get(ctx, key("shared")).Int()
	return checks.Expect(got, err, workers*increments)
}

func main() {
	checks.TellVersion()
	address = net.JoinHostPort(os.Args[1], os.Args[2])
	client = redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	checks.Run("", []checks.Check{
		{Name: "ping", Run: ping},
		{Name: "set_get", Run: setGet},
		{Name: "incr", Run: incr},
		{Name: "mget_mset_del", Run: mgetMsetDel},
		{Name: "hashes", Run: hashes},
		{Name: "lists", Run: lists},
		{Name: "sets", Run: sets},
		{Name: "sorted_sets", Run: sortedSets},
		{Name: "streams", Run: streams},
		{Name: "scan", Run: scan},
		{Name: "wrong_type_keeps_the_connection", Run: wrongTypeKeepsTheConnection},
		{Name: "unicode_and_binary", Run: unicodeAndBinary},
		{Name: "large_value", Run: largeValue},
		{Name: "databases", Run: databases},
		{Name: "many_connections", Run: manyConnections},
	})
	fmt.Println("end")
}
