package summarize_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/summarize"
)

// hang waits until the client goes.
func hang(r *http.Request) { <-r.Context().Done() }

func TestHowLongAServerMayTake(t *testing.T) {
	tests := []struct {
		name  string
		serve func(k apiKind, w http.ResponseWriter, r *http.Request)
		want  summarize.Outcome
		took  time.Duration
	}{
		{"stalls before the head", func(_ apiKind, _ http.ResponseWriter, r *http.Request) {
			hang(r)
		}, summarize.Timeout, 30 * time.Second},
		{"stalls before the body", func(_ apiKind, w http.ResponseWriter, r *http.Request) {
			send(w, "")
			hang(r)
		}, summarize.Timeout, 30 * time.Second},
		{"stalls in the middle", func(k apiKind, w http.ResponseWriter, r *http.Request) {
			send(w, k.begin+k.say("so f"))
			hang(r)
		}, summarize.Timeout, 30 * time.Second},
		{"stalls in the middle of a JSON object", func(k apiKind, w http.ResponseWriter, r *http.Request) {
			send(w, k.whole("so far")[:60])
			hang(r)
		}, summarize.Timeout, 30 * time.Second},
		{"stalls in an error's body", func(k apiKind, w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			send(w, `{"error`)
			hang(r)
		}, summarize.Timeout, 30 * time.Second},
		{"drips for ever", func(k apiKind, w http.ResponseWriter, r *http.Request) {
			for _, c := range []byte(k.begin + strings.Repeat(k.say("x"), 100)) {
				send(w, string(c))
				time.Sleep(time.Second)
			}
		}, summarize.Timeout, 30 * time.Second},
		{"keeps alive for ever", func(k apiKind, w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				send(w, ": still there\n\n")
				time.Sleep(time.Second)
			}
		}, summarize.Timeout, 30 * time.Second},
		{"is slow", func(k apiKind, w http.ResponseWriter, r *http.Request) {
			send(w, k.begin)
			for range 20 {
				time.Sleep(time.Second)
				send(w, k.say("word "))
			}
			send(w, k.end("stop"))
		}, summarize.OK, 20 * time.Second},
		{"is complete and never counts its tokens", func(k apiKind, w http.ResponseWriter, r *http.Request) {
			first, _, _ := strings.Cut(k.end("stop"), "\n\n")
			send(w, k.begin+k.say("complete")+first+"\n\n")
			hang(r)
		}, summarize.OK, 2 * time.Second},
		{"is complete and does not close", func(k apiKind, w http.ResponseWriter, r *http.Request) {
			send(w, k.stream("complete"))
			hang(r)
		}, summarize.OK, 0},
	}
	for _, k := range kinds {
		for _, tt := range tests {
			t.Run(k.name+" "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := piped(t, func(w http.ResponseWriter, r *http.Request) { tt.serve(k, w, r) })
					s := opened(t, summarize.Options{Models: []summarize.Model{k.model(t, b, "m")}})
					began := time.Now()
					_, outcome, err := s.Summarize(t.Context(), numbered(1), nil, nil)
					if outcome != tt.want {
						t.Errorf("outcome %q, %v, want %q", outcome, err, tt.want)
					}
					if took := time.Since(began); took != tt.took {
						t.Errorf("took %v, want %v", took, tt.took)
					}
				})
			})
		}
	}
}

// Models share one time limit, and one that hangs leaves the next its part.
func TestAModelThatHangsLeavesTimeForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, summarize.Options{Models: []summarize.Model{silent("first"), failing("second", "no"), says("third", "here")}})
		began := time.Now()
		a, outcome, err := s.Summarize(t.Context(), numbered(1), nil, nil)
		if outcome != summarize.OK || a.Model != "third" {
			t.Errorf("%q from %q, %v", outcome, a.Model, err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v", took)
		}

		s = opened(t, summarize.Options{Models: []summarize.Model{silent("first"), silent("second")}, Timeout: 8 * time.Second})
		began = time.Now()
		_, outcome, err = s.Summarize(t.Context(), numbered(1), nil, nil)
		if outcome != summarize.Timeout || !strings.Contains(err.Error(), `"first"`) || !strings.Contains(err.Error(), `"second"`) {
			t.Errorf("%q, %v", outcome, err)
		}
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestAModelThatKeepsFailingRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well := false
		b := piped(t, func(w http.ResponseWriter, r *http.Request) {
			if well {
				send(w, kinds[0].stream("well again"))
				return
			}
			status(500, "down")(kinds[0], w, r)
		})
		var changes []string
		s := opened(t, summarize.Options{
			Models:  []summarize.Model{kinds[0].model(t, b, "m")},
			Breaker: breaker.Settings{Failures: 3, Cooldown: time.Minute},
			Circuit: func(c breaker.Change) { changes = append(changes, c.Server+" "+c.To) },
		})
		for i, want := range []summarize.Outcome{"error", "error", "error", "open", "open"} {
			if _, outcome, err := s.Summarize(t.Context(), numbered(i), nil, nil); outcome != want {
				t.Errorf("summary %d: %q, %v, want %q", i, outcome, err, want)
			}
		}
		if n := len(b.got()); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		well = true
		time.Sleep(time.Minute + time.Second)
		for i := range 2 {
			if _, outcome, err := s.Summarize(t.Context(), numbered(100+i), nil, nil); outcome != summarize.OK {
				t.Errorf("after the cool-down: %q, %v", outcome, err)
			}
		}
		if got := strings.Join(changes, ", "); got != "m open, m half-open, m closed" {
			t.Errorf("changes: %s", got)
		}
	})
}

