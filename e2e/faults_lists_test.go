//go:build e2e && linux

package e2e_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func TestAStormOfListChangesIsCalmed(t *testing.T) {
	config, raw := harness.ChaosHTTP(t, mcptest.Chaos{})
	for name, beta := range map[string]harness.Config{"stdio": harness.Chaos(t, mcptest.Chaos{}), "HTTP": config} {
		t.Run(name, func(t *testing.T) {
			r := betaBeside(t, beta)
			inbox, err := r.client.Listen(harness.Context(t, time.Minute), `{"toolsListChanged":true}`)
			if err != nil {
				t.Fatal(err)
			}
			load := r.loadAlpha(t)
			before := r.Usage(t)
			lists := len(raw.Received("tools/list"))
			if name == "HTTP" {
				harness.Eventually(t, 5*time.Second, "the aggregator listens", func() bool { return raw.Streams() > 0 })
			}
			if o := r.call(t, "beta__storm", `{"n":20000}`); o.ok() != nil {
				t.Error(o)
			}
			pause(t, 3*time.Second)
			used := r.Usage(t).CPU - before.CPU
			relists := len(raw.Received("tools/list")) - lists
			told := 0
			for _, m := range inbox.All() {
				if strings.Contains(string(m), "list_changed") {
					told++
				}
			}
			t.Logf("%s of CPU, %d lists, client told %d times", used, relists, told)
			if used > 5*time.Second || relists > 20 || told > 20 {
				t.Errorf("%s of CPU, want at most 5s; %d lists, want at most 20; client told %d times", used, relists, told)
			}
			if told == 0 || !hasTool(t, r.client, "beta__storm_19000") {
				t.Errorf("the last change is not listed; client told %d times", told)
			}
			unhurt(t, load, 200*time.Millisecond)
		})
	}
}

func TestTenThousandToolsFitInMemory(t *testing.T) {
	r := beside(t, nil)
	before := r.Usage(t)
	r = beside(t, map[string]harness.Config{"beta": harness.Chaos(t, mcptest.Chaos{Extra: 10000})})
	began := time.Now()
	awaitTool(t, r.client, "beta__extra_09999", 10*time.Second)
	t.Logf("listed after %s", time.Since(began))
	r.memoryAtMost(t, before, 150)
}

func TestEndlessPaginationIsRejected(t *testing.T) {
	t.Parallel()
	ledger := harness.Ledger(t)
	r := beside(t, map[string]harness.Config{"beta": harness.Chaos(t, mcptest.Chaos{Ledger: ledger, Endless: true})})
	load := r.loadAlpha(t)
	harness.Eventually(t, 10*time.Second, "the log says that the list has no end", func() bool {
		line := complaintAbout(r.Log(), "beta")
		return strings.Contains(line, "page")
	})
	pause(t, time.Second)
	if n := ledger.Count("page"); n >= 2000 {
		t.Errorf("%d pages were read, want less than 2,000", n)
	} else {
		t.Logf("%d pages; %s", n, complaintAbout(r.Log(), "beta"))
	}
	if degraded := r.status(t, "beta").Degraded; !strings.Contains(strings.Join(degraded, " "), "page") {
		t.Errorf("the status says %q, want that the list has no end", degraded)
	}
	unhurt(t, load, 200*time.Millisecond)
}

// badDefinitions are tools that cannot be listed.
var badDefinitions = []string{
	`{"inputSchema":{"type":"object"}}`,
	`{"name":"","inputSchema":{"type":"object"}}`,
	`{"name":7,"inputSchema":{"type":"object"}}`,
	`{"name":null,"inputSchema":{"type":"object"}}`,
	`{"name":"bad_none"}`,
	`{"name":"bad_null","inputSchema":null}`,
	`{"name":"bad_array","inputSchema":[]}`,
	`{"name":"bad_text","inputSchema":"object"}`,
	`{"name":"bad_type","inputSchema":{"type":"array"}}`,
	`{"name":"bad_kind","inputSchema":{"type":"object","properties":{"a":{"type":"elephant"}}}}`,
	`{"name":"bad_props","inputSchema":{"type":"object","properties":[]}}`,
	`{"name":"bad_required","inputSchema":{"type":"object","required":"a"}}`,
	`{"name":"bad_ref","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/nope"}}}}`,
	`"a string"`,
	`42`,
}

func TestInvalidDefinitionsCostOnlyThemselves(t *testing.T) {
	t.Parallel()
	chaos := mcptest.Chaos{Definitions: badDefinitions}
	usual := len(mcptest.Chaos{}.Raw().Tools)
	chaos.Extra = 35 - usual
	config := harness.Servers(map[string]harness.Config{"beta": harness.Chaos(t, chaos)})
	r := &rig{Aggregator: harness.Serve(t, config)}
	awaitTools(t, r.Connect(t, mcptest.Modern), 35)
	rejected := 0
	for _, p := range r.status(t, "beta").Problems {
		if p.Severity == "rejected" && p.Reason != "" {
			rejected++
		}
	}
	if rejected != len(badDefinitions) {
		t.Errorf("the status shows %d rejected definitions with a reason, want %d", rejected, len(badDefinitions))
	}

	cmd := exec.Command(harness.Binary(t), "validate", "--connect", "--config", config.Write(t))
	var out harness.Log
	cmd.Stdout = &out
	p := harness.Start(t, cmd)
	if _, err := p.Wait(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	said := out.String() + p.Log()
	for _, name := range []string{"bad_none", "bad_null", "bad_array", "bad_text", "bad_type", "bad_kind", "bad_props", "bad_required", "bad_ref"} {
		if !strings.Contains(said, name) {
			t.Errorf("nothing is said of %s:\n%s", name, clip(said))
		}
	}
	if n := strings.Count(said, "beta"); n < 15 {
		t.Errorf("%d complaints, want one for each of 15:\n%s", n, said)
	}
}
