package app_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
)

// A clerk is a server that runs its tool as a task, under the ids it is given.
type clerk struct {
	*mcptest.Raw
	server *config.Server

	mu   sync.Mutex
	ids  []string // of the tasks to come
	made []string
}

const (
	legacyTasks = `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	modernTasks = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	related     = `"_meta":{"x":1,"io.modelcontextprotocol/related-task":{"taskId":ID}}`
)

func newClerk(t *testing.T, name string, era mcptest.Era, ids ...string) *clerk {
	t.Helper()
	c := &clerk{ids: ids}
	c.Raw = &mcptest.Raw{Era: era, Capabilities: legacyTasks, PageSize: 2, Stateless: era == mcptest.Modern,
		Tools: []string{`{"name":"work","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`}}
	if era == mcptest.Modern {
		c.Capabilities = modernTasks
	}
	c.Answer = c.answer
	web := httptest.NewServer(c.Raw)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	c.server = config.DefaultServer(name)
	c.server.Type, c.server.URL, c.server.Protocol = config.TypeHTTP, web.URL, era.String()
	return c
}

// answer answers requests about tasks. Where ID stands, the id of the task comes.
func (c *clerk) answer(q *mcptest.Request) *mcptest.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	about := func(text string) *mcptest.Answer {
		return &mcptest.Answer{Result: strings.ReplaceAll(text, "ID", mcptest.Quote(q.Name))}
	}
	switch known := slices.Contains(c.made, q.Name); {
	case q.Method == "tools/call" && len(c.ids) > 0 && (mcptest.Field(q.Params, "task") != nil || q.Era == mcptest.Modern):
		q = &mcptest.Request{Name: c.ids[0], Era: q.Era}
		c.ids, c.made = c.ids[1:], append(c.made, q.Name)
		if q.Era == mcptest.Modern {
			return about(`{"resultType":"task", "taskId":ID,"status":"working","ttlMs":1.50e4,"task":{"taskId":"mine"}}`)
		}
		return about(`{"task": {"status":"working","taskId":ID,"ttl":1.50e4,"y":[null]},"taskId":"mine",` + related + `}`)
	case q.Method == "tasks/list":
		return &mcptest.Answer{Result: c.page(q.Cursor)}
	case !strings.HasPrefix(q.Method, "tasks/"):
		return nil
	case !known:
		return &mcptest.Answer{Error: `{"code":-32602,"message":"never heard of it"}`}
	case q.Method == "tasks/result":
		return about(`{"content":[],"taskId":"mine",` + related + `}`)
	case q.Method == "tasks/update":
		return &mcptest.Answer{Result: `{}`}
	}
	return about(`{ "taskId":ID,"status":"working","ttl":1.50e4,"task":{"taskId":"mine"}}`)
}

// page is two tasks of all clients.
func (c *clerk) page(cursor string) string {
	from := len(cursor)
	out, sep := `{"tasks":[`, ""
	for _, id := range c.made[min(from, len(c.made)):min(from+2, len(c.made))] {
		out += sep + `{"ttl":null, "taskId":` + mcptest.Quote(id) + `,"z":1.0}`
		sep = ","
	}
	if from+2 < len(c.made) {
		return out + `],"nextCursor":"` + strings.Repeat("x", from+2) + `"}`
	}
	return out + `]}`
}

// serveTasks runs an aggregator of these servers and returns its address.
func serveTasks(t *testing.T, servers ...*config.Server) (url string) {
	t.Helper()
	a := newApp(t, configure(servers...))
	ln, err := a.ServeHTTP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return "http://" + ln.Addr().String() + "/mcp"
}

