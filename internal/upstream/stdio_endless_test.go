package upstream_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/fault"
)

// filler is more than the limit of a line of connect.
var filler = strings.Repeat("x", 100<<10)

// write sends text from the far end as it is.
func (l *line) write(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l.far, text); err != nil {
		l.t.Fatalf("writing: %v", err)
	}
}

// beginHuge starts a call and the line of its answer, and waits until the call has
// failed.
func (l *line) beginHuge() {
	l.t.Helper()
	done, q := l.begin(l.t.Context(), "huge")
	l.write(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"a":["` + filler)
	if got := <-done; got.Kind != fault.Protocol {
		l.t.Fatalf("the call of the huge answer: %+v", got)
	}
}

// mustBeLost checks that a call fails with the connection.
func (l *line) mustBeLost(done <-chan outcome, reason string) {
	l.t.Helper()
	got := <-done
	if got.Kind != fault.Lost || !strings.Contains(got.Reason, reason) {
		l.t.Errorf("got %+v, want it lost because %s", got, reason)
	}
	<-l.Done()
}

// mustLive checks that a call that was begun gets its answer.
func (l *line) mustLive(done <-chan outcome, id string) {
	l.t.Helper()
	l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
	if got := <-done; got.Result != "{}" {
		l.t.Errorf("the call at the same time: %+v", got)
	}
}

func TestAnAnswerOnALineThatWasNeverFinishedEndsTheConnection(t *testing.T) {
	for name, tail := range map[string]string{
		"a small answer":                     `{"jsonrpc":"2.0","id":ID,"result":{}}` + "\n",
		"one that is longer than the tail":   `{"jsonrpc":"2.0","id":ID,"result":{"a":"` + filler + `"}}` + "\r\n",
		"one with quotes and brackets in it": `{"jsonrpc":"2.0","id":ID,"result":{"a":"\"}]}\\"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := connect(t)
				l.beginHuge()
				began := time.Now()
				done, q := l.begin(t.Context(), "next")
				l.write(strings.ReplaceAll(tail, "ID", string(q.ID)))
				l.mustBeLost(done, "unfinished")
				if took := time.Since(began); took > 0 {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

func TestALineThatStandsStillEndsTheConnectionIfACallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		l.beginHuge()
		time.Sleep(time.Minute)
		began := time.Now()
		done, _ := l.begin(t.Context(), "next")
		l.mustBeLost(done, "does not end it")
		if took := time.Since(began); took < time.Second || took > 5*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

func TestALineThatGrowsForEverEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		l.beginHuge()
		most := 64 * len(filler)
		for n := 0; ; n += len(filler) {
			time.Sleep(100 * time.Millisecond)
			if _, err := io.WriteString(l.far, filler); err != nil {
				break
			}
			if n > 2*most {
				t.Fatalf("%d bytes were read", n)
			}
		}
		<-l.Done()
	})
}

// Whatever is merely large costs the call it is meant for and no other.
func TestAHugeLineThatEndsHurtsNoOtherCall(t *testing.T) {
	text := `\"}]}{\\` + filler
	for name, rest := range map[string][]string{
		"at once":                    {`"]}}` + "\n"},
		"with everything in it":      {text + `",{"b":[1,"]"]},"` + text + `"]} }` + "\r\n"},
		"slowly":                     {text, text, text, text, text, `"]}}` + "\n"},
		"cut off":                    {"\n"},
		"cut off behind a bracket":   {`",[1` + "\n"},
		"with more than it needs":    {`"]}}}}` + "\n"},
		"and another of its kind":    {`"]}}` + "\n", `{"a":"` + filler + filler + `"}` + "\n"},
		"and a text that is no JSON": {`"]}}` + "\n", filler + "{}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := connect(t)
				other, q := l.begin(t.Context(), "other")
				l.beginHuge()
				for _, part := range rest {
					time.Sleep(1900 * time.Millisecond)
					l.write(part)
				}
				time.Sleep(time.Minute)
				l.mustLive(other, string(q.ID))
			})
		})
	}
}
