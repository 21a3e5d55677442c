package app

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/keep"
	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/summarize"
	"mcp-aggregator/internal/telemetry"
)

// newResults makes what makes large results small. Originals that do not fit into memory
// go to a folder in dir; "" keeps all in memory.
func (a *App) newResults(c *config.Config, dir string) (*results.Reducer, error) {
	k := c.Results.Keep
	o := keep.Options{Memory: int64(k.Memory), Disk: int64(k.Disk), Each: 2*int64(k.Each) + 4096, TTL: k.TTL, Log: a.log}
	o.PerOwner = o.Memory + o.Disk // as long as nobody is told from anybody else
	if dir != "" && k.Disk > 0 {
		o.Dir = filepath.Join(dir, "results")
	}
	store, err := keep.Open(o)
	if err != nil {
		a.log.Warn("originals of large results are kept in memory only", "err", err)
		o.Dir = ""
		if store, err = keep.Open(o); err != nil {
			return nil, fmt.Errorf("keeping results: %w", err)
		}
	}
	return results.New(results.Options{Store: store, Log: a.log, Watch: results.Watch{
		Reduced: func(d results.Done) {
			a.metrics.Reduced(d.Server, d.Policy, d.Bytes, d.BytesLeft, d.Tokens, d.Left)
		},
		Attempted: func(t summarize.Attempt) { a.metrics.Summary(t.Model, string(t.Outcome), t.In, t.Out) },
		Summary:   a.summaryStep,
	}}), nil
}

// masks are what is hidden under a configuration.
type masks struct {
	of     map[string]*mask.Masker // server name → its masker; nil hides nothing
	shown  *mask.Masker            // hides credentials in what servers say of themselves
	values []string                // the credentials that are hidden
}

// maxRetired is how many credentials that are configured no more stay hidden.
const maxRetired = 100

// newMasks makes the masker of each server: what the configuration wants hidden, and its
// own credentials. Those of the configuration before stay hidden: servers may still
// use and quote what was replaced just now. A pattern that cannot be used is an error,
// since without it secrets would get through.
func newMasks(c *config.Config, before *masks) (*masks, error) {
	values := c.Credentials()
	if before != nil {
		retired := slices.DeleteFunc(slices.Clone(before.values), func(v string) bool { return slices.Contains(values, v) })
		values = append(slices.Clip(values), retired[:min(len(retired), maxRetired)]...)
	}
	shown, err := mask.New(mask.Options{Values: values})
	if err != nil {
		return nil, fmt.Errorf("hiding the credentials of the configuration: %w", err)
	}
	out := &masks{of: make(map[string]*mask.Masker, len(c.Servers)), shown: shown, values: values}
	for _, s := range c.Servers {
		m := c.MaskOf(s)
		if m.IsZero() && len(values) == 0 {
			continue
		}
		o := mask.Options{Sets: m.Sets, Code: m.Code, Values: values}
		for name, p := range m.Patterns {
			o.Patterns = append(o.Patterns, mask.Pattern{Name: name, Regexp: p})
		}
		slices.SortFunc(o.Patterns, func(a, b mask.Pattern) int { return strings.Compare(a.Name, b.Name) })
		masker, err := mask.New(o)
		if err != nil {
			return nil, fmt.Errorf("masking results of server %q: %w", s.Name, err)
		}
		if !masker.IsZero() {
			out.of[s.Name] = masker
		}
	}
	return out, nil
}

// offers is what the aggregator offers clients itself under a configuration; nil if
// that is nothing.
func offers(c *config.Config) *catalog.Listing {
	var tools [][]byte
	capabilities := `{}`
	if _, smaller := c.Treatment(); smaller {
		tools = append(tools, results.Tools()...)
		capabilities = `{"resources":{}}`
	}
	if c.Catalog.ResourceTools {
		tools = append(tools, router.ResourceTools()...)
	}
	if tools == nil {
		return nil
	}
	return catalog.Ours(tools, []byte(capabilities))
}

func (a *App) keptSample() telemetry.Kept {
	s := a.results.Kept()
	return telemetry.Kept{Entries: s.Entries, MemoryBytes: s.MemoryBytes, DiskBytes: s.DiskBytes, Spilled: s.Spilled, Expired: s.Expired, Lost: s.Lost}
}

// callEvent is what an event says of a call. It holds nothing that the client or the
// server has said.
type callEvent struct {
	Call int64   `json:"call"`
	Tool string  `json:"tool"`
	Kind string  `json:"kind,omitempty"`    // of a completed call: ok, tool_error or what kind of failure
	Took float64 `json:"took_ms,omitempty"` // of a completed call
}

func (a *App) callStarted(id int64, server, tool string) {
	a.events.Append(telemetry.CallStarted, server, &callEvent{Call: id, Tool: tool})
}

func (a *App) callEnded(id int64, server, tool, kind string, took time.Duration) {
	a.events.Append(telemetry.CallCompleted, server, &callEvent{Call: id, Tool: tool, Kind: kind, Took: milliseconds(took)})
}

// summaryEvent is what an event says of a summary, but not its text.
type summaryEvent struct {
	Summary   int64   `json:"summary"`
	Call      int64   `json:"call,omitempty"`
	Tool      string  `json:"tool"`
	Model     string  `json:"model,omitempty"`
	Outcome   string  `json:"outcome,omitempty"`
	TokensIn  int     `json:"tokens_in,omitempty"`
	TokensOut int     `json:"tokens_out,omitempty"`
	Bytes     int     `json:"bytes,omitempty"` // written so far
	Reason    string  `json:"reason,omitempty"`
	Took      float64 `json:"took_ms,omitempty"`
}

var summaryEvents = map[string]string{
	results.Started: telemetry.SummaryStarted, results.Chunk: telemetry.SummaryChunk,
	results.Completed: telemetry.SummaryCompleted, results.Failed: telemetry.SummaryFailed,
}

func (a *App) summaryStep(s results.Step) {
	if s.Outcome == summarize.Cached {
		a.metrics.Summary(s.Model, string(s.Outcome), 0, 0)
	}
	a.events.Append(summaryEvents[s.What], s.Server, &summaryEvent{
		Summary: s.ID, Call: s.Call, Tool: s.Tool, Model: s.Model, Outcome: string(s.Outcome), TokensIn: s.In, TokensOut: s.Out,
		Bytes: s.Bytes, Reason: a.mask(s.Reason), Took: milliseconds(s.Took),
	})
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