func connect(t *testing.T, url string, era mcptest.Era, opts mcptest.Options) *mcptest.Client {
	t.Helper()
	opts.Own = true
	if opts.Capabilities == "" && era == mcptest.Modern {
		opts.Capabilities = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	}
	c, err := mcptest.ConnectHTTP(t.Context(), url, era, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(t *testing.T, c *mcptest.Client, method, params string) *mcptest.Exchange {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	x, err := c.Call(ctx, method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return x
}

// make1 makes a task and returns what the client calls it.
func make1(t *testing.T, c *mcptest.Client, tool string) string {
	t.Helper()
	x := ask(t, c, "tools/call", `{"name":"`+tool+`","arguments":{},"task":{"ttl":60000}}`)
	result := x.Result
	if c.Era == mcptest.Legacy {
		result = mcptest.Field(result, "task")
	}
	var name string
	if err := json.Unmarshal(mcptest.Field(result, "taskId"), &name); err != nil || !strings.HasPrefix(name, strings.Split(tool, "__")[0]+":") {
		t.Fatalf("made %s%s: %v", x.Raw, x.Body, err)
	}
	return name
}

func taskParams(name string) string { return `{"taskId":` + mcptest.Quote(name) + `}` }

var oddIDs = []string{"plain-1", "a:b:s", "~a", "", " ", `"\`, "naïve ☃\n", "=?base64?aGk=?=", strings.Repeat("x", 1024)}

func TestTasksKeepOneNameAndTheirBytes(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			s := newClerk(t, "srv", era, oddIDs...)
			c := connect(t, serveTasks(t, s.server), era, mcptest.Options{})
			wants := map[string]string{"tasks/get": `{ "taskId":ID,"status":"working","ttl":1.50e4,"task":{"taskId":"mine"}}`}
			wants["tasks/cancel"] = wants["tasks/get"]
			if era == mcptest.Legacy {
				wants["tasks/result"] = `{"content":[],"taskId":ID,` + related + `}`
			} else {
				wants["tasks/get"] = `{"resultType":"complete", "taskId":` + wants["tasks/get"][len(`{ "taskId":`):]
				wants["tasks/cancel"] = wants["tasks/get"]
				wants["tasks/update"] = `{"resultType":"complete"}`
			}
			for i, id := range oddIDs {
				name := make1(t, c, "srv__work")
				if strings.ContainsAny(name, " \"\\\n☃") {
					t.Errorf("%q is called %q", id, name)
				}
				for method, want := range wants {
					x := ask(t, c, method, taskParams(name))
					want = strings.ReplaceAll(want, "ID", mcptest.Quote(name))
					if got := string(x.Result); normal(got) != normal(want) {
						t.Errorf("%s of %q: %s%s, want %s", method, id, got, x.Body, want)
					}
					if got := s.Received(method); len(got) != i+1 || got[i].Name != id {
						t.Errorf("%s of %q reached the server as %q", method, id, got[len(got)-1].Name)
					}
				}
			}
		})
	}
}

// normal puts what is added at the head of modern results in one place.
func normal(result string) string {
	return strings.Replace(strings.ReplaceAll(result, `{"resultType":"complete", `, `{ "resultType":"complete",`), `{ `, `{`, 1)
}

func TestTasksOfOthersAreAsUnknownAsNone(t *testing.T) {
	s := newClerk(t, "srv", mcptest.Legacy, "1", "2")
	url := serveTasks(t, s.server)
	ann, ben := connect(t, url, mcptest.Legacy, mcptest.Options{}), connect(t, url, mcptest.Legacy, mcptest.Options{})
	anns, bens := make1(t, ann, "srv__work"), make1(t, ben, "srv__work")
	if x := ask(t, ann, "tasks/get", taskParams(anns)); x.Result == nil {
		t.Fatalf("%s", x.Raw)
	}
	want := string(ask(t, ben, "tasks/get", taskParams("nothing")).Error)
	if want != `{"code":-32602,"message":"Failed to retrieve task: Task not found"}` {
		t.Errorf("an unknown task is refused with %s", want)
	}
	before := len(s.Requests())
	for _, name := range []string{anns, "1", "srv:1", "srv:1:", "srv:1:s", strings.Replace(bens, "srv:2", "srv:1", 1), strings.Replace(bens, ":s", ":a", 1),
		bens[:len(bens)-1], bens + "A", "other" + bens[3:], ""} {
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			if got := string(ask(t, ben, method, taskParams(name)).Error); got != want {
				t.Errorf("%s %q: %s", method, name, got)
			}
		}
	}
	for _, params := range []string{`{}`, `{"taskId":1}`, `{"taskId":` + mcptest.Quote(bens) + `,"taskId":"1"}`, `{"taskid":"1","taskId":` + mcptest.Quote(bens) + `}`} {
		if x := ask(t, ben, "tasks/get", params); x.Code() != -32602 {
			t.Errorf("%s: %s", params, x.Raw)
		}
	}
	if after := len(s.Requests()); after != before {
		t.Errorf("the server was asked %d times", after-before)
	}
}

func TestListsHoldTheTasksOfTheClient(t *testing.T) {
	a := newClerk(t, "a", mcptest.Legacy, "1", "2", "3", "4", "5", "6", "7")
	b := newClerk(t, "b", mcptest.Legacy, "1", "2", "3")
	url := serveTasks(t, b.server, a.server)
	ann, ben := connect(t, url, mcptest.Legacy, mcptest.Options{}), connect(t, url, mcptest.Legacy, mcptest.Options{})
	if x := ask(t, ann, "tasks/list", `{}`); string(x.Result) != `{"tasks":[]}` || len(a.Received("tasks/list")) != 0 {
		t.Errorf("without tasks: %s", x.Raw)
	}
	own := map[*mcptest.Client][]string{}
	for i := range 7 {
		who := []*mcptest.Client{ann, ben, ben, ben, ben, ann, ann}[i] // the second page of a is ben's alone
		own[who] = append(own[who], make1(t, who, "a__work"))
	}
	for _, who := range []*mcptest.Client{ben, ann, ann} {
		own[who] = append(own[who], make1(t, who, "b__work"))
	}
	var cursors []string
	for _, who := range []*mcptest.Client{ann, ben} {
		var got, want []string
		params := `{}`
		for pages := 0; params != "" && pages < 10; pages++ {
			var list struct {
				Tasks      []json.RawMessage
				NextCursor string
			}
			if err := json.Unmarshal(ask(t, who, "tasks/list", params).Result, &list); err != nil {
				t.Fatal(err)
			}
			for _, task := range list.Tasks {
				got = append(got, string(task))
			}
			if params = ""; list.NextCursor != "" {
				params = `{"cursor":` + mcptest.Quote(list.NextCursor) + `}`
				cursors = append(cursors, list.NextCursor)
			}
		}
		for _, name := range own[who] {
			want = append(want, `{"ttl":null, "taskId":`+mcptest.Quote(name)+`,"z":1.0}`)
		}
		if !slices.Equal(got, want) {
			t.Errorf("listed %q\nwant %q", got, want)
		}
	}
	for _, cursor := range []string{"nothing", cursors[0], cursors[len(cursors)-1][1:], strings.Repeat("A", 100)} { // the first is ann's
		if x := ask(t, ben, "tasks/list", `{"cursor":`+mcptest.Quote(cursor)+`}`); x.Code() != -32602 {
			t.Errorf("cursor %q: %s", cursor, x.Raw)
		}
	}
}

func TestTheStatusOfATaskReachesItsClientOnly(t *testing.T) {
	s := newClerk(t, "srv", mcptest.Legacy, "1", "2", "3")
	url := serveTasks(t, s.server)
	ann, ben := connect(t, url, mcptest.Legacy, mcptest.Options{}), connect(t, url, mcptest.Legacy, mcptest.Options{})
	inboxes := map[string]*mcptest.Inbox{}
	names := map[string]string{}
	for id, c := range map[string]*mcptest.Client{"ann": ann, "ben": ben} {
		inbox, err := c.Listen(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		inboxes[id], names[id] = inbox, make1(t, c, "srv__work")
	}
	// Ben alone has a call in flight: what has no address would be his.
	free := make(chan struct{})
	usual := s.Answer
	s.Change(func(r *mcptest.Raw) {
		r.Answer = func(q *mcptest.Request) *mcptest.Answer {
			if q.Method == "tools/call" {
				return &mcptest.Answer{Hold: free}
			}
			return usual(q)
		}
	})
	ended := make(chan *mcptest.Exchange, 1)
	go func() {
		x, _ := ben.Call(t.Context(), "tools/call", `{"name":"srv__work","arguments":{}}`)
		ended <- x
	}()
	if _, err := s.Await(t.Context(), "tools/call", 3); err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for who, name := range names {
		ids[who] = strings.Split(name, ":")[1]
	}
	for _, id := range []string{"nobody's", ids["ann"], ids["ben"]} {
		for s.Notify("notifications/tasks/status", `{"status":"completed", "taskId":`+mcptest.Quote(id)+`,"ttl":1.0}`) == 0 {
			if _, err := s.Await(t.Context(), "notifications/initialized", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for who, inbox := range inboxes {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		q, err := inbox.Next(ctx)
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		want := `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"status":"completed", "taskId":` + mcptest.Quote(names[who]) + `,"ttl":1.0}}`
		if string(q.Raw) != want {
			t.Errorf("%s heard %s, want %s", who, q.Raw, want)
		}
	}
	close(free)
	if x := await(t, "the end of the call", ended); x == nil || len(x.Before) != 0 {
		t.Errorf("ben's call: %+v", x)
	}
	for who, inbox := range inboxes {
		if all := inbox.All(); len(all) != 1 {
			t.Errorf("%s heard %s", who, all)
		}
	}
}

func TestToolsThatCannotBeTasks(t *testing.T) {
	call := func(tool string) string { return `{"name":"` + tool + `","arguments":{},"task":{}}` }
	plain, modern := newClerk(t, "plain", mcptest.Legacy), newClerk(t, "modern", mcptest.Modern)
	plain.Capabilities = `{"tools":{}}`
	t.Run("beside one that can", func(t *testing.T) {
		url := serveTasks(t, newClerk(t, "srv", mcptest.Legacy).server, plain.server, modern.server)
		c := connect(t, url, mcptest.Legacy, mcptest.Options{})
		for _, tool := range []string{"plain__work", "modern__work"} {
			if x := ask(t, c, "tools/call", call(tool)); x.Code() != -32601 {
				t.Errorf("%s: %s", tool, x.Raw)
			}
		}
		if n := len(plain.Received("tools/call")) + len(modern.Received("tools/call")); n != 0 {
			t.Errorf("%d calls reached the servers", n)
		}
	})
	t.Run("where nothing can", func(t *testing.T) {
		c := connect(t, serveTasks(t, plain.server), mcptest.Legacy, mcptest.Options{})
		if x := ask(t, c, "tools/call", call("plain__work")); string(x.Result) != `{"content":[{"type":"text","text":"{}"}]}` {
			t.Errorf("%s", x.Raw)
		}
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/update"} {
			if x := ask(t, c, method, taskParams("x")); x.Code() != -32601 {
				t.Errorf("%s: %s", method, x.Raw)
			}
		}
	})
	t.Run("a modern client of a legacy server", func(t *testing.T) {
		s := newClerk(t, "srv", mcptest.Legacy, "1")
		c := connect(t, serveTasks(t, s.server, modern.server), mcptest.Modern, mcptest.Options{})
		if x := ask(t, c, "tools/call", call("srv__work")); !strings.Contains(string(x.Result), `"text":"{}"`) || strings.Contains(string(s.Received("tools/call")[0].Params), "task") {
			t.Errorf("%s", x.Raw)
		}
	})
}

func TestModernClientsDeclareTheExtension(t *testing.T) {
	s := newClerk(t, "srv", mcptest.Modern, "1", "2")
	url := serveTasks(t, s.server)
	knows, not := connect(t, url, mcptest.Modern, mcptest.Options{}), connect(t, url, mcptest.Modern, mcptest.Options{Capabilities: `{"elicitation":{}}`})
	name := make1(t, knows, "srv__work")
	const want = `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	for method, params := range map[string]string{
		"tasks/get": taskParams(name), "tasks/update": taskParams(name), "tasks/cancel": taskParams(name),
		"tools/call":           `{"name":"srv__work","arguments":{}}`, // the server should not have made a task
		"subscriptions/listen": `{"notifications":{"taskIds":["` + name + `"]}}`,
	} {
		if x := ask(t, not, method, params); x.Code() != -32021 || string(mcptest.Field(x.Error, "data")) != want {
			t.Errorf("%s: %s%s", method, x.Raw, x.Body)
		}
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		if x := ask(t, knows, method, taskParams(name)); x.Code() != -32601 || x.Status != 404 {
			t.Errorf("%s: %d %s%s", method, x.Status, x.Raw, x.Body)
		}
	}
}

// Two clients wait for their tasks on a channel that says nothing about whose a question
// is, but for the task that it is asked for.
func TestQuestionsOfATaskReachItsClient(t *testing.T) {
	s := newClerk(t, "srv", mcptest.Legacy, "1", "2")
	usual, both := s.Answer, make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Add(2)
	go func() { waiting.Wait(); close(both) }()
	s.Answer = func(q *mcptest.Request) *mcptest.Answer {
		a := usual(q)
		if q.Method != "tasks/result" {
			return a
		}
		a.Aside, a.Asking = true, func(ask mcptest.Ask) string {
			waiting.Done()
			<-both
			r, err := ask("elicitation/create", `{"message":"`+q.Name+`?","requestedSchema":{"type":"object","properties":{}},`+strings.ReplaceAll(related, "ID", mcptest.Quote(q.Name))+`}`)
			if err != nil {
				return ""
			}
			return `{"content":[],"said":` + string(r.Result) + `}`
		}
		return a
	}
	s.server.CallTimeout = 200 * time.Millisecond
	url := serveTasks(t, s.server)
	ended := make(chan error, 2)
	for range 2 {
		asked := make(chan string, 9)
		c := connect(t, url, mcptest.Legacy, mcptest.Options{Capabilities: `{"elicitation":{}}`, OnRequest: func(q *mcptest.Request) string {
			asked <- string(q.Params)
			meta := string(mcptest.Field(q.Params, "_meta"))
			return `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{},"_meta":` + meta + `}}`
		}})
		name := make1(t, c, "srv__work")
		id := strings.Split(name, ":")[1]
		go func() {
			x, err := c.Call(t.Context(), "tasks/result", taskParams(name))
			if err != nil {
				ended <- err
				return
			}
			if got, want := <-asked, strings.ReplaceAll(related, "ID", mcptest.Quote(name)); !strings.Contains(got, want) || !strings.Contains(got, id+"?") {
				t.Errorf("the client of %s was asked %s", name, got)
			}
			if want := strings.ReplaceAll(related, "ID", mcptest.Quote(id)); !strings.Contains(string(x.Result), want) {
				t.Errorf("the server was told %s", x.Raw)
			}
			if x, err = c.Call(t.Context(), "tasks/get", taskParams(name)); err == nil && x.Result == nil {
				t.Errorf("it is not where it was: %s", x.Raw)
			}
			ended <- err
		}()
	}
	for range 2 {
		if err := await(t, "the end of a task", ended); err != nil {
			t.Error(err)
		}
	}
}

// A server that asks without saying for whom is given a connection for each session from
// then on. Tasks stay where they are.
func TestTasksStayOnTheConnectionTheyWereMadeOn(t *testing.T) {
	s := newClerk(t, "srv", mcptest.Legacy, "1", "2")
	usual := s.Answer
	s.Answer = func(q *mcptest.Request) *mcptest.Answer {
		if q.Method != "tools/call" || mcptest.Field(q.Params, "task") != nil {
			return usual(q)
		}
		return &mcptest.Answer{Aside: true, Asking: func(ask mcptest.Ask) string {
			_, _ = ask("elicitation/create", `{"message":"whose?","requestedSchema":{"type":"object","properties":{}}}`)
			return ""
		}}
	}
	url := serveTasks(t, s.server)
	c := connect(t, url, mcptest.Legacy, mcptest.Options{Capabilities: `{"elicitation":{}}`, OnRequest: func(q *mcptest.Request) string {
		return `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"decline"}}`
	}})
	before := make1(t, c, "srv__work")
	ask(t, c, "tools/call", `{"name":"srv__work","arguments":{}}`)
	after := make1(t, c, "srv__work")
	if !strings.Contains(before, ":s") || !strings.Contains(after, ":a") {
		t.Fatalf("made on %s and %s", before, after)
	}
	for _, name := range []string{before, after} {
		if x := ask(t, c, "tasks/get", taskParams(name)); x.Result == nil {
			t.Errorf("%s: %s", name, x.Raw)
		}
	}
	if n := strings.Count(string(ask(t, c, "tasks/list", `{}`).Result), "taskId"); n != 1 { // a page for each connection
		t.Errorf("%d tasks on the first page", n)
	}
}

// call_timeout is for what is called, and not for waiting for a task.
func TestWaitingForATaskTakesItsTime(t *testing.T) {
	s := newClerk(t, "srv", mcptest.Legacy, "1")
	usual := s.Answer
	s.Answer = func(q *mcptest.Request) *mcptest.Answer {
		a := usual(q)
		if a == nil {
			a = &mcptest.Answer{}
		}
		if strings.HasPrefix(q.Method, "tasks/") || q.Method == "tools/call" && len(s.Received("tools/call")) > 1 {
			a.Delay = 400 * time.Millisecond
		}
		return a
	}
	s.server.CallTimeout = 100 * time.Millisecond
	c := connect(t, serveTasks(t, s.server), mcptest.Legacy, mcptest.Options{})
	name := make1(t, c, "srv__work")
	if x := ask(t, c, "tasks/result", taskParams(name)); x.Result == nil {
		t.Errorf("tasks/result: %s", x.Raw)
	}
	if x := ask(t, c, "tasks/get", taskParams(name)); x.Error == nil || !strings.Contains(string(x.Error), "timeout") {
		t.Errorf("tasks/get: %s", x.Raw)
	}
	// Whoever wants a task could not read a result that says why there is none.
	if x := ask(t, c, "tools/call", `{"name":"srv__work","arguments":{},"task":{}}`); x.Error == nil || !strings.Contains(string(x.Error), "timeout") {
		t.Errorf("tools/call: %s", x.Raw)
	}
}
