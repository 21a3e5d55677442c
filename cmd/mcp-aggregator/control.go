package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/admin"
)

// controls are the commands that do something about a server.
var controls = []struct{ name, short, long string }{
	{"connect", "Connect a server of a running aggregator",
		"Connects a server at once, without waiting for the time of the next attempt."},
	{"disconnect", "Disconnect a server of a running aggregator",
		"Ends the connection of a server, once its calls have ended, until it is connected again."},
	{"reconnect", "Replace the connection of a server of a running aggregator",
		"Ends the connection of a server, once its calls have ended, and makes a new one."},
	{"enable", "Show a server of a running aggregator again",
		"Shows what a server offers again after disable. The configuration file is not changed."},
	{"disable", "Hide a server of a running aggregator",
		"Hides everything a server offers; its connection is kept. The configuration file is not\nchanged, so the next start shows it again."},
}

func (c *cli) controlCommands() (out []*cobra.Command) {
	for _, k := range controls {
		cmd := &cobra.Command{
			Use:               k.name + " SERVER...",
			Short:             k.short,
			Long:              k.long + " The command does not wait\nfor the outcome; status shows it." + aboutAdmin,
			Args:              needServer,
			ValidArgsFunction: c.completeServer,
			RunE:              func(cmd *cobra.Command, args []string) error { return c.control(cmd.Context(), k.name, args) },
		}
		c.addAdminFlag(cmd)
		out = append(out, cmd)
	}
	return out
}

func needServer(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs the name of a server; 'mcp-aggregator status' shows them", cmd.Name())
	}
	return nil
}

// control asks for an action on each server; one that fails does not keep the others from theirs.
func (c *cli) control(ctx context.Context, what string, servers []string) error {
	a, err := c.admin()
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range servers {
		var now admin.Server
		if err := a.do(ctx, http.MethodPost, "/servers/"+url.PathEscape(name)+"/"+what, nil, &now); err != nil {
			failures = append(failures, a.unknownServer(ctx, name, err))
			continue
		}
		fmt.Fprintf(c.out, "%s: %s asked for; it is %s now\n", printable(name), what, stateOf(&now))
	}
	return errors.Join(failures...)
}

func (c *cli) reloadCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Let a running aggregator read its configuration again",
		Long: `Lets a running aggregator read its configuration file again and shows what that changed.
Servers that are configured as before keep their connections. If the file has problems,
they are shown, nothing is changed and the exit code is 3.` + aboutAdmin,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.reload(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.addAdminFlag(cmd)
	return cmd
}

func (c *cli) reload(ctx context.Context, asJSON bool) error {
	a, err := c.admin()
	if err != nil {
		return err
	}
	var plan admin.Plan
	if err := a.do(ctx, http.MethodPost, "/reload", nil, &plan); err != nil {
		e := refused(err)
		for _, p := range e.Problems {
			fmt.Fprintln(c.err, printable(p))
		}
		if e.Code == "configuration" {
			return &exit{exitConfig, err}
		}
		return err
	}
	if asJSON {
		return c.printJSON(plan)
	}
	c.printPlan(&plan)
	return nil
}

// printPlan shows what a reload changed, a line for each kind of change.
func (c *cli) printPlan(p *admin.Plan) {
	changed := false
	for _, part := range []struct {
		what  string
		names []string
	}{
		{"added", p.Added}, {"removed", p.Removed}, {"connected anew", p.Changed},
		{"changed without reconnecting", p.Adopted}, {"settings", p.Settings},
	} {
		if len(part.names) > 0 {
			changed = true
			fmt.Fprintf(c.out, "%s: %s\n", part.what, printable(strings.Join(part.names, ", ")))
		}
	}
	if len(p.Restart) > 0 {
		fmt.Fprintf(c.out, "need a restart: %s\n", printable(strings.Join(p.Restart, ", ")))
	}
	for _, e := range p.Errors {
		fmt.Fprintf(c.err, "mcp-aggregator: %s\n", printable(e))
	}
	if !changed {
		fmt.Fprintln(c.out, "nothing changed")
		return
	}
	fmt.Fprintf(c.out, "generation %d is in force\n", p.Generation)
}
