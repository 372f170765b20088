// go-redis in cluster mode against respool that shows itself as a cluster.
//
// Arguments: GROUP=HOST:PORT[,HOST:PORT…]…; the groups and the questions to the runner ("ask WORDS"
// on stdout, a line on stdin) are those of ../../python/cluster.py.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"respool/tests/clients/go/checks"
)

const spread = 300

var (
	ctx    = context.Background()
	client *redis.ClusterClient
	// Of the group that is being checked.
	addresses []string
	// Whether it is a real cluster.
	real bool
)

func key(word any) string { return fmt.Sprint("go-redis-cluster:", word) }

// masters are the addresses of the nodes that the library knows.
func masters() ([]string, error) {
	var lock sync.Mutex
	var found []string
	err := client.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		lock.Lock()
		defer lock.Unlock()
		found = append(found, node.Options().Addr)
		return nil
	})
	slices.Sort(found)
	return found, err
}

func nodes() error {
	found, err := masters()
	return checks.Expect(found, err, slices.Sorted(slices.Values(addresses)))
}

func keysOfManySlots() error {
	for i := range spread {
		if err := client.Set(ctx, key(i), i, 0).Err(); err != nil {
			return err
		}
		got, err := client.Get(ctx, key(i)).Int()
		if err := checks.Expect(got, err, i); err != nil {
			return err
		}
	}
	if err := client.Get(ctx, key("absent")).Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("an absent key gave %v", err)
	}
	return nil
}

func pipeline() error {
	answers := make([]*redis.StringCmd, spread)
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range answers {
			pipe.Set(ctx, key(i), i, 0)
			answers[i] = pipe.Get(ctx, key(i))
		}
		return nil
	})
	for i, answer := range answers {
		if err == nil {
			err = checks.Expect(answer.Val(), answer.Err(), fmt.Sprint(i))
		}
	}
	return err
}

func errorInAPipeline() error {
	client.Set(ctx, key("text"), "x", 0)
	pipe := client.Pipeline()
	wrong, right := pipe.Incr(ctx, key("text")), pipe.Get(ctx, key("text"))
	_, _ = pipe.Exec(ctx)
	if wrong.Err() == nil || !strings.Contains(wrong.Err().Error(), "not an integer") {
		return fmt.Errorf("INCR of a text gave %v", wrong.Err())
	}
	return checks.Expect(right.Val(), right.Err(), "x")
}

func oneSlot() error {
	a, b, absent := key("{tag}a"), key("{tag}b"), key("{tag}absent")
	if err := client.MSet(ctx, a, 1, b, 2).Err(); err != nil {
		return err
	}
	values, err := client.MGet(ctx, a, absent, b).Result()
	if err := checks.Expect(values, err, []any{"1", nil, "2"}); err != nil {
		return err
	}
	count, err := client.Del(ctx, a, b).Result()
	return checks.Expect(count, err, 2)
}

