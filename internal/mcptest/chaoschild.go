//go:build unix

package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func init() {
	ownChildren[chaosChild] = serveChaos
	ownChildren[descendantChild] = func() { ignoreSignals(); select {} }
}

// serveChaos is the child the environment describes.
func serveChaos() {
	var c Chaos
	if err := json.Unmarshal([]byte(os.Getenv(chaosEnv)), &c); err != nil {
		fmt.Fprintln(os.Stderr, chaosEnv+":", err)
		os.Exit(2)
	}
	c.Ledger.Add("start")
	if c.Stubborn {
		ignoreSignals()
	}
	if c.Descendants {
		startDescendants()
	}
	if c.CrashAtStart {
		fmt.Fprintln(os.Stderr, "fatal: LICENSE_KEY is not set")
		os.Exit(3)
	}
	_ = flood(os.Stderr, c.StderrFirst)
	if c.StartAfter > 0 {
		time.Sleep(c.StartAfter)
	}
	if c.Junk {
		fmt.Print("Server v1.0 starting on stdio...\n{\"level\":\"info\",\"msg\":\"ready\"}\n42\n\n")
	}
	in := &gate{r: os.Stdin}
	c.deafen = func() { in.shut.Store(true) }
	_ = c.Raw().Serve(context.Background(), in, os.Stdout)
	if c.Stubborn {
		select {}
	}
}

func ignoreSignals() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE) }

// startDescendants starts two processes that hold the pipes of this one.
func startDescendants() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	for _, own := range []bool{false, true} {
		cmd := exec.Command(path)
		cmd.Env = append(os.Environ(), childEnv+"="+descendantChild)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: own}
		_ = cmd.Start()
	}
}

// killSelf ends the process as kill -9 does.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// gate is a reader that can stop for ever.
type gate struct {
	r    io.Reader
	shut atomic.Bool
}

func (g *gate) Read(b []byte) (int, error) {
	if g.shut.Load() {
		select {}
	}
	return g.r.Read(b)
}
