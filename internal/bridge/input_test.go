package bridge_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/wire"
)

func TestWhatAClientMustHaveDeclaredToBeAsked(t *testing.T) {
	for _, c := range []struct {
		name, caps, method, params string
		want                       string // what it lacks, "" for nothing
		code                       int    // for the server
	}{
		{"sampling", `{"sampling":{}}`, bridge.Sampling, `{"messages":[]}`, "", 0},
		{"sampling of nobody", `{}`, bridge.Sampling, `{"messages":[]}`, "sampling", -32600},
		{"no capabilities at all", ``, bridge.Roots, ``, "roots", -32601},
		{"sampling with tools", `{"sampling":{}}`, bridge.Sampling, `{"tools":[]}`, "sampling.tools", -32602},
		{"sampling with a choice of tools", `{"sampling":{"tools":{}}}`, bridge.Sampling, `{"toolChoice":{}}`, "", 0},
		{"a form", `{"elicitation":{}}`, bridge.Elicitation, `{"message":"?"}`, "", 0},
		{"a form that says so", `{"elicitation":{"form":{},"url":{}}}`, bridge.Elicitation, `{"mode":"form"}`, "", 0},
		{"a form for a client of addresses", `{"elicitation":{"url":{}}}`, bridge.Elicitation, `{"mode":"form"}`, "elicitation.form", -32602},
		{"an address for a client of forms", `{"elicitation":{}}`, bridge.Elicitation, `{"mode":"url"}`, "elicitation.url", -32602},
		{"an address", `{"elicitation":{"url":{}}}`, bridge.Elicitation, `{"mode":"\u0075rl"}`, "", 0},
		{"elicitation of nobody", `{"sampling":{}}`, bridge.Elicitation, `{"mode":"url"}`, "elicitation.url", -32600},
		{"roots", `{"roots":{"listChanged":true}}`, bridge.Roots, ``, "", 0},
		{"roots that are no object", `{"roots":true}`, bridge.Roots, ``, "roots", -32601},
		{"what nobody declares", `{}`, "vendor/ask", ``, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			lack := bridge.Lacking([]byte(c.caps), c.method, []byte(c.params))
			if (lack == nil) != (c.want == "") {
				t.Fatalf("lacks %+v", lack)
			}
			if lack != nil && (lack.Name() != c.want || lack.Refusal().Code != c.code || wire.Valid(lack.Error().Data) != nil) {
				t.Errorf("lacks %s, refused with %v, answered with %s", lack.Name(), lack.Refusal(), lack.Error().Data)
			}
		})
	}
	for caps, want := range map[string]bool{``: false, `{}`: false, `{"tasks":{}}`: false, `{"roots":{}}`: true, `{"experimental":{"sampling":{}}}`: false, `{"elicitation":{}}`: true} {
		if bridge.Askable([]byte(caps)) != want {
			t.Errorf("Askable(%s) = %v", caps, !want)
		}
	}
}

