// go-redis, as an application that knows one server, against every kind of pool behind respool.
//
// Arguments: GROUP=HOST:PORT…; the groups, the checks and the questions to the runner are those of
// ../../python/pools.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"respool/tests/clients/go/checks"
)

const (
	spread     = 100
	writers    = 4
	increments = 10
	message    = 5 * time.Second
)

var (
	ctx    = context.Background()
	group  string
	addr   string
	client *redis.Client
)

func key(word any) string { return fmt.Sprint("go-redis-pools:", group, ":", word) }

func connect() error {
	pong, err := client.Ping(ctx).Result()
	if err := checks.Expect(pong, err, "PONG"); err != nil {
		return err
	}
	if err := client.Set(ctx, key("s"), "value", 0).Err(); err != nil {
		return err
	}
	got, err := client.Get(ctx, key("s")).Result()
	return checks.Expect(got, err, "value")
}

func speaks(protocol int) func() error {
	return func() error {
		mine := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol})
		defer mine.Close()
		name := key(fmt.Sprint("map", protocol))
		if err := mine.HSet(ctx, name, "a", "1", "b", "2").Err(); err != nil {
			return err
		}
		raw, err := mine.Do(ctx, "HGETALL", name).Result()
		if _, isMap := raw.(map[any]any); err != nil || isMap != (protocol == 3) {
			return fmt.Errorf("HGETALL gave %T %v", raw, err)
		}
		if err := exchange(mine, channels, key(fmt.Sprint("channel", protocol))); err != nil {
			return err
		}
		return timesOut(mine)
	}
}

func pipeline() error {
	client.Set(ctx, key("text"), "x", 0)
	answers := make([]*redis.StringCmd, spread)
	pipe := client.Pipeline()
	for i := range answers {
		pipe.Set(ctx, key(i), i, 0)
		answers[i] = pipe.Get(ctx, key(i))
	}
	wrong, right := pipe.Incr(ctx, key("text")), pipe.Get(ctx, key("text"))
	_, _ = pipe.Exec(ctx)
	for i, answer := range answers {
		if err := checks.Expect(answer.Val(), answer.Err(), fmt.Sprint(i)); err != nil {
			return err
		}
	}
	if wrong.Err() == nil || !strings.Contains(wrong.Err().Error(), "not an integer") {
		return fmt.Errorf("INCR of a text gave %v", wrong.Err())
	}
	return checks.Expect(right.Val(), right.Err(), "x")
}

// transaction: the library sends a whole transaction at once, so DISCARD is sent by hand.
func transaction() error {
	name := key("t")
	var number *redis.IntCmd
	_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, name, 1, 0)
		number = pipe.Incr(ctx, name)
		return nil
	})
	if err := checks.Expect(number.Val(), err, 2); err != nil {
		return err
	}
	conn := client.Conn()
	defer conn.Close()
	for _, words := range [][]any{{"MULTI"}, {"SET", name, "discarded"}, {"DISCARD"}} {
		if err := conn.Do(ctx, words...).Err(); err != nil {
			return err
		}
	}
	got, err := client.Get(ctx, name).Result()
	return checks.Expect(got, err, "2")
}