// A server that restarts refuses many within a moment, which is one failure.
func TestAnAbsenceIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := summarize.NewOpenAI(summarize.Remote{Model: "m", URL: "http://model.test/v1", Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection refused")
		})})
		if err != nil {
			t.Fatal(err)
		}
		s := opened(t, summarize.Options{Models: []summarize.Model{m}, Breaker: breaker.Settings{Failures: 2}})
		for n, want := range []summarize.Outcome{"error", "error", "error", "error", "open"} {
			if n == 3 {
				time.Sleep(2 * time.Second)
			}
			if _, outcome, _ := s.Summarize(t.Context(), numbered(n), nil, nil); outcome != want {
				t.Errorf("summary %d: %q, want %q", n, outcome, want)
			}
		}
	})
}

func TestRetryAfterIsRespected(t *testing.T) {
	for _, form := range []string{"7", "date"} {
		synctest.Test(t, func(t *testing.T) {
			limited := true
			b := piped(t, func(w http.ResponseWriter, r *http.Request) {
				if !limited {
					send(w, kinds[0].stream("again"))
					return
				}
				value := form
				if form == "date" {
					value = time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat)
				}
				status(429, "", "Retry-After", value)(kinds[0], w, r)
			})
			s := opened(t, summarize.Options{Models: []summarize.Model{kinds[0].model(t, b, "m")}})
			_, outcome, err := s.Summarize(t.Context(), numbered(1), nil, nil)
			var e *summarize.Error
			if outcome != summarize.Failed || !errors.As(err, &e) || e.RetryAfter != 7*time.Second {
				t.Errorf("%q, %#v", outcome, err)
			}
			limited = false
			time.Sleep(6 * time.Second)
			if _, outcome, _ = s.Summarize(t.Context(), numbered(2), nil, nil); outcome != summarize.Open || len(b.got()) != 1 {
				t.Errorf("after 6 s: %q, %d requests", outcome, len(b.got()))
			}
			time.Sleep(time.Second)
			if _, outcome, err = s.Summarize(t.Context(), numbered(3), nil, nil); outcome != summarize.OK {
				t.Errorf("after 7 s: %q, %v", outcome, err)
			}
		})
	}
}

// One client's model that fails says nothing about another's.
func TestClientsHaveTheirOwnCircuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, summarize.Options{Breaker: breaker.Settings{Failures: 2}})
		ask := func(session string, n int, own summarize.Model) summarize.Outcome {
			r := numbered(n)
			r.Session = session
			_, outcome, _ := s.Summarize(t.Context(), r, own, nil)
			return outcome
		}
		bad := failing(summarize.Caller, "my user says no")
		for i, want := range []summarize.Outcome{"error", "error", "open"} {
			if got := ask("a", i, bad); got != want {
				t.Errorf("session a, summary %d: %q, want %q", i, got, want)
			}
		}
		if got := ask("b", 9, says(summarize.Caller, "yes")); got != summarize.OK {
			t.Errorf("session b: %q", got)
		}
	})
}

func TestSummariesAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, summarize.Options{Models: []summarize.Model{says("m", "ok")}, Cache: summarize.CacheOptions{TTL: time.Minute}})
		for _, step := range []struct {
			after time.Duration
			want  summarize.Outcome
		}{{0, summarize.OK}, {59 * time.Second, summarize.Cached}, {2 * time.Second, summarize.OK}} {
			time.Sleep(step.after)
			if _, outcome, _ := s.Summarize(t.Context(), numbered(1), nil, nil); outcome != step.want {
				t.Errorf("%v later: %q, want %q", step.after, outcome, step.want)
			}
		}
		// What is too old goes when something new comes.
		time.Sleep(time.Hour)
		_, _, _ = s.Summarize(t.Context(), numbered(2), nil, nil)
		if n := s.Stats().Cached; n != 1 {
			t.Errorf("%d summaries kept", n)
		}
	})
}
