package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/limit"
	"mcp-aggregator/internal/telemetry"
)

type statusFlags struct {
	json     bool
	watch    bool
	interval time.Duration
}

func (c *cli) statusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the servers of a running aggregator are",
		Long: `Shows the servers of a running aggregator, with the reason for those that do not work, the
circuit breakers that are not closed, the queues and the warnings.` + aboutAdmin,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.status(cmd.Context(), f) },
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it again and again until interrupted")
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "`time` between two looks with --watch")
	c.addAdminFlag(cmd)
	return cmd
}

// overview is everything that status shows. Its JSON form is part of the interface.
type overview struct {
	Info     admin.Info          `json:"aggregator"`
	Servers  []admin.Server      `json:"servers"`
	Breakers []breaker.State     `json:"circuit_breakers"`
	Queues   []limit.QueueState  `json:"queues"`
	Warnings []telemetry.Warning `json:"warnings"`
}

// overview asks for everything. Each answer is one struct with its own key, so all can
// be read into the same.
func (a *adminClient) overview(ctx context.Context) (*overview, error) {
	o := &overview{Servers: []admin.Server{}, Breakers: []breaker.State{}, Queues: []limit.QueueState{}, Warnings: []telemetry.Warning{}}
	if err := a.get(ctx, "/info", &o.Info); err != nil {
		return nil, err
	}
	for _, path := range []string{"/servers", "/circuit-breakers", "/queues", "/warnings"} {
		if err := a.get(ctx, path, o); err != nil && refused(err).Status != http.StatusNotFound {
			return nil, err
		}
	}
	return o, nil
}

func (c *cli) status(ctx context.Context, f statusFlags) error {
	switch {
	case f.watch && f.json:
		return usage("--watch is for people and --json for programs; /api/v1/mcp/events streams changes to programs")
	case f.interval < 100*time.Millisecond:
		return usage("--interval must be at least 100ms")
	}
	a, err := c.admin()
	if err != nil {
		return err
	}
	if f.watch {
		ctx, done := untilSignal(ctx)
		defer done()
		return c.watch(ctx, a, f.interval)
	}
	o, err := a.overview(ctx)
	if err != nil {
		return err
	}
	if f.json {
		return c.printJSON(o)
	}
	return o.print(c.out, c.style(), time.Now())
}

// watch shows the overview until ctx ends. An aggregator that does not answer for a
// while, such as during its restart, is said to be away and asked again.
func (c *cli) watch(ctx context.Context, a *adminClient, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var page strings.Builder
		o, err := a.overview(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = o.print(&page, c.style(), time.Now())
		}
		if err != nil {
			fmt.Fprintf(&page, "mcp-aggregator: %v\n", err)
		}
		if _, err := io.WriteString(c.out, c.frame(page.String())); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// frame makes a page replace the one before on a terminal, without flicker: each line
// is overwritten and what is left of the old page erased. Elsewhere pages follow each other.
func (c *cli) frame(page string) string {
	if !isTerminal(c.out) {
		return page + "\n"
	}
	return "\x1b[H" + strings.ReplaceAll(page, "\n", "\x1b[K\n") + "\x1b[J"
}

// style says how states are marked: not at all in files and pipes, and without colour if that is not wanted.
type style struct{ marks, colours bool }

func (c *cli) style() style {
	terminal := isTerminal(c.out)
	return style{marks: terminal, colours: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// mark is the sign in front of a server.
func (s style) mark(state string) string {
	if !s.marks {
		return ""
	}
	sign, colour := "●", "33" // yellow: something is going on
	switch state {
	case "connected":
		colour = "32"
	case "failed", "needs-auth":
		sign, colour = "✗", "31"
	case "disabled", "disconnected", "idle":
		sign, colour = "○", "90"
	}
	if !s.colours {
		return sign + " "
	}
	return "\x1b[" + colour + "m" + sign + "\x1b[0m "
}
