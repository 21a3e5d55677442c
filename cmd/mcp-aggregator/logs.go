package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

type logsFlags struct {
	follow bool
	lines  int
}

func (c *cli) logsCommand() *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use:   "logs SERVER",
		Short: "Show what a server of a running aggregator has written to standard error",
		Long: `Shows the last lines that the process of a server has written to its standard error, which
the aggregator keeps up to limits.stderr. Only servers with a command have a process.` + aboutAdmin,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("logs shows one server at a time; got %d", len(args))
			}
			return needServer(cmd, args)
		},
		ValidArgsFunction: c.completeServer,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.logs(cmd.Context(), args[0], f) },
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on until interrupted")
	cmd.Flags().IntVarP(&f.lines, "lines", "n", 0, "show only the last `N` lines")
	c.addAdminFlag(cmd)
	return cmd
}

// followEvery is the pause between two looks at the lines of a server.
const followEvery = time.Second

func (c *cli) logs(ctx context.Context, server string, f logsFlags) error {
	a, err := c.admin()
	if err != nil {
		return err
	}
	lines, err := a.logs(ctx, server)
	if err != nil {
		return err
	}
	shown := lines
	if f.lines > 0 {
		shown = lines[max(0, len(lines)-f.lines):]
	}
	c.printLines(shown)
	if !f.follow {
		if len(lines) == 0 {
			fmt.Fprintf(c.err, "mcp-aggregator: server %q has written nothing to standard error\n", server)
		}
		return nil
	}
	ctx, done := untilSignal(ctx)
	defer done()
	return c.follow(ctx, a, server, lines)
}

// follow prints what comes after the lines seen, until ctx ends.
func (c *cli) follow(ctx context.Context, a *adminClient, server string, seen []string) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		lines, err := a.logs(ctx, server)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		c.printLines(newer(seen, lines))
		seen = lines
	}
}

func (c *cli) printLines(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(c.out, printable(line))
	}
}

// newer returns the lines that were not seen yet. The aggregator keeps the last ones
// only and does not number them: the end of those seen is the beginning of these, as
// far as they overlap; without any overlap all are new.
func newer(seen, lines []string) []string {
	for n := min(len(seen), len(lines)); n > 0; n-- {
		if slices.Equal(seen[len(seen)-n:], lines[:n]) {
			return lines[n:]
		}
	}
	return lines
}

func (a *adminClient) logs(ctx context.Context, server string) ([]string, error) {
	var out struct{ Lines []string }
	err := a.get(ctx, "/servers/"+url.PathEscape(server)+"/logs", &out)
	if err != nil {
		err = a.unknownServer(ctx, server, err)
	}
	return out.Lines, err
}