func TestResultsThatAskAreRead(t *testing.T) {
	got, err := bridge.ReadAsking(object(t, `{"resultType":"input_required","inputRequests":{"n\u0061me":{"method":"elicitation/create","params":{"message": "?"}},"r":{"params":{},"method":"roots/list"},"b":{"method":"roots/list"}},"requestState":"s\u0031"}`))
	want := bridge.Asking{State: []byte(`"s\u0031"`), Inputs: []bridge.Input{
		{Key: "name", Method: bridge.Elicitation, Params: []byte(`{"message": "?"}`)}, {Key: "r", Method: bridge.Roots, Params: []byte(`{}`)}, {Key: "b", Method: bridge.Roots},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, bad := range []string{
		`{"resultType":"input_required"}`,
		`{"inputRequests":{}}`,
		`{"inputRequests":{"a":1}}`,
		`{"inputRequests":{"a":{"params":{}}}}`,
		`{"inputRequests":{"a":{"method":"tools/call"}}}`,
		`{"inputRequests":{"a":{"method":"roots/list","params":[1]}}}`,
		`{"inputRequests":{"a":{"method":"roots/list","method":"sampling/createMessage"}}}`,
		`{"requestState":1}`,
		`{"requestState":"a","requestState":"b"}`,
	} {
		if got, err := bridge.ReadAsking(object(t, bad)); err == nil {
			t.Errorf("%s was read as %+v", bad, got)
		}
	}
}

func TestQuestionsForAModernClientAreSplicedTogether(t *testing.T) {
	got := string(bridge.AppendAsking(nil, []bridge.Input{{Key: "1", Method: bridge.Sampling, Params: []byte(`{ "maxTokens":1e2 }`)}, {Key: `a"b`, Method: bridge.Roots}}, "S-_"))
	want := `{"resultType":"input_required","inputRequests":{"1":{"method":"sampling/createMessage","params":{ "maxTokens":1e2 }},"a\"b":{"method":"roots/list","params":{}}},"requestState":"S-_"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	result := object(t, `{"resultType":"input_required","requestState" : "theirs","x":1}`)
	v := bridge.ReplaceState(self.ResultEdits("tools/call", wire.Modern, wire.Modern, result), result, "ours")
	if want := `{"resultType":"input_required","requestState" : "ours","x":1}`; string(v.Bytes()) != want {
		t.Errorf("got  %s\nwant %s", v.Bytes(), want)
	}
}

func TestRetriesAreRead(t *testing.T) {
	state, responses, err := bridge.ReadRetry(object(t, `{"name":"x","inputResponses":{"\u0031":{"action": "accept"},"2":{}},"requestState":"s"}`))
	want := []bridge.Response{{Key: "1", Result: []byte(`{"action": "accept"}`)}, {Key: "2", Result: []byte(`{}`)}}
	if diff := cmp.Diff(want, responses); diff != "" || state != "s" || err != nil {
		t.Error(state, err, diff)
	}
	if !responses[0].Accepted() || responses[1].Accepted() {
		t.Error("what was accepted is not clear")
	}
	for _, bad := range []string{
		`{"requestState":1}`, `{"requestState":"a","requestState":"b"}`, `{"requeststate":"a"}`,
		`{"inputResponses":[]}`, `{"inputResponses":{"1":1}}`, `{"inputResponses":{"1":{},"\u0031":{}}}`,
	} {
		if state, responses, err := bridge.ReadRetry(object(t, bad)); err == nil {
			t.Errorf("%s was read as %q %v", bad, state, responses)
		}
	}
}

func TestTheParamsOfARetry(t *testing.T) {
	params := object(t, `{"requestState":"old","name":"x","inputResponses":{"9":{}},"n":1.0}`)
	clean := wire.Value{Raw: params.Raw}.With(bridge.WithoutRounds(params)...)
	for _, c := range []struct {
		name string
		got  wire.Value
		want string
	}{
		{"without what belongs to rounds", clean, `{"name":"x","n":1.0}`},
		{"with answers and a state", bridge.Retry(clean, []byte(`"s\u0031"`), []bridge.Response{{Key: `"`, Result: []byte(`{"a": 1}`)}, {Key: "2", Result: []byte(`{}`)}}),
			`{"inputResponses":{"\"":{"a": 1},"2":{}},"requestState":"s\u0031","name":"x","n":1.0}`},
		{"with a state alone", bridge.Retry(clean, []byte(`"s"`), nil), `{"requestState":"s","name":"x","n":1.0}`},
		{"with nothing", bridge.Retry(clean, nil, nil), `{"name":"x","n":1.0}`},
		{"with the server's state", wire.Value{Raw: params.Raw}.With(bridge.WithState(params, []byte(`"theirs"`))...), `{"requestState":"theirs","name":"x","inputResponses":{"9":{}},"n":1.0}`},
		{"of a server that has no state", wire.Value{Raw: params.Raw}.With(bridge.WithState(params, nil)...), `{"name":"x","inputResponses":{"9":{}},"n":1.0}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if string(c.got.Bytes()) != c.want {
				t.Errorf("got  %s\nwant %s", c.got.Bytes(), c.want)
			}
		})
	}
}

func TestQuestionsCrossTheEras(t *testing.T) {
	const theirs = `"io.modelcontextprotocol/serverInfo":{}`
	for _, c := range []struct {
		name             string
		client, upstream wire.Era
		method           string
		params, want     string
	}{
		{"nothing to say", wire.Modern, wire.Legacy, bridge.Roots, ``, ``},
		{"as it came", wire.Legacy, wire.Legacy, bridge.Sampling, `{"maxTokens" : 1e2, "messages":[]}`, `{"maxTokens" : 1e2, "messages":[]}`},
		{"tasks and tokens end here", wire.Legacy, wire.Legacy, bridge.Sampling, `{"task":{"ttl":1},"_meta":{"progressToken":1,"k":2},"maxTokens":1}`, `{"_meta":{"k":2},"maxTokens":1}`},
		{"an empty _meta goes", wire.Modern, wire.Legacy, bridge.Roots, `{"_meta":{"progressToken":1}}`, `{}`},
		{"an empty _meta that came empty stays", wire.Modern, wire.Legacy, bridge.Roots, `{"_meta":{}}`, `{"_meta":{}}`},
		{"reserved keys go", wire.Legacy, wire.Modern, bridge.Roots, `{"_meta":{` + theirs + `,"k":1}}`, `{"_meta":{"k":1}}`},
		{"modern clients know no id of an elicitation", wire.Modern, wire.Legacy, bridge.Elicitation, `{"mode":"url","elicitationId":"e","url":"u"}`, `{"mode":"url","url":"u"}`},
		{"a form may have a member of that name", wire.Modern, wire.Legacy, bridge.Elicitation, `{"elicitationId":"e"}`, `{"elicitationId":"e"}`},
		{"legacy clients need one", wire.Legacy, wire.Modern, bridge.Elicitation, `{"task":1,"mode":"url","url":"u"}`, `{"elicitationId":"ID","mode":"url","url":"u"}`},
		{"between legacy peers it stays", wire.Legacy, wire.Legacy, bridge.Elicitation, `{"mode":"url","elicitationId":"e"}`, `{"mode":"url","elicitationId":"e"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(bridge.AskParams(c.client, c.upstream, c.method, []byte(c.params)))
			got = regexp.MustCompile(`"elicitationId":"[A-Z2-7]{26}"`).ReplaceAllString(got, `"elicitationId":"ID"`)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestARefusalUntilAnAddressIsVisitedBecomesAQuestion(t *testing.T) {
	e := &wire.RPCError{Code: -32042, Data: []byte(`{"elicitations":[{"mode":"url","elicitationId":"e","url":"u","message":"m"},{"mode":"url","url":"v"}]}`)}
	got, ok := bridge.ReadURLRequired(e)
	want := []bridge.Input{{Key: "1", Method: bridge.Elicitation, Params: []byte(`{"mode":"url","url":"u","message":"m"}`)}, {Key: "2", Method: bridge.Elicitation, Params: []byte(`{"mode":"url","url":"v"}`)}}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Error(ok, diff)
	}
	for _, bad := range []string{``, `{}`, `{"elicitations":[]}`, `{"elicitations":[1]}`, `{"elicitations":[{"mode":"form"}]}`} {
		if got, ok := bridge.ReadURLRequired(&wire.RPCError{Code: -32042, Data: []byte(bad)}); ok {
			t.Errorf("%s was read as %+v", bad, got)
		}
	}
	if _, ok := bridge.ReadURLRequired(&wire.RPCError{Code: -32602, Data: e.Data}); ok {
		t.Error("another error was taken for one")
	}
}
