package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/breaker"
)

func (c *cli) breakersCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "breakers",
		Short: "Show the circuit breakers of a running aggregator",
		Long: `Shows the circuit breaker of each tool that has been called. An open one lets no call
through until its time has come; reset closes it at once.` + aboutAdmin,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.breakers(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.addAdminFlag(cmd)
	reset := &cobra.Command{
		Use:   "reset SERVER[.TOOL]...",
		Short: "Close the circuit breaker of a tool, or all of a server",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("reset needs the name of a server or SERVER.TOOL; 'mcp-aggregator breakers' shows them")
			}
			return nil
		},
		ValidArgsFunction: c.completeServer,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.resetBreakers(cmd.Context(), args) },
	}
	c.addAdminFlag(reset)
	cmd.AddCommand(reset)
	return cmd
}

// breakerList is how the admin side answers.
type breakerList struct {
	Breakers []breaker.State `json:"circuit_breakers"`
}

func (c *cli) breakers(ctx context.Context, asJSON bool) error {
	a, err := c.admin()
	if err != nil {
		return err
	}
	var list breakerList
	if err := a.get(ctx, "/circuit-breakers", &list); err != nil {
		return err
	}
	if asJSON {
		return c.printJSON(list)
	}
	if len(list.Breakers) == 0 {
		fmt.Fprintln(c.err, "mcp-aggregator: no tool has a circuit breaker yet; each gets one when it is called")
		return nil
	}
	return breakerTable(list.Breakers, time.Now()).print(c.out)
}

func breakerTable(breakers []breaker.State, now time.Time) *table {
	t := &table{}
	t.add("CIRCUIT BREAKER", "STATE", "FAILURES", "OPEN SINCE", "NEXT TRY")
	for _, b := range breakers {
		t.add(cell(b.Server+"."+b.Tool), cell(b.State), strconv.Itoa(b.Failures), since(b.OpenedAt, now), until(b.RetryAt, now))
	}
	return t
}

func (c *cli) resetBreakers(ctx context.Context, names []string) error {
	a, err := c.admin()
	if err != nil {
		return err
	}
	servers, err := a.servers(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range names {
		target, err := targetOf(name, servers)
		if err == nil {
			err = a.do(ctx, http.MethodPost, "/circuit-breakers/reset", target, &struct{}{})
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("resetting %s: %w", printable(name), err))
			continue
		}
		fmt.Fprintf(c.out, "%s: reset\n", printable(name))
	}
	return errors.Join(failures...)
}

// targetOf splits SERVER[.TOOL]; the longest name of a server wins, since both may have dots.
func targetOf(name string, servers []admin.Server) (admin.Target, error) {
	var t admin.Target
	for _, s := range servers {
		tool, ok := strings.CutPrefix(name, s.Name+".")
		if (ok && tool != "" || name == s.Name) && len(s.Name) > len(t.Server) {
			t = admin.Target{Server: s.Name, Tool: tool}
			if name == s.Name {
				t.Tool = ""
			}
		}
	}
	if t.Server == "" {
		return t, errors.New("no server has this name")
	}
	return t, nil
}
