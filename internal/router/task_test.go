package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A counter is a server whose tasks are numbered, by a program that can be made to begin
// anew.
type counter struct {
	*mcptest.Raw
	last atomic.Int64
}

func newCounter(era wire.Era) *counter {
	c := &counter{}
	c.Raw = &mcptest.Raw{Era: mcptest.Legacy, Unrecorded: true, Tools: []string{`{"name":"work","inputSchema":{"type":"object"}}`},
		Capabilities: `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`}
	made := `{"task":{"taskId":"%d"}}`
	if era == wire.Modern {
		c.Era, c.Stateless, c.Capabilities = mcptest.Modern, true, `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		made = `{"resultType":"task","taskId":"%d"}`
	}
	c.Answer = func(q *mcptest.Request) *mcptest.Answer {
		switch q.Method {
		case "tools/call":
			return &mcptest.Answer{Result: fmt.Sprintf(made, c.last.Add(1))}
		case "tasks/get":
			return &mcptest.Answer{Result: `{"taskId":` + mcptest.Quote(q.Name) + `}`}
		case "tasks/list":
			tasks := []string{}
			for i := range c.last.Load() {
				tasks = append(tasks, fmt.Sprintf(`{"taskId":"%d"}`, i+1))
			}
			return &mcptest.Answer{Result: `{"tasks":[` + strings.Join(tasks, ",") + `]}`}
		}
		return nil
	}
	return c
}

// rig routes to it as "up", and to more of its kind as "up1" and so on.
func (c *counter) rig(t *testing.T, era wire.Era, more ...*counter) *router.Router {
	t.Helper()
	return askRig(t, era, nil, func(cfg *config.Config) {
		first := *cfg.Servers[0]
		cfg.Servers = nil
		for i, c := range append([]*counter{c}, more...) {
			web := httptest.NewServer(c.Raw)
			t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
			s := first
			s.Type, s.Builtin, s.URL = config.TypeHTTP, "", web.URL
			if i > 0 {
				s.Name += strconv.Itoa(i)
				s.Prefix = nil
			}
			cfg.Servers = append(cfg.Servers, &s)
		}
	})
}

// tasksOf makes a person who knows tasks.
func tasksOf(t *testing.T, r *router.Router, era wire.Era, name string) *person {
	p := newPerson(t, r, era)
	p.name, p.caps = name, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	return p
}

const makeTask = `{"name":"up__work","arguments":{},"task":{}}`

// task makes a task and returns the params that name it.
func (p *person) task() string {
	p.t.Helper()
	reply := p.request(p.t.Context(), "tools/call", makeTask)
	var made struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	if reply.Err == nil {
		_ = json.Unmarshal(reply.Result.Bytes(), &made)
	}
	if made.TaskID += made.Task.TaskID; made.TaskID == "" {
		p.t.Fatalf("made %s", textOf(reply))
	}
	return `{"taskId":` + quoted(made.TaskID) + `}`
}

const noTask = "error -32602 Failed to retrieve task: Task not found "

func TestTasksBelongToWhoeverMadeThem(t *testing.T) {
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			r := newCounter(era).rig(t, era)
			ann, ben := tasksOf(t, r, era, "ann"), tasksOf(t, r, era, "ben")
			task := ann.task()
			if got := textOf(ann.request(t.Context(), "tasks/get", task)); !strings.Contains(got, task[1:len(task)-1]) {
				t.Errorf("ann got %s", got)
			}
			if got := textOf(ben.request(t.Context(), "tasks/get", task)); got != noTask {
				t.Errorf("ben got %s", got)
			}
			again := tasksOf(t, r, era, "ann") // another request of hers, or session
			if got := textOf(again.request(t.Context(), "tasks/get", task)); got == noTask {
				t.Errorf("ann got %s", got)
			}
		})
	}
}

// A server that has been started anew may count from one: then its ids are those of
// others, and who had them before must not see their tasks.
func TestAnIDThatIsGivenAnewIsAnotherTask(t *testing.T) {
	c := newCounter(wire.Legacy)
	r := c.rig(t, wire.Legacy)
	ann, ben := tasksOf(t, r, wire.Legacy, "ann"), tasksOf(t, r, wire.Legacy, "ben")
	anns := ann.task()
	c.last.Store(0)
	bens := ben.task()
	if got := textOf(ann.request(t.Context(), "tasks/get", anns)); got != noTask {
		t.Errorf("ann got %s", got)
	}
	if got := textOf(ben.request(t.Context(), "tasks/get", bens)); got == noTask {
		t.Errorf("ben got %s", got)
	}
	if got := ann.list(); got != `{"tasks":[]}` {
		t.Errorf("ann was listed %s", got)
	}
}

// What ann had once does not become hers again when nothing else is known of ben's task
// any more: the server still has it.
func TestAnIDThatWasGivenAnewStaysLostToItsFirstOwner(t *testing.T) {
	for name, forget := range map[string]func(r *router.Router, ben *person){
		"the session has ended": func(r *router.Router, _ *person) { r.EndSession("session ben") },
		"too many came after it": func(_ *router.Router, ben *person) {
			for range 1001 {
				ben.task()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounter(wire.Legacy)
			r := c.rig(t, wire.Legacy)
			ann, ben := tasksOf(t, r, wire.Legacy, "ann"), tasksOf(t, r, wire.Legacy, "ben")
			anns := ann.task()
			c.last.Store(0)
			ben.task()
			forget(r, ben)
			if got := textOf(ann.request(t.Context(), "tasks/get", anns)); got != noTask {
				t.Errorf("ann got %s", got)
			}
			if got := ann.list(); got != `{"tasks":[]}` {
				t.Errorf("ann was listed %s", got)
			}
		})
	}
}

// A call that makes a task may hear of a task that nobody knows yet, but not of that of
// somebody else.
func TestWhileATaskIsMadeNothingIsHeardOfThoseOfOthers(t *testing.T) {
	c := newCounter(wire.Legacy)
	r := c.rig(t, wire.Legacy)
	ann, ben := tasksOf(t, r, wire.Legacy, "ann"), tasksOf(t, r, wire.Legacy, "ben")
	ben.task()
	said := func(task string) string {
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"of ` + task +
			`","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + task + `"}}}}`
	}
	c.Change(func(raw *mcptest.Raw) {
		raw.Answer = func(*mcptest.Request) *mcptest.Answer {
			return &mcptest.Answer{Before: []string{said("1"), said("2")}, Result: `{"task":{"taskId":"2"}}`}
		}
	})
	var heard []string
	ann.events = func(ev upstream.Event) { heard = append(heard, string(ev.Params)) }
	ann.task()
	if len(heard) != 1 || !strings.Contains(heard[0], "of 2") {
		t.Errorf("ann heard %s", heard)
	}
}

