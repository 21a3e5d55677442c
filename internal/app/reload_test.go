package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/app"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
)

func notes() *config.Server {
	s := config.DefaultServer("notes")
	s.Type, s.Builtin = config.TypeBuiltin, "notes"
	return s
}

// file stands for the configuration file of an App.
type file struct {
	mu  sync.Mutex
	cfg *config.Config
	err error
}

func (f *file) set(cfg *config.Config, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cfg, f.err = cfg, err
}

func (f *file) read() (*config.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg, f.err
}

// start runs an App until the test ends.
func start(t *testing.T, o app.Options) *app.App {
	t.Helper()
	a, err := app.New(o)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return a
}

// unwatched is a configuration without a file to watch.
func unwatched(servers ...*config.Server) *config.Config {
	c := configure(servers...)
	c.Watch = false
	return c
}

func echo(a *app.App, text string) (string, error) {
	args, err := json.Marshal(map[string]string{"message": text})
	if err != nil {
		return "", err
	}
	result, err := a.Call(context.Background(), "demo__echo", args, nil)
	return string(result), err
}

func TestAReloadTakesUpServersAndSettings(t *testing.T) {
	f := &file{}
	a := start(t, app.Options{Config: unwatched(demo()), Reread: f.read})
	next := unwatched(demo(), notes())
	next.Breaker.Failures, next.Limits.Drain, next.HTTP.Addr = 9, time.Minute, "127.0.0.1:9"
	f.set(next, nil)
	plan, err := a.Reload(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if !plan.Applied || !cmp.Equal(plan.Added, []string{"notes"}) || len(plan.Removed)+len(plan.Changed)+len(plan.Errors) > 0 ||
		!cmp.Equal(plan.Settings, []string{"breaker.failures"}) || !cmp.Equal(plan.Restart, []string{"http.addr", "limits.drain"}) {
		t.Errorf("the plan is %+v", plan)
	}
	eventually(t, "notes__add_note is listed", func() bool { _, ok := a.Snapshot().Tool("notes__add_note"); return ok })

	f.set(unwatched(notes()), nil)
	if plan, err = a.Reload(t.Context(), "test"); err != nil || !cmp.Equal(plan.Removed, []string{"demo"}) {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	if _, ok := a.Snapshot().Tool("demo__echo"); ok {
		t.Error("a tool of a removed server is still listed")
	}
	if _, err := echo(a, "x"); err == nil {
		t.Error("a tool of a removed server can be called")
	}
}

func TestABadFileChangesNothing(t *testing.T) {
	f := &file{}
	a := start(t, app.Options{Config: unwatched(demo()), Reread: f.read})
	before := a.Status()[0].Since
	f.set(nil, &config.Problems{{File: "config.yaml", Line: 3, Col: 4, Path: "servers", Message: "bad"}, {File: "config.yaml", Line: 5, Col: 1, Message: "worse"}})
	plan, err := a.Reload(t.Context(), "test")
	if err != nil || plan.Applied || !cmp.Equal(plan.Errors, []string{"config.yaml:3:4: servers: bad", "config.yaml:5:1: worse"}) {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	if got, err := echo(a, "still here"); err != nil || !strings.Contains(got, "still here") {
		t.Errorf("%s, %v", got, err)
	}
	if st := a.Status()[0]; st.State != upstream.Connected || !st.Since.Equal(before) {
		t.Errorf("the server was touched: %+v", st)
	}
}

// A file that hangs when it is read holds up those who want it and nothing else.
func TestAFileThatHangsStopsNothingElse(t *testing.T) {
	hang := make(chan struct{})
	var reads atomic.Int64
	a, err := app.New(app.Options{Config: unwatched(demo()), Reread: func() (*config.Config, error) {
		if reads.Add(1) == 1 {
			<-hang
		}
		return unwatched(demo(), notes()), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second waits for the first, whose asker has gone
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if plan, err := a.Reload(ctx, "test"); !errors.Is(err, context.DeadlineExceeded) || plan.Applied {
			t.Errorf("a reload that hangs: %+v, %v", plan, err)
		}
		cancel()
	}
	if err := a.Disable("demo"); err != nil {
		t.Error(err)
	}
	eventually(t, "the tools go", func() bool { _, ok := a.Snapshot().Tool("demo__echo"); return !ok })
	ended := make(chan struct{})
	waiting := make(chan error, 1)
	go func() { _, err := a.Reload(context.Background(), "test"); waiting <- err }()
	go func() { stop(); close(ended) }()
	await(t, "the end of an aggregator whose file hangs", ended)
	if err := await(t, "the end of a reload that waits", waiting); err == nil {
		t.Error("a reload that waits succeeds although the aggregator has ended")
	}
	close(hang)
	if n := reads.Load(); n != 1 {
		t.Errorf("%d reads hang beside each other", n)
	}
}

func TestReloadsGoOnOnceTheFileCanBeRead(t *testing.T) {
	hang := make(chan struct{})
	var reads atomic.Int64
	a := start(t, app.Options{Config: unwatched(demo()), Reread: func() (*config.Config, error) {
		if reads.Add(1) == 1 {
			<-hang
		}
		return unwatched(demo(), notes()), nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.Reload(ctx, "test"); err == nil {
		t.Error("a reload that hangs succeeds")
	}
	close(hang)
	if plan, err := a.Reload(t.Context(), "test"); err != nil || !plan.Applied || !cmp.Equal(plan.Added, []string{"notes"}) {
		t.Errorf("afterwards: %+v, %v", plan, err)
	}
}

func TestServersCanBeReplacedWithoutAFile(t *testing.T) {
	a := start(t, app.Options{Config: unwatched(demo())})
	plan, err := a.SetServers(t.Context(), []byte(`{"servers": {"notes": {"builtin": "notes"}}}`))
	if err != nil || !plan.Applied || !cmp.Equal(plan.Added, []string{"notes"}) || !cmp.Equal(plan.Removed, []string{"demo"}) {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	eventually(t, "the new server is listed", func() bool { _, ok := a.Snapshot().Tool("notes__add_note"); return ok })
	plan, err = a.SetServers(t.Context(), []byte(`{"servers": {"notes": {"builtin": "no"}}}`))
	if err != nil || plan.Applied || len(plan.Errors) != 1 {
		t.Errorf("the plan of a bad request is %+v, %v", plan, err)
	}
	if plan, err := a.Reload(t.Context(), "test"); err != nil || plan.Applied || len(plan.Errors) != 1 {
		t.Errorf("a reload without a file: %+v, %v", plan, err)
	}
}

// Calls go on while servers come, go and change; those of a server that stays are
// never refused.
func TestReloadsLoseNoCalls(t *testing.T) {
	f := &file{}
	a := start(t, app.Options{Config: unwatched(demo(), notes()), Reread: f.read})
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var calls atomic.Int64
	for range 8 {
		callers.Go(func() {
			for ctx.Err() == nil {
				calls.Add(1)
				if got, err := echo(a, "hello"); err != nil || !strings.Contains(got, "hello") || strings.Contains(got, "isError") {
					t.Errorf("%s, %v", got, err)
					return
				}
			}
		})
	}
	quiet := demo()
	quiet.Tools.Deny = []string{"add"}
	bad := &config.Problems{{Message: "bad"}}
	for i := range 60 {
		switch i % 6 {
		case 0:
			f.set(unwatched(demo()), nil)
		case 1:
			f.set(unwatched(demo(), notes()), nil)
		case 2:
			f.set(nil, bad)
		case 3:
			f.set(unwatched(quiet, notes()), nil)
		case 4:
			changed := notes()
			changed.Protocol = "legacy"
			f.set(unwatched(demo(), changed), nil)
		case 5: // nothing new
		}
		if plan, err := a.Reload(t.Context(), "test"); err != nil || plan.Applied == (i%6 == 2) {
			t.Fatalf("reload %d: %+v, %v", i, plan, err)
		}
		made := calls.Load()
		eventually(t, "calls go on", func() bool { return calls.Load() > made+16 || t.Failed() })
	}
	cancel()
	callers.Wait()
	if st := a.Status()[0]; st.Restarts != 0 {
		t.Errorf("the server that stayed was connected anew %d times", st.Restarts)
	}
}

func TestAReloadEndsWithTheAggregator(t *testing.T) {
	a, err := app.New(app.Options{Config: unwatched(demo()), Reread: (&file{cfg: unwatched(demo())}).read})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := a.Reload(t.Context(), "test"); err == nil {
		t.Error("a reload of an aggregator that has ended succeeds")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	idle := newApp(t, unwatched())
	if _, err := idle.Reload(ctx, "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("a reload nobody takes: %v", err)
	}
	if err := idle.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestListsAreServedFromTheLastRunBeforeAnyServerHasStarted(t *testing.T) {
	dir := t.TempDir()
	first, err := app.New(app.Options{Config: unwatched(demo()), StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := first.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := definitions(first)
	stop()

	lazy := demo()
	lazy.Lazy = true
	a := start(t, app.Options{Config: unwatched(lazy), StateDir: dir})
	if st := a.Status()[0]; st.State == upstream.Connected || !st.Stale || st.Tools == 0 {
		t.Errorf("the status is %+v, want a server that was not started and stale lists", st)
	}
	if diff := cmp.Diff(want, definitions(a)); diff != "" {
		t.Errorf("the lists differ from those of the last run:\n%s", diff)
	}
	if got, err := echo(a, "wake up"); err != nil || !strings.Contains(got, "wake up") {
		t.Errorf("the first call: %s, %v", got, err)
	}
	if st := a.Status()[0]; st.State != upstream.Connected {
		t.Errorf("after the call the server is %s", st.State)
	}
	eventually(t, "the lists are fresh", func() bool { return !a.Status()[0].Stale })
}

func definitions(a *app.App) (all []string) {
	for _, kind := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Resources, catalog.Templates} {
		for _, e := range a.Snapshot().Entries(kind) {
			all = append(all, string(e.Def))
		}
	}
	return all
}

func TestADisabledServerExposesNothingAndKeepsItsConnection(t *testing.T) {
	a := start(t, app.Options{Config: unwatched(demo(), notes())})
	if err := a.Disable("demo"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tools go", func() bool { _, ok := a.Snapshot().Tool("demo__echo"); return !ok })
	if err := a.Enable("demo"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tools come back", func() bool { _, ok := a.Snapshot().Tool("demo__echo"); return ok })
	if st := a.Status()[0]; st.Restarts != 0 || st.State != upstream.Connected {
		t.Errorf("the connection was lost: %+v", st)
	}
	if err := a.Disable("nobody"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown server: %v", err)
	}
}

func TestTheAdminSideIsOnTheFaceOfLoopbackAddressesOnly(t *testing.T) {
	for _, tt := range []struct {
		name, face, admin string
		consent           bool
		api               int
	}{
		{"loopback", "127.0.0.1:0", "", false, http.StatusOK},
		{"loopback, switched off", "127.0.0.1:0", "off", false, http.StatusNotFound},
		{"all interfaces", "0.0.0.0:0", "", true, http.StatusNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := unwatched(demo())
			c.Admin.Addr, c.HTTP.AllowUnauthenticated = tt.admin, tt.consent
			a := newApp(t, c)
			ln, err := a.ServeHTTP(tt.face)
			if err != nil {
				t.Fatal(err)
			}
			stop, err := a.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			defer http.DefaultClient.CloseIdleConnections()
			_, port, _ := strings.Cut(ln.Addr().String(), "]:")
			if port == "" {
				_, port, _ = strings.Cut(ln.Addr().String(), ":")
			}
			for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusOK, "/healthz": http.StatusOK, "/metrics": tt.api, "/api/v1/mcp/servers": tt.api} {
				res, err := http.Get("http://127.0.0.1:" + port + path)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != want {
					t.Errorf("%s: %d, want %d", path, res.StatusCode, want)
				}
			}
		})
	}
}

// eventually waits for something that another goroutine brings about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for !is() {
		select {
		case <-limit:
			t.Fatalf("it did not happen that %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
