package mcptest_test

import (
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/mcptest"
)

func newLedger(t *testing.T) mcptest.Ledger {
	return mcptest.Ledger(filepath.Join(t.TempDir(), "ledger"))
}

// chaosChild starts a chaos server as a child and opens a client of it.
func chaosChild(t *testing.T, c mcptest.Chaos) (*exec.Cmd, *mcptest.Client) {
	t.Helper()
	path, _, err := mcptest.Command("")
	if err != nil {
		t.Fatal(err)
	}
	env, err := c.Env()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	client, err := mcptest.ConnectPipes(t.Context(), out, in, mcptest.Modern, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return cmd, client
}

func TestALedgerOutlivesItsServer(t *testing.T) {
	ledger := newLedger(t)
	cmd, c := chaosChild(t, mcptest.Chaos{Ledger: ledger})
	if x, err := c.Call(t.Context(), "tools/call", `{"name":"write_die","arguments":{"key":"k"}}`); err == nil {
		t.Errorf("a server that died has answered %s", x.Raw)
	}
	if n := ledger.Count("exec write_die k"); n != 1 {
		t.Errorf("the ledger has %d executions, want 1", n)
	}
	if pids := ledger.PIDs("start"); len(pids) != 1 || pids[0] != cmd.Process.Pid {
		t.Errorf("the ledger has starts of %v, want %d", pids, cmd.Process.Pid)
	}
}

func TestChaosFloodsItsPipe(t *testing.T) {
	_, c := chaosChild(t, mcptest.Chaos{})
	x, err := c.Call(t.Context(), "tools/call", `{"name":"big","arguments":{"bytes":3000000}}`)
	if err != nil || len(x.Result) < 3000000 {
		t.Errorf("%v, %d bytes", err, len(x.Result))
	}
}

func TestForgetfulChaosExecutesWhatItAdmits(t *testing.T) {
	ledger := newLedger(t)
	site, err := mcptest.NewSite(mcptest.Chaos{Era: mcptest.Legacy, Ledger: ledger, ForgetEvery: 2}.Raw())
	if err != nil {
		t.Fatal(err)
	}
	defer site.Down()
	c, err := mcptest.ConnectHTTP(t.Context(), site.URL, mcptest.Legacy, nil)
	if err != nil {
		t.Fatal(err)
	}
	var statuses []int
	for range 3 {
		x, err := c.Call(t.Context(), "tools/call", `{"name":"write","arguments":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		statuses = append(statuses, x.Status)
	}
	if statuses[0] != 200 || statuses[1] != 200 || statuses[2] != 404 || ledger.Count("exec write") != 2 {
		t.Errorf("statuses %v, %d executions; want 200, 200, 404 and 2", statuses, ledger.Count("exec write"))
	}
}

func TestASiteComesBackAtItsAddress(t *testing.T) {
	site, err := mcptest.NewSite(mcptest.Chaos{}.Raw())
	if err != nil {
		t.Fatal(err)
	}
	connect := func() error {
		c, err := mcptest.ConnectHTTP(t.Context(), site.URL, mcptest.Modern, nil)
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := connect(); err != nil {
		t.Error(err)
	}
	site.Down()
	if connect() == nil {
		t.Error("a site that is down answers")
	}
	if err := site.Up(); err != nil {
		t.Fatal(err)
	}
	defer site.Down()
	if err := connect(); err != nil {
		t.Error(err)
	}
}

// What a cable does to one exchange of ping and pong.
func TestCableFaults(t *testing.T) {
	tests := []struct {
		name  string
		fault mcptest.Fault
		got   string
		err   string // part of it; "" is none
	}{
		{"whole", mcptest.Whole, "pong", ""},
		{"a black hole", mcptest.Blackhole, "", "timeout"},
		{"a stall", mcptest.Stall, "", "timeout"},
		{"a reset", mcptest.Reset, "", "reset"},
		{"a cut", mcptest.Cut, "po", "EOF"},
		{"slow", mcptest.Slow, "pong", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cable, conn := cableToPong(t)
			cable.Set(tt.fault)
			_, wrote := io.WriteString(conn, "ping")
			_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			buf := make([]byte, 4)
			n, err := io.ReadFull(conn, buf)
			if wrote != nil {
				err = wrote
			}
			if string(buf[:n]) != tt.got || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v; want %q, %s", buf[:n], err, tt.got, tt.err)
			}
		})
	}
}

// A stall is made up for; what a black hole has swallowed stays lost.
func TestCablesHeal(t *testing.T) {
	for fault, heals := range map[mcptest.Fault]bool{mcptest.Stall: true, mcptest.Blackhole: false} {
		cable, conn := cableToPong(t)
		cable.Set(fault)
		_, _ = io.WriteString(conn, "ping")
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 4)); err == nil {
			t.Errorf("fault %d: an answer came", fault)
		}
		cable.Set(mcptest.Whole)
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.ReadFull(conn, make([]byte, 4)); (err == nil) != heals {
			t.Errorf("fault %d: after healing %v", fault, err)
		}
	}
}

// cableToPong is a cable to a server that answers ping with pong, and a connection through it.
func cableToPong(t *testing.T) (*mcptest.Cable, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { conn.Close() })
			go func() {
				for buf := make([]byte, 4); ; {
					if _, err := io.ReadFull(conn, buf); err != nil {
						return
					}
					_, _ = io.WriteString(conn, "pong")
				}
			}()
		}
	}()
	cable, err := mcptest.NewCable(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cable.Close)
	conn, err := net.Dial("tcp", cable.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_, _ = io.WriteString(conn, "ping") // until the connection is through
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	return cable, conn
}