// severalSlots: go-redis splits none of these by default; to a real cluster they are errors, respool
// splits them.
func severalSlots() error {
	names, pairs, values := []string{}, []any{}, []any{}
	for i := range 40 {
		names = append(names, key(fmt.Sprint("split:", i)))
		pairs = append(pairs, names[i], fmt.Sprint(i))
		values = append(values, fmt.Sprint(i))
	}
	err := client.MSet(ctx, pairs...).Err()
	if real {
		if err == nil || !strings.Contains(err.Error(), "CROSSSLOT") {
			return fmt.Errorf("MSET over slots of a real cluster gave %v", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	got, err := client.MGet(ctx, names...).Result()
	if err := checks.Expect(got, err, values); err != nil {
		return err
	}
	count, err := client.Exists(ctx, names...).Result()
	if err := checks.Expect(count, err, 40); err != nil {
		return err
	}
	count, err = client.Del(ctx, names...).Result()
	return checks.Expect(count, err, 40)
}

func scripts() error {
	script := redis.NewScript("return {KEYS[1], ARGV[1]}")
	for i := range 10 {
		name := key(fmt.Sprint("lua", i))
		got, err := client.Eval(ctx, "return {redis.call('set', KEYS[1], ARGV[1]), 7}", []string{name}, "in").Result()
		if err := checks.Expect(got, err, any([]any{"OK", int64(7)})); err != nil {
			return err
		}
		// Run asks by digest first and sends the text when the server does not know it.
		got, err = script.Run(ctx, client, []string{name}, "sha").Result()
		if err := checks.Expect(got, err, any([]any{name, "sha"})); err != nil {
			return err
		}
	}
	return nil
}

// scanAndDBSize: a node of the facade answers for all keys, so a client that asks each gets them
// from each.
func scanAndDBSize() error {
	var lock sync.Mutex
	seen := map[string]int{}
	err := client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		all := node.Scan(ctx, 0, key("[0-9]*"), 50).Iterator()
		lock.Lock()
		defer lock.Unlock()
		for all.Next(ctx) {
			seen[all.Val()]++
		}
		return all.Err()
	})
	if err := checks.Expect(len(seen), err, spread); err != nil || real {
		return err
	}
	for name, times := range seen {
		if times < len(addresses) {
			return fmt.Errorf("%s seen %d times", name, times)
		}
	}
	// The library asks every node and adds up. A key of another check may expire between two questions.
	one := redis.NewClient(&redis.Options{Addr: addresses[0]})
	defer one.Close()
	for tries := 0; ; tries++ {
		size, err := one.DBSize(ctx).Result()
		if err != nil {
			return err
		}
		whole, err := client.DBSize(ctx).Result()
		if whole == size*int64(len(addresses)) || tries == 4 {
			return checks.Expect(whole, err, size*int64(len(addresses)))
		}
	}
}

func expiry() error {
	client.Set(ctx, key("e"), "x", 100*time.Second)
	left, err := client.TTL(ctx, key("e")).Result()
	if err != nil || left <= 0 || left > 100*time.Second {
		return fmt.Errorf("TTL: %v %v", left, err)
	}
	client.Set(ctx, key("short"), "x", 20*time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	if err := client.Get(ctx, key("short")).Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("an expired key gave %v", err)
	}
	return nil
}

func binaryAndLargeValues() error {
	every := []byte("\r\n$3\r\n*1\r\n")
	for i := range 256 {
		every = append(every, byte(i))
	}
	for name, value := range map[string][]byte{
		key("binary"): every, string(every): []byte("as a key"), key("big"): bytes.Repeat(every, 4096),
	} {
		if err := client.Set(ctx, name, value, 0).Err(); err != nil {
			return err
		}
		got, err := client.Get(ctx, name).Bytes()
		if err := checks.Expect(got, err, value); err != nil {
			return err
		}
	}
	return nil
}

func refresh() error {
	client.ReloadState(ctx)
	// The state is loaded aside; the next requests go on with the old one until then.
	time.Sleep(50 * time.Millisecond)
	if err := nodes(); err != nil {
		return err
	}
	got, err := client.Get(ctx, key(1)).Result()
	return checks.Expect(got, err, "1")
}

func clusterCommands() error {
	slot, err := client.ClusterKeySlot(ctx, "foo").Result()
	if err := checks.Expect(slot, err, 12182); err != nil {
		return err
	}
	slots, err := client.ClusterSlots(ctx).Result()
	if err := checks.Expect(len(slots), err, len(addresses)); err != nil {
		return err
	}
	shards, err := client.ClusterShards(ctx).Result()
	if err := checks.Expect(len(shards), err, len(addresses)); err != nil {
		return err
	}
	for _, shard := range shards {
		node := shard.Nodes[0]
		if at := fmt.Sprint(node.IP, ":", node.Port); !slices.Contains(addresses, at) || node.Role != "master" {
			return fmt.Errorf("a shard at %s, %s", at, node.Role)
		}
	}
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil || !strings.Contains(info, "cluster_state:ok") {
		return fmt.Errorf("CLUSTER INFO: %s %v", info, err)
	}
	text, err := client.ClusterNodes(ctx).Result()
	if err != nil || strings.Count(text, "\n") != len(addresses) || strings.Count(text, "myself") != 1 {
		return fmt.Errorf("CLUSTER NODES: %s %v", text, err)
	}
	id, err := client.ClusterMyID(ctx).Result()
	if err == nil && !strings.Contains(text, id+" ") {
		err = fmt.Errorf("CLUSTER MYID: %s is not in %s", id, text)
	}
	return err
}

// readsFromReplicas: with these settings the library sends READONLY on every connection.
func readsFromReplicas() error {
	for _, options := range []redis.ClusterOptions{
		{Addrs: addresses, ReadOnly: true},
		{Addrs: addresses, RouteByLatency: true},
		{Addrs: addresses, RouteRandomly: true, Protocol: 2},
	} {
		reader := redis.NewClusterClient(&options)
		for i := range 20 {
			got, err := reader.Get(ctx, key(i)).Int()
			if err := checks.Expect(got, err, i); err != nil {
				return err
			}
		}
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return nil
}

func everyNodeIsUsed() error {
	if err := keysOfManySlots(); err != nil {
		return err
	}
	counts := checks.Ask("clients")
	if len(counts) != len(addresses) || slices.Contains(counts, "0") {
		return fmt.Errorf("connections at each node: %v", counts)
	}
	return nil
}

// goesOnWhenANodeDiesAndComesBack: the others take its share over, and give it back. By itself the
// library asks for the nodes once a minute only, whatever a dead one does to its requests.
func goesOnWhenANodeDiesAndComesBack() error {
	before := client
	defer func() { client = before }()
	client = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                      addresses[:1],
		ClusterStateReloadInterval: time.Second,
	})
	defer client.Close()
	first, err := share()
	if err != nil || len(first) < spread/5 || len(first) > spread/2 {
		return fmt.Errorf("a share of %d: %v", len(first), err)
	}
	checks.Ask("kill", "0")
	if err := errorsEnd(everything()); err != nil {
		return err
	}
	left, err := share()
	if err := checks.Expect(len(left), err, 0); err != nil {
		return err
	}
	checks.Ask("start", "0")
	for deadline := time.Now().Add(checks.Recovery); len(left) != len(first); time.Sleep(100 * time.Millisecond) {
		if left, err = share(); err != nil || time.Now().After(deadline) {
			return fmt.Errorf("a share of %d again: %v", len(left), err)
		}
	}
	return errorsEnd(everything())
}