func (p *person) list() string {
	m, _ := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`))
	ctx, cancel := context.WithCancelCause(p.t.Context())
	defer cancel(nil)
	return textOf(p.r.ListTasks(ctx, &router.Call{Gen: p.r.Generation(), Method: m.Method, Params: &m.Body, Session: "session " + p.name, Cancel: cancel}))
}

// One server that does not answer must not cost the client the tasks of the others.
func TestASilentServerIsLeftOutOfTheListOfTasks(t *testing.T) {
	mute, good := newCounter(wire.Legacy), newCounter(wire.Legacy)
	r := mute.rig(t, wire.Legacy, good)
	ann := tasksOf(t, r, wire.Legacy, "ann")
	ann.task()
	if got := textOf(ann.request(t.Context(), "tools/call", strings.Replace(makeTask, "up__", "up1__", 1))); !strings.Contains(got, "up1:1:") {
		t.Fatalf("made %s", got)
	}
	mute.Change(func(raw *mcptest.Raw) {
		raw.Answer = func(q *mcptest.Request) *mcptest.Answer { return &mcptest.Answer{Silent: q.Method == "tasks/list"} }
	})
	gen := *r.Generation()
	impatient := *gen.Servers["up"]
	impatient.CallTimeout = 50 * time.Millisecond
	gen.Servers = map[string]*config.Server{"up": &impatient, "up1": gen.Servers["up1"]}
	r.Publish(&gen)
	if got := ann.list(); !strings.Contains(got, "up1:1:") {
		t.Errorf("ann was listed %s", got)
	}
}

func TestWhatIsRememberedOfTasksIsBounded(t *testing.T) {
	r := newCounter(wire.Legacy).rig(t, wire.Legacy)
	ann := tasksOf(t, r, wire.Legacy, "ann")
	first := ann.task()
	for range 1000 {
		ann.task()
	}
	if n := strings.Count(ann.list(), "taskId"); n != 1000 {
		t.Errorf("%d are listed", n)
	}
	if got := textOf(ann.request(t.Context(), "tasks/get", first)); got == noTask {
		t.Errorf("the one that was forgotten: %s", got)
	}
	r.EndSession("session ann")
	if got := ann.list(); got != `{"tasks":[]}` {
		t.Errorf("after the end of the session: %s", got)
	}
}

func TestATaskOfAServerThatIsGoneIsUnknown(t *testing.T) {
	r := newCounter(wire.Legacy).rig(t, wire.Legacy)
	ann := tasksOf(t, r, wire.Legacy, "ann")
	task := ann.task()
	gen := *r.Generation()
	gen.Servers = map[string]*config.Server{}
	r.Publish(&gen)
	if got := textOf(ann.request(context.Background(), "tasks/get", task)); got != noTask {
		t.Errorf("got %s", got)
	}
}
