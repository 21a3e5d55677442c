package catalog_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

func TestKeptListsSurviveJSONByteByByte(t *testing.T) {
	odd := `{ "z":1.0, "name" : "n", "inputSchema":{"type":"object","x":9007199254740993 }, "u":"\u00e9<&>" }`
	k := &catalog.Kept{
		Tools: [][]byte{[]byte(odd)}, Prompts: [][]byte{[]byte(`{"name":"p"}`)},
		Capabilities: []byte(`{ "tools":{}}`), ServerInfo: []byte(`{"name":"<s>"}`),
		Instructions: "be <kind>", Version: "2025-11-25", Public: true, Asks: true,
	}
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	var back catalog.Kept
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(k, &back); diff != "" || !back.Same(k) {
		t.Errorf("what came back (-want +got):\n%s", diff)
	}
	l := catalog.NewListing(back.Input(config.DefaultServer("beta"), config.Limits{}))
	if len(l.Tools) != 1 || string(l.Tools[0].Def) != odd || !l.Stale || !l.Public {
		t.Errorf("the listing is %+v", l)
	}
}

func TestDamagedDefinitionsAreLeftOut(t *testing.T) {
	k := &catalog.Kept{
		Tools:        [][]byte{[]byte(`{"name":"a","inputSchema":{"type":"object"}}`), []byte(`{"name":"b","inp`), nil},
		Capabilities: []byte(`{"tools"`), ServerInfo: []byte(`[1]`),
	}
	in := k.Input(config.DefaultServer("beta"), config.Limits{})
	if len(in.Tools) != 1 || in.Capabilities != nil || in.ServerInfo != nil {
		t.Errorf("the input is %+v", in)
	}
	if len(k.Tools) != 3 {
		t.Error("what was kept has been modified")
	}
}

func TestKeptListsAreCompared(t *testing.T) {
	a := &catalog.Kept{Tools: [][]byte{[]byte(`{"name":"a"}`)}}
	b := &catalog.Kept{Tools: [][]byte{[]byte(`{"name":"b"}`)}}
	var none *catalog.Kept
	asks := *a
	asks.Asks = true
	if a.Same(&asks) {
		t.Error("a server that asks is the same as one that does not")
	}
	if !a.Same(a) || a.Same(b) || a.Same(nil) || none.Same(a) || !none.Same(nil) {
		t.Error("wrong")
	}
}