// share: the keys that the library asks the first node for.
func share() (names []string, err error) {
	for _, name := range everything() {
		node, err := client.MasterForKey(ctx, name)
		if err != nil {
			return nil, err
		}
		if node.Options().Addr == addresses[0] {
			names = append(names, name)
		}
	}
	return names, nil
}

func everything() (names []string) {
	for i := range spread {
		names = append(names, key(i))
	}
	return names
}

func allKeysGoOnWhenARespoolDies() error {
	checks.Ask("kill", "balanced")
	return errorsEnd(everything())
}

// errorsEnd waits for a round over these keys without an error.
func errorsEnd(names []string) error {
	return checks.ErrorsEnd(func() error {
		for _, name := range names {
			if err := client.Set(ctx, name, name, 0).Err(); err != nil {
				return err
			}
			got, err := client.Get(ctx, name).Result()
			if err := checks.Expect(got, err, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// withoutFacade: what the client says of a server that is no cluster.
func withoutFacade() error {
	err := client.Set(ctx, key("off"), "x", 0).Err()
	if err == nil || !strings.Contains(err.Error(), "cluster support disabled") {
		return fmt.Errorf("SET gave %v", err)
	}
	return nil
}

var everywhere = []checks.Check{
	{Name: "nodes", Run: nodes},
	{Name: "keys_of_many_slots", Run: keysOfManySlots},
	{Name: "pipeline", Run: pipeline},
	{Name: "error_in_a_pipeline", Run: errorInAPipeline},
	{Name: "one_slot", Run: oneSlot},
	{Name: "several_slots", Run: severalSlots},
	{Name: "scripts", Run: scripts},
	{Name: "scan_and_dbsize", Run: scanAndDBSize},
	{Name: "expiry", Run: expiry},
	{Name: "binary_and_large_values", Run: binaryAndLargeValues},
	{Name: "refresh", Run: refresh},
	{Name: "cluster_commands", Run: clusterCommands},
	{Name: "reads_from_replicas", Run: readsFromReplicas},
}

var balanced = []checks.Check{
	{Name: "nodes", Run: nodes},
	{Name: "keys_of_many_slots", Run: keysOfManySlots},
	{Name: "pipeline", Run: pipeline},
	{Name: "refresh", Run: refresh},
	{Name: "all_keys_go_on_when_a_respool_dies", Run: allKeysGoOnWhenARespoolDies},
}

var withSeveral = []checks.Check{
	{Name: "every_node_is_used", Run: everyNodeIsUsed},
	{Name: "goes_on_when_a_node_dies_and_comes_back", Run: goesOnWhenANodeDiesAndComesBack},
}

func main() {
	checks.TellVersion()
	checks.Groups(func(group string, list []string) {
		addresses, real = list, group == "real"
		switch group {
		case "off":
			for number, address := range addresses {
				runAll(fmt.Sprint("off:", number), address, []checks.Check{{Name: "told", Run: withoutFacade}})
			}
		case "balanced":
			runAll(group, addresses[0], balanced)
		case "several":
			runAll(group, addresses[0], slices.Concat(everywhere, withSeveral))
		default:
			runAll(group, addresses[0], everywhere)
		}
	})
	fmt.Println("end")
}

// runAll connects to one address, from which the library finds the others.
func runAll(group, address string, list []checks.Check) {
	client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	checks.Run(group+":", list)
	_ = client.Close()
}
