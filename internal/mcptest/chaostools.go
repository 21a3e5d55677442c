package mcptest

import (
	"bytes"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// chaosTools is everything a chaos server can be asked to do.
var chaosTools = []chaosTool{
	{"echo", readOnly, func(*chaosRun, *Request, chaosArguments) *Answer { return nil }},
	{"who", readOnly, func(*chaosRun, *Request, chaosArguments) *Answer { return &Answer{Result: textResult(who())} }},
	{"slow", readOnly, func(_ *chaosRun, _ *Request, a chaosArguments) *Answer {
		return &Answer{Delay: time.Duration(a.MS) * time.Millisecond}
	}},
	{"hang", writing, func(c *chaosRun, q *Request, a chaosArguments) *Answer {
		c.execute(q, a)
		return &Answer{Silent: true}
	}},
	{"fail", readOnly, func(*chaosRun, *Request, chaosArguments) *Answer {
		return &Answer{Result: `{"content":[{"type":"text","text":"no such row"}],"isError":true}`}
	}},
	{"ail", readOnly, ail}, {"ail2", readOnly, ail},

	// Tools that execute something, which the ledger shows.
	{"write", writing, func(c *chaosRun, q *Request, a chaosArguments) *Answer { c.execute(q, a); return nil }},
	{"die", writing, func(c *chaosRun, _ *Request, _ chaosArguments) *Answer { return c.crash() }},
	{"write_die", writing, dieAfterwards}, {"read_die", readOnly, dieAfterwards}, {"idem_die", idempotent, dieAfterwards},
	{"write_close", writing, func(c *chaosRun, q *Request, a chaosArguments) *Answer {
		c.execute(q, a)
		return &Answer{Close: true}
	}},
	{"limited", writing, limited},

	// Floods.
	{"big", readOnly, func(c *chaosRun, q *Request, a chaosArguments) *Answer {
		if c.deafen == nil {
			return &Answer{Result: textResult(strings.Repeat("x", a.Bytes))}
		}
		return &Answer{Write: func(w io.Writer) error {
			if err := endless(w, q, a.Bytes); err != nil {
				return err
			}
			_, err := io.WriteString(w, `"}]}}`+"\n")
			return err
		}}
	}},
	{"endless", readOnly, func(_ *chaosRun, q *Request, a chaosArguments) *Answer {
		return &Answer{Write: func(w io.Writer) error { return endless(w, q, a.Bytes) }}
	}},
	{"flood", readOnly, func(_ *chaosRun, _ *Request, a chaosArguments) *Answer {
		_ = flood(os.Stderr, a.Bytes)
		return nil
	}},
	{"storm", readOnly, func(c *chaosRun, _ *Request, a chaosArguments) *Answer {
		for i := range a.N {
			if i%1000 == 0 { // else there would be nothing to tell
				c.raw.Change(func(r *Raw) {
					r.Tools = append(r.Tools, `{"name":"storm_`+strconv.Itoa(i)+`","inputSchema":{"type":"object"}}`)
				})
			}
			c.raw.Notify("notifications/tools/list_changed", "")
		}
		return nil
	}},
	{"deaf", readOnly, func(c *chaosRun, _ *Request, _ chaosArguments) *Answer {
		if c.deafen != nil {
			c.deafen()
		}
		return nil
	}},

	// Answers that are none, and messages of the server's own.
	{"odd", readOnly, func(_ *chaosRun, q *Request, a chaosArguments) *Answer { return oddAnswers[a.Kind](q) }},
	{"status", readOnly, func(_ *chaosRun, _ *Request, a chaosArguments) *Answer {
		return &Answer{HTTP: httpAnswers[a.Kind]}
	}},
	{"speak", readOnly, speak},
}

// ail fails as a broken server does, as long as the ledger's servers ail.
func ail(c *chaosRun, q *Request, a chaosArguments) *Answer {
	c.execute(q, a)
	if c.Ledger.ailing() {
		return &Answer{Error: errorObject(-32603, "the disk is full")}
	}
	return nil
}

func dieAfterwards(c *chaosRun, q *Request, a chaosArguments) *Answer {
	c.execute(q, a)
	return c.crash()
}

// limited refuses every other call before it executes anything.
func limited(c *chaosRun, q *Request, a chaosArguments) *Answer {
	if c.Ledger.Count("refused")%2 == 0 && c.Ledger.Count("exec limited "+a.Key) == 0 {
		c.Ledger.Add("refused")
		return &Answer{HTTP: httpAnswers["429"]}
	}
	c.execute(q, a)
	return nil
}

var httpAnswers = map[string]*HTTPAnswer{
	"500":  {Status: 500, Body: "database is on fire"},
	"429":  {Status: 429, Header: map[string]string{"Retry-After": "1"}, Body: "slow down"},
	"401":  Unauthorized,
	"html": HTML,
	"junk": Garbage,
}

// HTTPAnswers lists the kinds the tool status knows.
func HTTPAnswers() []string { return slices.Sorted(maps.Keys(httpAnswers)) }

// flood writes so many bytes of lines.
func flood(w io.Writer, n int) error {
	chunk := bytes.Repeat([]byte(strings.Repeat("e", 99)+"\n"), 1<<10)
	for ; n > 0; n -= len(chunk) {
		if _, err := w.Write(chunk[:min(n, len(chunk))]); err != nil {
			return err
		}
	}
	return nil
}

// endless begins an answer, writes so many bytes of it and never ends it.
func endless(w io.Writer, q *Request, n int) error {
	if _, err := io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(q.ID)+`,"result":{"resultType":"complete","content":[{"type":"text","text":"`); err != nil {
		return err
	}
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for ; n > 0; n -= len(chunk) {
		if _, err := w.Write(chunk[:min(n, len(chunk))]); err != nil {
			return err
		}
	}
	return nil
}

