package mcptest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// childEnv names the environment variable that turns a test binary into a child.
const childEnv = "MCPTEST_CHILD"

// Children maps names to programs the test binary can become when it is started
// again. A package that wants such children hands over its tests:
//
//	func TestMain(m *testing.M) { mcptest.Children{"echo": mcptest.Stdio(echo)}.Main(m) }
type Children map[string]func()

// Main runs the child the environment asks for, else the tests, and exits.
func (c Children) Main(m *testing.M) {
	c.RunIfChild()
	os.Exit(m.Run())
}

// childLife bounds the life of a child whose test died without ending it. The
// variable childLifeEnv holds another bound.
const (
	childLife    = 5 * time.Minute
	childLifeEnv = "MCPTEST_CHILD_LIFE"
)

// ownChildren are the programs of this package. They exist in every test binary
// that hands over its tests.
var ownChildren = Children{}

// RunIfChild runs the child the environment asks for and exits. In the process
// that runs the tests it returns at once.
func (c Children) RunIfChild() {
	name := os.Getenv(childEnv)
	if name == "" {
		return
	}
	run := c[name]
	if run == nil {
		run = ownChildren[name]
	}
	if run == nil {
		fmt.Fprintf(os.Stderr, "no child is called %q\n", name)
		os.Exit(2)
	}
	life, err := time.ParseDuration(os.Getenv(childLifeEnv))
	if err != nil {
		life = childLife
	}
	time.AfterFunc(life, func() { os.Exit(1) })
	run()
	os.Exit(0)
}

// Stdio makes a child of a server. It ends when its standard input does.
func Stdio(server func() *Raw) func() {
	return func() { _ = server().Serve(context.Background(), os.Stdin, os.Stdout) }
}

// Command returns the program and the environment that start a child.
func Command(name string) (path string, env map[string]string, err error) {
	path, err = os.Executable()
	return path, map[string]string{childEnv: name}, err
}
