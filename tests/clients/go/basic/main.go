// go-redis with its default settings against HOST PORT: basic traffic, no transactions, no
// pub/sub, no blocking commands.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
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

// expect returns an error that tells both values if they differ.
func expect[T any](got T, err error, want T) error {
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got %.200v, expected %.200v", fmt.Sprint(got), fmt.Sprint(want))
	}
	return nil
}

func ping() error {
	got, err := client.Ping(ctx).Result()
	return expect(got, err, "PONG")
}

func setGet() error {
	if err := client.Set(ctx, key("s"), "value", 0).Err(); err != nil {
		return err
	}
	if err := client.Get(ctx, key("absent")).Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("an absent key gave %v", err)
	}
	got, err := client.Get(ctx, key("s")).Result()
	return expect(got, err, "value")
}

func incr() error {
	client.Incr(ctx, key("n"))
	got, err := client.IncrBy(ctx, key("n"), 41).Result()
	return expect(got, err, 42)
}

func mgetMsetDel() error {
	if err := client.MSet(ctx, key("m1"), 1, key("m2"), 2).Err(); err != nil {
		return err
	}
	values, err := client.MGet(ctx, key("m1"), key("absent"), key("m2")).Result()
	if err := expect(values, err, []any{"1", nil, "2"}); err != nil {
		return err
	}
	count, err := client.Del(ctx, key("m1"), key("m2")).Result()
	return expect(count, err, 2)
}

func hashes() error {
	client.HSet(ctx, key("h"), "a", 1, "b", "zwei")
	got, err := client.HGetAll(ctx, key("h")).Result()
	return expect(got, err, map[string]string{"a": "1", "b": "zwei"})
}

func lists() error {
	client.RPush(ctx, key("l"), "a", "b", "c")
	got, err := client.LRange(ctx, key("l"), 1, -1).Result()
	return expect(got, err, []string{"b", "c"})
}

func sets() error {
	client.SAdd(ctx, key("set"), "a", "b")
	got, err := client.SMembers(ctx, key("set")).Result()
	sort.Strings(got)
	return expect(got, err, []string{"a", "b"})
}

func sortedSets() error {
	client.ZAdd(ctx, key("z"), redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 2.5, Member: "two"})
	got, err := client.ZRangeWithScores(ctx, key("z"), 0, -1).Result()
	return expect(got, err, []redis.Z{{Score: 1, Member: "one"}, {Score: 2.5, Member: "two"}})
}

func streams() error {
	values := map[string]any{"field": "value"}
	id, err := client.XAdd(ctx, &redis.XAddArgs{Stream: key("x"), Values: values}).Result()
	if err != nil {
		return err
	}
	got, err := client.XRange(ctx, key("x"), "-", "+").Result()
	return expect(got, err, []redis.XMessage{{ID: id, Values: values}})
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
	return expect(len(seen), all.Err(), 100)
}

func pipeline() error {
	answers := make([]*redis.StringCmd, 500)
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range answers {
			pipe.Set(ctx, key(fmt.Sprint("p", i)), i, 0)
			answers[i] = pipe.Get(ctx, key(fmt.Sprint("p", i)))
		}
		return nil
	})
	for i, answer := range answers {
		if err == nil {
			err = expect(answer.Val(), answer.Err(), fmt.Sprint(i))
		}
	}
	return err
}

func wrongTypeKeepsTheConnection() error {
	client.RPush(ctx, key("list"), "x")
	if err := client.Get(ctx, key("list")).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("GET of a list gave %v", err)
	}
	got, err := client.LLen(ctx, key("list")).Result()
	return expect(got, err, 1)
}

func evalScript() error {
	got, err := client.Eval(ctx, "return {KEYS[1], ARGV[1], 7}", []string{"k"}, "a").Result()
	if err := expect(got, err, any([]any{"k", "a", int64(7)})); err != nil {
		return err
	}
	// Run asks by digest first and sends the text when the server does not know it.
	got, err = redis.NewScript("return ARGV[1] .. '!'").Run(ctx, client, nil, "x").Result()
	return expect(got, err, any("x!"))
}

func unicodeAndBinary() error {
	client.Set(ctx, key("ключ 鍵"), "значение 🦀", 0)
	text, err := client.Get(ctx, key("ключ 鍵")).Result()
	if err := expect(text, err, "значение 🦀"); err != nil {
		return err
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	every = append(every, "\r\n$3\r\n*1\r\n"...)
	client.Set(ctx, string(every), every, 0)
	got, err := client.Get(ctx, string(every)).Bytes()
	return expect(got, err, every)
}

func largeValue() error {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	if err := client.Set(ctx, key("big"), big, 0).Err(); err != nil {
		return err
	}
	got, err := client.Get(ctx, key("big")).Bytes()
	return expect(got, err, big)
}

func databases() error {
	other := redis.NewClient(&redis.Options{Addr: address, DB: 3})
	defer other.Close()
	other.Set(ctx, key("db"), "three", 0)
	if err := client.Get(ctx, key("db")).Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("database 0 sees database 3: %v", err)
	}
	got, err := other.Get(ctx, key("db")).Result()
	return expect(got, err, "three")
}

func resp2() error {
	two := redis.NewClient(&redis.Options{Addr: address, Protocol: 2})
	defer two.Close()
	two.HSet(ctx, key("two"), "f", "v")
	got, err := two.HGetAll(ctx, key("two")).Result()
	return expect(got, err, map[string]string{"f": "v"})
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
				if err := expect(got, err, own); err != nil {
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
	return expect(got, err, workers*increments)
}

func main() {
	address = net.JoinHostPort(os.Args[1], os.Args[2])
	client = redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	for _, check := range []struct {
		name string
		run  func() error
	}{
		{"ping", ping}, {"set_get", setGet}, {"incr", incr}, {"mget_mset_del", mgetMsetDel},
		{"hashes", hashes}, {"lists", lists}, {"sets", sets}, {"sorted_sets", sortedSets},
		{"streams", streams}, {"scan", scan}, {"pipeline", pipeline},
		{"wrong_type_keeps_the_connection", wrongTypeKeepsTheConnection},
		{"eval_script", evalScript}, {"unicode_and_binary", unicodeAndBinary},
		{"large_value", largeValue}, {"databases", databases}, {"resp2", resp2},
		{"many_connections", manyConnections},
	} {
		if err := check.run(); err != nil {
			fmt.Printf("FAIL %s: %s\n", check.name, strings.ReplaceAll(err.Error(), "\n", `\n`))
		} else {
			fmt.Println("ok", check.name)
		}
	}
	fmt.Println("end")
}
