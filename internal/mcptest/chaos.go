package mcptest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Chaos is a server that works, and misbehaves on request: from its start on as its
// fields say, and in a call as its tools do (see chaosTools). The zero value is a
// well-behaved server of both eras with these tools.
//
// As a child it is described by its environment, see [Chaos.Env]; as an HTTP server
// it is the handler that Raw returns.
type Chaos struct {
	Era    Era
	Ledger Ledger // notes "start", "exec TOOL KEY" and "page"

	// From its start on, only for children.
	CrashAtStart bool          // exits with code 3 before it reads anything
	StderrFirst  int           // bytes on standard error before it reads anything
	Stubborn     bool          // stays when its input ends, and on SIGTERM and SIGINT
	Descendants  bool          // starts two processes that are as stubborn, one in a session of its own
	StartAfter   time.Duration // reads nothing before
	Junk         bool          // other text on standard output, at first and before every answer

	Mute []string // methods that are never answered

	// Its lists.
	Definitions []string // more tools
	Extra       int      // so many more tools, called extra_00000 and so on
	PageSize    int
	Endless     bool // tools/list: every page has a next one

	// Only over HTTP.
	ForgetEvery int         // all sessions are forgotten after so many calls
	Always      *HTTPAnswer // the answer to everything

	deafen func() // stops reading; set for children
}

// The children that every binary with Children can become.
const (
	chaosChild      = "chaos"
	descendantChild = "chaos descendant"
)

// chaosEnv names the variable that holds the settings of a child.
const chaosEnv = "MCPTEST_CHAOS"

// chaosTool is one tool of a chaos server. Its annotations say what is true of it.
type chaosTool struct {
	name, notes string
	run         func(c *chaosRun, q *Request, a chaosArguments) *Answer
}

// chaosArguments are what the tools understand; each takes what it needs.
type chaosArguments struct {
	MS    int    // slow: how long
	Bytes int    // big, endless, flood: how much
	N     int    // storm: how many
	Kind  string // odd: see oddAnswers; status: what an HTTPAnswer is called
	Key   string // what a tool that executes something writes into the ledger
}

const (
	readOnly   = `{"readOnlyHint":true}`
	idempotent = `{"readOnlyHint":false,"idempotentHint":true}`
	writing    = `{"readOnlyHint":false}`
)

// chaosRun is one chaos server at work.
type chaosRun struct {
	Chaos
	raw   *Raw
	calls atomic.Int64
}

// Raw makes the server.
func (c Chaos) Raw() *Raw {
	run := &chaosRun{Chaos: c}
	run.raw = &Raw{Era: c.Era, PageSize: c.PageSize, AdmitFirst: c.Always == nil, Unrecorded: c.deafen != nil}
	for _, t := range chaosTools {
		run.raw.Tools = append(run.raw.Tools,
			`{"name":"`+t.name+`","inputSchema":{"type":"object"},"annotations":`+t.notes+`}`)
	}
	run.raw.Tools = append(run.raw.Tools, c.Definitions...)
	for i := range c.Extra {
		run.raw.Tools = append(run.raw.Tools, fmt.Sprintf(
			`{"name":"extra_%05d","description":"Number %d.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`, i, i))
	}
	run.raw.Answer = run.answer
	return run.raw
}

// Env is the environment of a child that is this server.
func (c Chaos) Env() (map[string]string, error) {
	settings, err := json.Marshal(c)
	return map[string]string{childEnv: chaosChild, chaosEnv: string(settings)}, err
}

func (c *chaosRun) answer(q *Request) *Answer {
	switch {
	case c.Always != nil:
		return &Answer{HTTP: c.Always}
	case slices.Contains(c.Mute, q.Method):
		return &Answer{Silent: true}
	case q.Method == "tools/list" && c.Endless:
		return c.endlessPage(q)
	}
	var a *Answer
	if q.Method == "tools/call" {
		if n := c.calls.Add(1); c.ForgetEvery > 0 && n%int64(c.ForgetEvery) == 0 {
			c.raw.ForgetSessions()
		}
		a = c.call(q)
	}
	if c.Junk {
		if a == nil {
			a = &Answer{}
		}
		a.Before = append([]string{"handling " + q.Method, `{"level":"debug"}`, "[1,2]", "7", "", "null"}, a.Before...)
	}
	return a
}

func (c *chaosRun) call(q *Request) *Answer {
	for _, t := range chaosTools {
		if t.name == q.Name {
			var a chaosArguments
			_ = json.Unmarshal(Field(q.Params, "arguments"), &a)
			return t.run(c, q, a)
		}
	}
	return nil
}

// endlessPage is a page that has one more tool and a next page.
func (c *chaosRun) endlessPage(q *Request) *Answer {
	c.Ledger.Add("page")
	n, _ := strconv.Atoi(q.Cursor)
	return &Answer{Result: fmt.Sprintf(`{"tools":[{"name":"page_%d","inputSchema":{"type":"object"}}],"nextCursor":"%d"}`, n, n+1)}
}

// execute notes that a tool was executed.
func (c *chaosRun) execute(q *Request, a chaosArguments) {
	c.Ledger.Add(strings.TrimSpace("exec " + q.Name + " " + a.Key))
}

// crash dies in the middle of a call: a child at once and without a word, a server
// inside a test by resetting the connection.
func (c *chaosRun) crash() *Answer {
	if c.deafen != nil {
		killSelf()
	}
	return &Answer{Reset: true}
}

// textResult is a result of one text.
func textResult(s string) string {
	return `{"content":[{"type":"text","text":` + Quote(s) + `}]}`
}

// who names the process that answers.
func who() string { return "pid " + strconv.Itoa(os.Getpid()) }
