//go:build e2e && linux

package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// changing is an aggregator with the library, the treatment of whose results is changed
// in its file.
type changing struct {
	*harness.Aggregator
	t      *testing.T
	models *modelServer
	path   string
	server harness.Config
	reader *reader
	pid    int
	news   []*mcptest.Inbox // what clients of both eras are told
}

func newChanging(t *testing.T) *changing {
	t.Helper()
	c := &changing{t: t, models: serveModels(t), server: harness.Child(t, "library")}
	c.path = c.config(nil).Write(t)
	c.Aggregator = harness.ServeFile(t, c.path)
	c.reader = readAs(t, overHTTP(t, c.URL), mcptest.ModernVersion, nil)
	c.reader.await("lib__log_plain", true)
	c.pid = c.serverPID()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		inbox, err := c.Connect(t, era).Listen(harness.Context(t, time.Minute), `{"toolsListChanged":true}`)
		if err != nil {
			t.Fatal(err)
		}
		c.news = append(c.news, inbox)
	}
	return c
}

func (c *changing) config(settings harness.Config) harness.Config {
	config := harness.Servers(map[string]harness.Config{"lib": c.server}).With("summarizers", c.models.models("", "streams", "whole"))
	for k, v := range settings {
		config[k] = v
	}
	return config
}

func (c *changing) serverPID() int {
	c.t.Helper()
	var s status
	(&rig{Aggregator: c.Aggregator}).ask(c.t, "/api/v1/mcp/servers/lib", &s)
	return s.PID
}

// put changes the file and waits until it has been read.
func (c *changing) put(settings harness.Config) event {
	c.t.Helper()
	stream := openEvents(c.t, c.Aggregator, "", "")
	c.config(settings).Replace(c.t, c.path)
	return c.reread(stream)
}

// reread waits for the end of a reload.
func (c *changing) reread(stream *eventStream) (last event) {
	c.t.Helper()
	stream.until(func(events []event) bool {
		if len(events) > 0 {
			last = events[len(events)-1]
		}
		return last.Type == "reload"
	})
	return last
}

// call makes a call and looks at how its result was treated; "" is not at all.
func (c *changing) call(policy string) shown {
	c.t.Helper()
	s := c.reader.call("lib__log_plain", nil)
	if s.note.Policy != policy || s.result.IsError {
		c.t.Errorf("treated with %q, want %q: %.300s", s.note.Policy, policy, s.text)
	}
	if pid := c.serverPID(); pid != c.pid || pid == 0 {
		c.t.Errorf("the server runs as process %d, was %d", pid, c.pid)
	}
	return s
}

// told waits until all clients are told that the tools have changed.
func (c *changing) told() {
	c.t.Helper()
	for _, inbox := range c.news {
		if _, err := inbox.Await(harness.Context(c.t, 10*time.Second), "notifications/tools/list_changed"); err != nil {
			c.t.Fatalf("a client was not told that the tools have changed: %v", err)
		}
	}
}

func TestTheTreatmentOfResultsChangesWithTheFile(t *testing.T) {
	t.Parallel()
	c := newChanging(t)
	whole := c.call("")
	if c.reader.tool("result_read") != nil || !strings.Contains(whole.text, "ghp_") {
		t.Errorf("at first results are not whole: %.200s", whole.text)
	}

	c.put(harness.Config{"results": "digest"})
	c.told()
	c.reader.await("result_read", true)
	s := c.call("digest")
	if got, _ := c.reader.original(s.note.Handle); got != whole.text {
		t.Errorf("the original has %d bytes, want %d", len(got), len(whole.text))
	}

	c.put(harness.Config{"results": harness.Config{"policy": "page"}})
	c.call("page")
	c.put(harness.Config{"results": harness.Config{"policy": "page", "threshold_tokens": 1_000_000}})
	c.call("")
	mask := harness.Config{"sets": []string{"default"}}
	c.put(harness.Config{"results": "digest", "mask": mask})
	s = c.call("digest")
	if got, err := c.reader.resource(s.note.URI); err != nil || got != asMasked(whole.text) {
		t.Errorf("with a mask the original has %d bytes, %v", len(got), err)
	}
	c.put(harness.Config{"results": "digest", "mask": harness.Config{"patterns": map[string]string{"part": `\[(db-pool|orders)\]`}}})
	if s = c.call("digest"); !strings.Contains(s.text, "[masked:part]") || strings.Contains(s.text, "db-pool") {
		t.Errorf("with a pattern of ours: %.500s", s.text)
	}

	summarize := func(models ...string) harness.Config {
		return harness.Config{"results": harness.Config{"policy": "summarize", "summarizers": models}}
	}
	for _, model := range []string{"whole", "streams"} {
		c.put(summarize(model))
		endsWell(t, c.call("summarize"), model)
	}
	c.put(harness.Config{"results": harness.Config{"policy": "page"}}.With("servers", map[string]harness.Config{
		"lib": c.server.With("tool_overrides", harness.Config{"log_plain": harness.Config{"results": "digest"}}),
	}))
	c.call("digest")

	c.put(nil)
	c.told()
	c.reader.await("result_read", false)
	c.call("")
}

func TestTheFileMayMakeABlockOfLargeResults(t *testing.T) {
	t.Parallel()
	c := newChanging(t)
	c.put(harness.Config{"results": "block"})
	s := c.reader.call("lib__log_plain", nil)
	if !s.result.IsError || !strings.Contains(s.text, "too large") || s.note.Handle != "" {
		t.Errorf("got %.300s", s.text)
	}
	if c.reader.tool("result_read") != nil {
		t.Error("result_read is listed, though nothing is kept")
	}
}

func TestABadPatternChangesNothing(t *testing.T) {
	t.Parallel()
	c := newChanging(t)
	c.put(harness.Config{"results": "digest", "mask": harness.Config{"patterns": map[string]string{"part": `db-pool`}}})
	c.call("digest")
	for name, text := range map[string]string{
		"a pattern":           "results: page\nmask:\n  patterns:\n    good: ok\n    bad: \"(open\"\n",
		"a pattern of all":    "results: page\nmask:\n  patterns:\n    good: ok\n    bad: \"x*\"\n",
		"an unknown policy":   "results:\n\n\n\n  policy: digets\n",
		"an unknown set":      "mask:\n\n\n\n  sets: [defualt]\n",
		"an unknown model":    "summarizers: {}\nresults:\n  policy: summarize\n\n  summarizers: [nobody]\n",
		"a threshold below 1": "results:\n\n\n\n  threshold_tokens: -1\n",
	} {
		stream := openEvents(t, c.Aggregator, "", "")
		if err := os.WriteFile(c.path, []byte(text+"servers: {lib: {builtin: everything}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ev := c.reread(stream)
		if len(ev.Data.Errors) == 0 || ev.Data.Applied || !strings.Contains(ev.raw, c.path+":5:") {
			t.Errorf("%s: the reload says %s, want line 5 of the file", name, ev.raw)
		}
		if s := c.call("digest"); strings.Contains(s.text, "db-pool") || !strings.Contains(s.text, "[masked:part]") {
			t.Errorf("%s: the configuration before is not in force: %.300s", name, s.text)
		}
	}
	if !strings.Contains(aggregatorStatus(t, c.Aggregator, ""), "the one before stays in force") {
		t.Error("status does not warn of it")
	}
}
