// Package checks is what the programs of this module share: how a check is run and shown, and how
// the runner is asked.
package checks

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
)

// Recovery is how long a library may show errors after something it was connected to went away.
const Recovery = 10 * time.Second

// ErrLacks is in the chain of what a check returns that the library, version or protocol has no
// means for.
var ErrLacks = errors.New("lacks")

var stdin = bufio.NewReader(os.Stdin)

// Check is one line of the result.
type Check struct {
	Name string
	Run  func() error
}

// Run runs checks and prints a line for each: "ok NAME", "none NAME: why" or "FAIL NAME: why".
func Run(prefix string, checks []Check) {
	for _, check := range checks {
		name := prefix + check.Name
		switch err := check.Run(); {
		case err == nil:
			fmt.Println("ok", name)
		case errors.Is(err, ErrLacks):
			fmt.Printf("none %s: %s\n", name, err)
		default:
			fmt.Printf("FAIL %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", `\n`))
		}
	}
}

// Groups calls with each argument GROUP=HOST:PORT[,HOST:PORT…].
func Groups(each func(group string, addresses []string)) {
	for _, argument := range os.Args[1:] {
		group, list, _ := strings.Cut(argument, "=")
		each(group, strings.Split(list, ","))
	}
}

// TellVersion shows the version of go-redis that this program is built with.
func TellVersion() {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if strings.HasPrefix(module.Path, "github.com/redis/go-redis/") {
			fmt.Println("version", strings.TrimPrefix(module.Version, "v"))
		}
	}
}

// Ask puts a question to the runner, answered by a line.
func Ask(words ...any) []string {
	fmt.Println(append([]any{"ask"}, words...)...)
	line, _ := stdin.ReadString('\n')
	return strings.Fields(line)
}

// Expect returns an error that tells both values if they differ.
func Expect[T any](got T, err error, want T) error {
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got %.200v, expected %.200v", fmt.Sprint(got), fmt.Sprint(want))
	}
	return nil
}

// ErrorsEnd repeats what is given until it returns no error.
func ErrorsEnd(attempted func() error) error {
	deadline := time.Now().Add(Recovery)
	for {
		err := attempted()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(100 * time.Millisecond)
	}
}
