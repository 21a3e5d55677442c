package bridge_test

import (
	"bytes"
	"strings"
	"testing"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/wire"
)

func nameOf(t testing.TB, s *bridge.Seal, owner string, task bridge.Task) string {
	t.Helper()
	name, err := s.NameTask(owner, task)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNamesOfTasksLastAsLongAsTheKey(t *testing.T) {
	key := bytes.Repeat([]byte{9}, bridge.KeySize)
	s := newSeal(t, key)
	for _, id := range []string{"", "x", "a:b:s", "~", "naïve\n\"", strings.Repeat("ü", 512)} {
		for _, alone := range []bool{false, true} {
			task := bridge.Task{Server: "db", ID: id, Alone: alone}
			name := nameOf(t, s, "ann", task)
			if again := nameOf(t, newSeal(t, key), "ann", task); again != name {
				t.Errorf("%q is called %s and %s", id, name, again)
			}
			if got, ok := newSeal(t, key).ReadTask("ann", name); !ok || got != task {
				t.Errorf("%s is read as %+v %v, want %+v", name, got, ok, task)
			}
			for who, seal := range map[string]*bridge.Seal{"ben": s, "": s, "ann": newSeal(t, nil)} {
				if _, ok := seal.ReadTask(who, name); ok {
					t.Errorf("%s is good for %q under another key: %v", name, who, seal != s)
				}
			}
		}
	}
	if _, err := s.NameTask("ann", bridge.Task{Server: "db", ID: strings.Repeat("x", 1025)}); err == nil {
		t.Error("an endless id has a name")
	}
}

func FuzzForgedNamesOfTasks(f *testing.F) {
	s := newSeal(f, bytes.Repeat([]byte{9}, bridge.KeySize))
	task := bridge.Task{Server: "db", ID: "1"}
	good := nameOf(f, s, "ann", task)
	cursor, _ := s.PlaceTask("ann", bridge.TaskPlace{Server: "db", Cursor: "c"})
	for _, text := range []string{good, cursor, "", ":", "::", "db:1:s", strings.Replace(good, "db", "d:b", 1), strings.Replace(good, ":1:", ":~MQ:", 1)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := s.ReadTask("ann", text); ok && (text != good || got != task) {
			t.Errorf("%q is %+v", text, got)
		}
		if got, ok := s.ReadPlace("ann", text); ok && text != cursor {
			t.Errorf("%q is %+v", text, got)
		}
	})
}

func TestCursorsBelongToTheirOwner(t *testing.T) {
	s := newSeal(t, nil)
	for _, p := range []bridge.TaskPlace{{Server: "db"}, {Server: "a.b-c", Alone: true, Cursor: "x:y"}} {
		cursor, ok := s.PlaceTask("ann", p)
		if got, good := s.ReadPlace("ann", cursor); !ok || !good || got != p {
			t.Errorf("%+v became %+v %v", p, got, good)
		}
		if _, good := s.ReadPlace("ben", cursor); good {
			t.Error("a cursor of somebody else's is good")
		}
	}
	if _, ok := s.PlaceTask("ann", bridge.TaskPlace{Server: "db", Cursor: strings.Repeat("x", 5000)}); ok {
		t.Error("an endless cursor is kept")
	}
}

func TestTasksInResults(t *testing.T) {
	for _, tt := range []struct {
		era          wire.Era
		result, want string // the id, "" for none, "!" for an error
	}{
		{wire.Legacy, `{"task":{"taskId":"a"}}`, `"a"`},
		{wire.Legacy, `{"content":[]}`, ""},
		{wire.Legacy, `{"taskId":"a"}`, ""},
		{wire.Legacy, `{"task":7}`, ""},
		{wire.Legacy, `{"task":{"id":"a"}}`, ""},
		{wire.Legacy, `{"task":{"taskId":7}}`, ""},
		{wire.Legacy, `{"task":{"taskId":"a","taskId":"b"}}`, "!"},
		{wire.Modern, `{"taskId":"a","resultType":"task"}`, `"a"`},
		{wire.Modern, `{"task":{"taskId":"a"},"resultType":"task"}`, "!"},
		{wire.Modern, `{"taskId":"a","taskID":"b"}`, "!"},
	} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":` + tt.result + `}`))
		if err != nil {
			t.Fatal(err)
		}
		at, err := bridge.CreatedTask(tt.era, &m.Body)
		got := string(at.Of(m.Body.Raw))
		if err != nil {
			got = "!"
		}
		if got != tt.want {
			t.Errorf("%s %s: %s (%v), want %s", tt.era, tt.result, got, err, tt.want)
		}
	}
}
