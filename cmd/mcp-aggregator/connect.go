package main

import (
	"context"
	"fmt"
	"log/slog"

	"mcp-aggregator/internal/app"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/upstream"
)

// connect starts the servers of a configuration for one command and waits until each
// has connected or failed. Stop ends them; it must be called.
func (c *cli) connect(ctx context.Context, cfg *config.Config) (a *app.App, stop func(), err error) {
	// The commands show themselves which servers fail, in words; the log would repeat it.
	log, err := c.logger(cfg, slog.LevelError)
	if err != nil {
		return nil, nil, err
	}
	a, err = app.New(app.Options{Config: cfg, Log: log, Version: readBuild().version})
	if err != nil {
		return nil, nil, err
	}
	stop, err = a.Start(ctx)
	if err != nil {
		return nil, nil, err
	}
	return a, stop, nil
}

// warnUnreachable tells on standard error which servers could not be connected. It
// returns how many those are.
func (c *cli) warnUnreachable(status []*upstream.Status) (failed int) {
	for _, s := range status {
		if unreachable(s) {
			failed++
			fmt.Fprintf(c.err, "mcp-aggregator: server %q is %s: %s\n", s.Server, s.State, printable(s.LastError))
		}
	}
	return failed
}