// speak sends a log message, progress, a question to the model and one to the user
// before its answer.
func speak(_ *chaosRun, q *Request, a chaosArguments) *Answer {
	before := []string{`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":` + Quote("log of "+a.Key) + `}}`}
	if q.Token != nil {
		before = append(before, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+string(q.Token)+
			`,"progress":1,"message":`+Quote("progress of "+a.Key)+`}}`)
	}
	if q.Era == Legacy {
		before = append(before,
			`{"jsonrpc":"2.0","id":"ask-`+a.Key+`","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":`+
				Quote("question of "+a.Key)+`}}]}}`,
			`{"jsonrpc":"2.0","id":"elicit-`+a.Key+`","method":"elicitation/create","params":{"message":`+Quote("form of "+a.Key)+
				`,"requestedSchema":{"type":"object","properties":{}}}}`)
	}
	return &Answer{Before: before, Delay: 200 * time.Millisecond}
}

// oddAnswers are answers a reader has to be wary of: what a call of the tool odd
// with this kind brings.
var oddAnswers = map[string]func(*Request) *Answer{
	"duplicate":      func(*Request) *Answer { return &Answer{Twice: true} },
	"wrong id":       func(*Request) *Answer { return &Answer{ID: "987654321"} },
	"string id":      func(q *Request) *Answer { return &Answer{ID: `"` + strings.Trim(string(q.ID), `"`) + `"`} },
	"null id":        func(*Request) *Answer { return &Answer{ID: "null"} },
	"bad UTF-8":      whole(`"result":{"content":[{"type":"text","text":"` + "\xff\xfe\xc3(" + `"}]}`),
	"neither":        whole(`"x":1`),
	"both":           whole(`"result":{},"error":{"code":1,"message":"m"}`),
	"result as text": whole(`"result":"fine"`),
	"error as text":  whole(`"error":"bad"`),
	"nesting 100":    nesting(100),
	"nesting 1,100":  nesting(1100),
	"nesting 20,000": nesting(20000),
	"two results":    whole(`"result":{"content":[]},"result":{"content":[]}`),
	"half":           func(q *Request) *Answer { return &Answer{Whole: `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"resu`} },
	"another version": func(q *Request) *Answer {
		return &Answer{Whole: `{"jsonrpc":"1.0","id":` + string(q.ID) + `,"result":{"content":[]}}`}
	},
}

// OddAnswers lists the kinds the tool odd knows.
func OddAnswers() []string { return slices.Sorted(maps.Keys(oddAnswers)) }

func whole(rest string) func(*Request) *Answer {
	return func(q *Request) *Answer {
		return &Answer{Whole: `{"jsonrpc":"2.0","id":` + string(q.ID) + `,` + rest + `}`}
	}
}

func nesting(n int) func(*Request) *Answer {
	return func(*Request) *Answer {
		return &Answer{Result: `{"content":[{"type":"text","text":"depth ` + strconv.Itoa(n) + `"}],"structuredContent":{"a":` +
			strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`}
	}
}
