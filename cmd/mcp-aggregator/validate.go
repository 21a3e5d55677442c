package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/config"
)

type validateFlags struct {
	servers []string
	connect bool
	json    bool
}

func (c *cli) validateCommand() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration, and with --connect the servers",
		Long: `Reads the configuration and shows every problem at once with its line and column, or
the servers if there is none.

With --connect the servers are connected, too: the state of each is shown, the
tools with the names clients see and the servers' own, and the definitions that were
rejected or changed. The command fails if a server cannot be reached.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.validate(cmd.Context(), f) },
	}
	cmd.Flags().BoolVar(&f.connect, "connect", false, "also connect to the servers and check what they offer")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.addServerFlag(cmd, &f.servers)
	return cmd
}

func (c *cli) validate(ctx context.Context, f validateFlags) error {
	cfg, err := c.loadOnly(f.servers)
	if err != nil {
		if problems, ok := errors.AsType[*config.Problems](err); ok && f.json {
			return errors.Join(c.printJSON(problemReport(*problems)), &exit{code: exitConfig})
		}
		return err
	}
	r := newReport(cfg)
	if f.connect {
		if err := c.inspect(ctx, cfg, r); err != nil {
			return err
		}
	}
	if f.json {
		err = c.printJSON(r)
	} else {
		err = r.print(c.out)
	}
	if err == nil && !r.OK {
		return &exit{exitFailure, errors.New("not every server could be reached")}
	}
	return err
}

// inspect connects the servers and adds what they are and offer to the report.
func (c *cli) inspect(ctx context.Context, cfg *config.Config, r *report) error {
	ctx, done := untilSignal(ctx)
	defer done()
	a, stop, err := c.connect(ctx, cfg)
	if err != nil {
		return err
	}
	status, snapshot, problems := a.Status(), a.Snapshot(), a.Problems()
	stop()
	r.inspected = true
	r.addStatus(status)
	r.addTools(snapshot)
	r.Problems = problems
	r.OK = c.warnUnreachable(status) == 0
	return nil
}
