package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/app"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/upstream"
)

// serveFlags are the flags of serve and, because it is the default command, of the root.
type serveFlags struct {
	http   string
	stdio  bool
	strict bool
}

func (f *serveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.http, "http", "", "serve HTTP at this `address`, host:port or port (default: http.addr of the configuration)")
	flags.BoolVar(&f.stdio, "stdio", false, "serve standard input and output")
	flags.BoolVar(&f.strict, "strict", false, "end with an error unless every enabled server connects")
	must(cmd.RegisterFlagCompletionFunc("http", cobra.NoFileCompletions))
}

func (c *cli) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the servers of the configuration at one endpoint (the default command)",
		Long: `Serves until SIGINT or SIGTERM, or with --stdio until the end of standard input.
The first signal lets calls in flight finish; a second one ends the process at once.

With --stdio, standard output carries the protocol only. --stdio and --http may be
given together; with neither, HTTP is served at http.addr of the configuration.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), f) },
	}
	f.add(cmd)
	return cmd
}

func (c *cli) serve(ctx context.Context, f serveFlags) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	log, err := c.logger(cfg, slog.LevelDebug)
	if err != nil {
		return err
	}
	for _, n := range cfg.Notes {
		log.Warn("note on the configuration", "note", n.String())
	}
	a, err := app.New(app.Options{Config: cfg, Log: log, Version: readBuild().version})
	if err != nil {
		return err
	}
	if err := c.open(a, cfg, f, log); err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	if f.strict {
		return runStrict(ctx, a, enabledServers(cfg))
	}
	return a.Run(ctx)
}

// open adds the faces that were asked for.
func (c *cli) open(a *app.App, cfg *config.Config, f serveFlags, log *slog.Logger) error {
	addr := f.http
	if addr == "" && !f.stdio {
		addr = cfg.HTTP.Addr
	}
	if addr != "" {
		if isPort(addr) {
			addr = net.JoinHostPort("127.0.0.1", addr)
		}
		ln, err := a.ServeHTTP(addr)
		if err != nil {
			return plainBindError(addr, err)
		}
		log.Info("serving", "url", "http://"+ln.Addr().String()+cfg.HTTP.Path)
	}
	if f.stdio {
		a.ServeStdio(c.in, c.out)
		log.Info("serving standard input and output")
	}
	return nil
}

func isPort(s string) bool { return strings.Trim(s, "0123456789") == "" }

// plainBindError says what to do about an address that cannot be used.
func plainBindError(addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is used by another program; choose another address with --http or http.addr", addr)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s needs rights this user does not have; choose a port from 1024 up with --http or http.addr", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this machine; choose another with --http or http.addr", addr)
	}
	return err
}

// watchEvery is how often runStrict looks at servers that are still starting.
const watchEvery = 50 * time.Millisecond

// runStrict is Run, ended with an error by the first server that does not connect.
func runStrict(ctx context.Context, a *app.App, servers int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var failed error
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if failed = awaitConnected(ctx, servers, a.Status); failed != nil {
			cancel(failed)
		}
	}()
	err := a.Run(ctx)
	cancel(nil)
	<-watched
	return errors.Join(failed, err)
}

// enabledServers counts the servers that are to be connected.
func enabledServers(cfg *config.Config) (n int) {
	for _, s := range cfg.Servers {
		if s.Enabled {
			n++
		}
	}
	return n
}

// awaitConnected waits until that many servers are connected. It returns an error when
// one has failed, nil when all have connected or ctx ended. A server without a status
// has not been started yet.
func awaitConnected(ctx context.Context, servers int, status func() []*upstream.Status) error {
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	for {
		connected := 0
		for _, s := range status() {
			if unreachable(s) {
				return fmt.Errorf("--strict: server %q did not connect: %s", s.Server, s.LastError)
			}
			if s.State == upstream.Connected {
				connected++
			}
		}
		if connected >= servers {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// unreachable reports whether the last attempt to connect a server has failed.
func unreachable(s *upstream.Status) bool {
	return s.State == upstream.Failed || s.State == upstream.NeedsAuth
}
