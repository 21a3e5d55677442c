package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/fault"
)

func TestEveryKindHasARule(t *testing.T) {
	codes := map[string]fault.Kind{}
	for _, k := range fault.Kinds() {
		rule := k.Rule()
		if rule.Code == "" || rule.Hint == "" || rule.RPC == 0 || rule.HTTP < 400 {
			t.Errorf("kind %d: the rule is not complete: %+v", k, rule)
		}
		if other, twice := codes[rule.Code]; twice {
			t.Errorf("kinds %d and %d have the same code %q", other, k, rule.Code)
		}
		codes[rule.Code] = k
		if rule.Retry != fault.RetryNot && !rule.Later {
			t.Errorf("%s is repeated without hope", k)
		}
	}
	if got := len(fault.Kinds()); got != int(fault.ShuttingDown)+1 {
		t.Errorf("%d kinds have rules, the last one is number %d", got, fault.ShuttingDown)
	}
	if got := fault.Kind(250).Rule().Code; got != "internal" {
		t.Errorf("an unknown kind is %q", got)
	}
}

func TestWhatMayBeRepeatedIsInTheTable(t *testing.T) {
	type row struct{ repeat, repeatSafe, repeatSafeAgain, fall, fallSafe, retryable bool }
	all := row{true, true, true, true, true, true}
	aside := row{fall: true, fallSafe: true, retryable: true}
	want := map[fault.Kind]row{
		fault.Unreachable:  all,
		fault.RateLimited:  all,
		fault.Lost:         {repeatSafe: true, fallSafe: true},
		fault.Overloaded:   aside,
		fault.CircuitOpen:  aside,
		fault.ShuttingDown: {retryable: true},
	}
	for _, k := range fault.Kinds() {
		e := &fault.Error{Kind: k}
		got := row{
			e.MayRepeat(false, 0), e.MayRepeat(true, 0), e.MayRepeat(true, 1),
			e.MayFallBack(false), e.MayFallBack(true), e.Retryable(),
		}
		if got != want[k] {
			t.Errorf("%s: got %+v, want %+v", k, got, want[k])
		}
	}
}

func TestWhoLendsConnectionsHasTheLastWord(t *testing.T) {
	for _, code := range []string{fault.CodeRestartFailed, fault.CodeRestartInProgress, fault.CodeShuttingDown} {
		e := &fault.Error{Kind: fault.Unreachable, Code: code}
		if e.MayRepeat(true, 0) || e.Breaker() != fault.BreakerIgnores {
			t.Errorf("%s is repeated or counted", code)
		}
		if !e.MayFallBack(false) || !e.Retryable() {
			t.Errorf("%s keeps others from being called", code)
		}
	}
}

func TestSentencesSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name string
		e    fault.Error
		want string
	}{
		{"nobody involved", fault.Error{Kind: fault.Internal, Reason: "internal error"},
			"internal error; this is a defect of the aggregator; its log says more"},
		{"a time is known", fault.Error{Kind: fault.CircuitOpen, Server: "git", Tool: "push", Reason: "failed 5 times in a row", RetryAfter: 41200 * time.Millisecond},
			`server "git", tool "push": failed 5 times in a row; the tool failed repeatedly and rests; the call was not executed; try again in 42s`},
		{"no time is known", fault.Error{Kind: fault.Unreachable, Server: "git", Reason: "no route", Attempts: 3},
			`server "git": no route (3 attempts); the server has not seen the call; try again later`},
		{"perhaps executed", fault.Error{Kind: fault.Lost, Server: "git", Tool: "push", Reason: "the connection broke", Attempts: 1},
			`server "git", tool "push": the connection broke; the call may have been executed; check before repeating it`},
		{"perhaps executed, harmless", fault.Error{Kind: fault.Lost, Server: "git", Tool: "log", Reason: "the connection broke", Attempts: 2, Safe: true},
			`server "git", tool "log": the connection broke (2 attempts); repeating the call does no harm; try again later`},
		{"timed out, harmless", fault.Error{Kind: fault.Timeout, Server: "git", Tool: "log", Reason: "no answer", Safe: true},
			`server "git", tool "log": no answer; try a smaller request or raise call_timeout`},
		{"a moment", fault.Error{Kind: fault.RateLimited, Server: "git", Reason: "too many", RetryAfter: 5 * time.Millisecond},
			`server "git": too many; the call was not executed; try again in 100ms`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.e.Sentence(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestDescriptionsAreForMachines(t *testing.T) {
	e := &fault.Error{
		Kind: fault.Unreachable, Server: "a", Tool: `x"y`, Reason: "r", RetryAfter: 1500 * time.Millisecond, Attempts: 2, Code: fault.CodeRestartFailed,
	}
	want := `{"code":"mcp_restart_failed","kind":"unreachable","retryable":true,"retry_after_ms":1500,"attempts":2,"server":"a","tool":"x\"y"}`
	if got := string(e.Describe()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string((&fault.Error{Kind: fault.Internal}).Describe()); got != `{"code":"internal","kind":"internal","retryable":false}` {
		t.Errorf("got %s", got)
	}
}

func TestKindsAreFoundInChains(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{nil, fault.Internal},
		{errors.New("x"), fault.Internal},
		{context.Canceled, fault.Cancelled},
		{fmt.Errorf("doing: %w", context.DeadlineExceeded), fault.Timeout},
		{fmt.Errorf("doing: %w", fault.Of(fault.Denied, "s", "no: %w", context.Canceled)), fault.Denied},
	} {
		if got := fault.KindOf(c.err); got != c.want {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
}

// FuzzDecisions checks for every error there can be that nothing that may have been
// executed is executed again unless that does no harm, and that texts and descriptions
// are well formed.
func FuzzDecisions(f *testing.F) {
	f.Add(uint8(fault.Lost), "", "server", "tool", "broke", int64(0), 1, false, 0)
	f.Add(uint8(fault.Unreachable), fault.CodeRestartFailed, "s", "", "\xff\x00", int64(-1), 0, true, 1)
	f.Add(uint8(255), "?", "", "\"", "", int64(1)<<62, -1, true, -1)
	never := map[fault.Kind]bool{ // kinds that say that the upstream has not executed the call
		fault.Unreachable: true, fault.RateLimited: true, fault.Overloaded: true, fault.CircuitOpen: true,
		fault.ShuttingDown: true, fault.Unauthorized: true, fault.Denied: true, fault.NotFound: true,
	}
	f.Fuzz(func(t *testing.T, kind uint8, code, server, tool, reason string, after int64, attempts int, safe bool, losses int) {
		e := &fault.Error{
			Kind: fault.Kind(kind), Code: code, Server: server, Tool: tool, Reason: reason,
			RetryAfter: time.Duration(after), Attempts: attempts, Safe: safe,
		}
		if !never[e.Kind] && !safe && (e.MayRepeat(safe, losses) || e.MayFallBack(safe) || e.Retryable()) {
			t.Errorf("%v would be executed twice", e.Kind)
		}
		if e.Kind == fault.Lost && losses > 0 && e.MayRepeat(safe, losses) {
			t.Error("a call that was lost twice is made a third time")
		}
		if (e.Kind == fault.Timeout || e.Kind == fault.Cancelled) && (e.MayRepeat(safe, losses) || e.MayFallBack(safe)) {
			t.Errorf("%v is repeated", e.Kind)
		}
		var d struct{ Code, Kind string }
		if err := json.Unmarshal(e.Describe(), &d); err != nil || d.Kind != e.Kind.String() {
			t.Errorf("described as %s: %v", e.Describe(), err)
		}
		if !strings.Contains(e.Sentence(), reason) {
			t.Errorf("the sentence %q hides the reason", e.Sentence())
		}
	})
}