func watch() error {
	name := key("w")
	client.Set(ctx, name, 0, 0)
	increment := func(tx *redis.Tx) error {
		value, err := tx.Get(ctx, name).Int()
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, name, value+1, 0).Err()
		})
		return err
	}
	var wait sync.WaitGroup
	failed := make(chan error, writers)
	for range writers {
		wait.Go(func() {
			for range increments {
				err := client.Watch(ctx, increment, name)
				for errors.Is(err, redis.TxFailedErr) {
					err = client.Watch(ctx, increment, name)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	got, err := client.Get(ctx, name).Int()
	return checks.Expect(got, err, writers*increments)
}

// kind of subscription: the library's methods for it.
type kind struct {
	subscribe   func(*redis.Client) *redis.PubSub
	join, leave func(*redis.PubSub, string) error
	publish     func(*redis.Client, string, string) error
	suffix      string
}

var channels = kind{
	join:      func(p *redis.PubSub, name string) error { return p.Subscribe(ctx, name) },
	leave:     func(p *redis.PubSub, name string) error { return p.Unsubscribe(ctx, name) },
	publish:   func(c *redis.Client, name, text string) error { return c.Publish(ctx, name, text).Err() },
	subscribe: func(c *redis.Client) *redis.PubSub { return c.Subscribe(ctx) },
}

var patterns = kind{
	join:      func(p *redis.PubSub, name string) error { return p.PSubscribe(ctx, name) },
	leave:     func(p *redis.PubSub, name string) error { return p.PUnsubscribe(ctx, name) },
	publish:   channels.publish,
	subscribe: func(c *redis.Client) *redis.PubSub { return c.PSubscribe(ctx) },
	suffix:    "*",
}

var shards = kind{
	join:      func(p *redis.PubSub, name string) error { return p.SSubscribe(ctx, name) },
	leave:     func(p *redis.PubSub, name string) error { return p.SUnsubscribe(ctx, name) },
	publish:   func(c *redis.Client, name, text string) error { return c.SPublish(ctx, name, text).Err() },
	subscribe: func(c *redis.Client) *redis.PubSub { return c.SSubscribe(ctx) },
}

func exchanges(kind kind, word string) func() error {
	return func() error { return exchange(client, kind, key(word)) }
}

// exchange: two channels; after leaving the first, its message must not come before that of the
// second.
func exchange(client *redis.Client, kind kind, channel string) error {
	first, second := channel+":1", channel+":2"
	listener := kind.subscribe(client)
	defer listener.Close()
	for _, name := range []string{first, second} {
		if err := kind.join(listener, name+kind.suffix); err != nil {
			return err
		}
		if err := confirmed(listener, "subscribe"); err != nil {
			return err
		}
	}
	if err := kind.publish(client, first, "one"); err != nil {
		return err
	}
	if err := heard(listener, kind, first, "one"); err != nil {
		return err
	}
	if err := kind.leave(listener, first+kind.suffix); err != nil {
		return err
	}
	if err := confirmed(listener, "unsubscribe"); err != nil {
		return err
	}
	_ = kind.publish(client, first, "nobody")
	if err := kind.publish(client, second, "two"); err != nil {
		return err
	}
	return heard(listener, kind, second, "two")
}

// confirmed: the library tells which kind of subscription it was by a letter before the word.
func confirmed(listener *redis.PubSub, what string) error {
	got, err := listener.ReceiveTimeout(ctx, message)
	if err != nil {
		return err
	}
	if said, is := got.(*redis.Subscription); !is || strings.TrimLeft(said.Kind, "ps") != strings.TrimLeft(what, "s") {
		return fmt.Errorf("no confirmation of %s but %v", what, got)
	}
	return nil
}

func heard(listener *redis.PubSub, kind kind, channel, text string) error {
	got, err := listener.ReceiveTimeout(ctx, message)
	if err != nil {
		return err
	}
	said, is := got.(*redis.Message)
	if !is || said.Channel != channel || said.Payload != text {
		return fmt.Errorf("expected %s from %s, got %v", text, channel, got)
	}
	if kind.suffix != "" && said.Pattern != channel+kind.suffix {
		return fmt.Errorf("expected a pattern, got %v", got)
	}
	return nil
}

func blocking() error {
	name := key("list")
	got := make(chan error, 1)
	go func() {
		pair, err := client.BLPop(ctx, 10*time.Second, name).Result()
		got <- checks.Expect(pair, err, []string{name, "x"})
	}()
	if err := client.RPush(ctx, name, "x").Err(); err != nil {
		return err
	}
	if err := <-got; err != nil {
		return err
	}
	return timesOut(client)
}

// timesOut: the library knows whole seconds only.
func timesOut(client *redis.Client) error {
	if err := client.BLPop(ctx, time.Second, key("none")).Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("BLPOP of nothing gave %v", err)
	}
	return nil
}

// scripts: the texts were never seen before by the server, so that the digest is unknown at first.
func scripts() error {
	text := fmt.Sprint("return {KEYS[1], ARGV[1]} -- ", time.Now().UnixNano())
	helper := redis.NewScript(text + " again")
	for i := range 10 {
		name := key(fmt.Sprint("lua", i))
		got, err := client.Eval(ctx, text, []string{name}, "in").Result()
		if err := checks.Expect(got, err, any([]any{name, "in"})); err != nil {
			return err
		}
		got, err = helper.Run(ctx, client, []string{name}, "sha").Result()
		if err := checks.Expect(got, err, any([]any{name, "sha"})); err != nil {
			return err
		}
	}
	return nil
}

func reconnects(what string) func() error {
	return func() error {
		checks.Ask("restart", what, group)
		return checks.ErrorsEnd(roundTrip)
	}
}

func roundTrip() error {
	for i := range spread {
		if err := client.Set(ctx, key(i), i, 0).Err(); err != nil {
			return err
		}
		got, err := client.Get(ctx, key(i)).Int()
		if err := checks.Expect(got, err, i); err != nil {
			return err
		}
	}
	return nil
}

func resubscribe() error {
	channel := key("again")
	listener := client.Subscribe(ctx, channel)
	defer listener.Close()
	if err := confirmed(listener, "subscribe"); err != nil {
		return err
	}
	messages := listener.Channel()
	checks.Ask("restart", "respool", group)
	return checks.ErrorsEnd(func() error {
		if err := client.Publish(ctx, channel, "after").Err(); err != nil {
			return err
		}
		select {
		case got := <-messages:
			return checks.Expect(got.Payload, nil, "after")
		case <-time.After(200 * time.Millisecond):
			return errors.New("no message")
		}
	})
}

func main() {
	checks.TellVersion()
	checks.Groups(func(name string, addresses []string) {
		group, addr = name, addresses[0]
		client = redis.NewClient(&redis.Options{Addr: addr})
		defer client.Close()
		checks.Run(group+":", []checks.Check{
			{Name: "connect", Run: connect}, {Name: "resp2", Run: speaks(2)},
			{Name: "resp3", Run: speaks(3)}, {Name: "pipeline", Run: pipeline},
			{Name: "transaction", Run: transaction}, {Name: "watch", Run: watch},
			{Name: "subscribe", Run: exchanges(channels, "channel")},
			{Name: "psubscribe", Run: exchanges(patterns, "pattern")},
			{Name: "ssubscribe", Run: exchanges(shards, "shard")},
			{Name: "blocking", Run: blocking}, {Name: "scripts", Run: scripts},
			{Name: "reconnect_server", Run: reconnects("server")},
			{Name: "reconnect_respool", Run: reconnects("respool")},
			{Name: "resubscribe", Run: resubscribe},
		})
	})
	fmt.Println("end")
}
