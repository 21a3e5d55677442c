package downstream_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/catalog"
)

// firstQuestions are what clients of each era begin with.
var firstQuestions = map[string]string{
	"initialize": initialize,
	"discover":   `{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{` + meta + `}}`,
}

// listOf asks for a list in the era of a first question.
func listOf(question, method string) string {
	params := ""
	if question == "discover" {
		params = meta
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
}

func TestASilentServerDoesNotDelayTheIntroduction(t *testing.T) {
	for name, question := range firstQuestions {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newStarting(t)
				defer b.shut(t)
				p := b.servePipe(t)
				defer p.stop()
				began := time.Now()
				got := p.ask(question)
				if took := time.Since(began); took > 300*time.Millisecond {
					t.Errorf("answered after %v", took)
				}
				for _, want := range []string{`"tools":{"listChanged":true}`, `"prompts":{"listChanged":true}`, `"resources":{"subscribe":true,"listChanged":true}`} {
					if !strings.Contains(got, want) {
						t.Errorf("%s does not declare %s", got, want)
					}
				}
				answered := make(chan string, 1)
				go func() { answered <- p.ask(listOf(name, "tools/list")) }()
				time.Sleep(time.Second)
				select {
				case got := <-answered:
					t.Fatalf("the list did not wait: %s", got)
				default:
				}
				b.rt.Publish(b.generation(tools("a")))
				b.rt.MarkReady()
				if got := <-answered; !strings.Contains(got, "lab__a") {
					t.Errorf("the first list is %s", got)
				}
				if got := p.ask(listOf(name, "prompts/list")); !strings.Contains(got, `"prompts":[]`) {
					t.Errorf("prompts were declared and never came: %s", got)
				}
			})
		})
	}
}

func TestTheIntroductionHasTheInstructionsOfServersThatStartQuickly(t *testing.T) {
	for name, question := range firstQuestions {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newStarting(t)
				defer b.shut(t)
				p := b.servePipe(t)
				defer p.stop()
				quick := catalog.Input{Capabilities: []byte(`{"tools":{}}`), Instructions: "Be brief."}
				time.AfterFunc(200*time.Millisecond, func() {
					b.rt.Publish(b.generation(quick))
					b.rt.MarkReady()
				})
				got := p.ask(question)
				if !strings.Contains(got, "Be brief.") || strings.Contains(got, "prompts") {
					t.Error(got)
				}
				if got := p.ask(question); !strings.Contains(got, "Be brief.") {
					t.Error(got)
				}
			})
		})
	}
}
