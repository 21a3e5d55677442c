package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"

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
SIGHUP, and a change of the file unless watch is off, reloads the configuration.

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
	outlivePipes()
	cfg, err := c.load()
	if err != nil {
		return err
	}
	log, level, err := c.leveledLogger(cfg, slog.LevelDebug)
	if err != nil {
		return err
	}
	for _, n := range cfg.Notes {
		log.Warn("note on the configuration", "note", n.String())
	}
	a, err := app.New(app.Options{
		Config: cfg, Log: log, Version: readBuild().version, Commit: readBuild().commit,
		Reread: c.load, Level: level, StateDir: stateDir(cfg, log),
	})
	if err != nil {
		return err
	}
	if err := c.open(a, cfg, f, log); err != nil {
		a.Discard()
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := untilSignal(ctx)
	defer stop()
	defer onHangup(func() { _, _ = a.Reload(ctx, "SIGHUP") }, func() { cancel(errors.New("the terminal has gone")) })()
	if f.strict {
		return runStrict(ctx, a)
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
			return plainBindError(addr, "--http or http.addr", err)
		}
		log.Info("serving", "url", "http://"+ln.Addr().String()+cfg.HTTP.Path)
	}
	if addr := cfg.Admin.Addr; addr != "" && addr != "off" {
		ln, err := a.ServeAdmin(addr)
		if err != nil {
			return plainBindError(addr, "admin.addr", err)
		}
		log.Info("serving the admin side", "url", "http://"+ln.Addr().String())
	}
	if f.stdio {
		a.ServeStdio(c.in, c.out)
		log.Info("serving standard input and output")
	}
	return nil
}

func isPort(s string) bool { return strings.Trim(s, "0123456789") == "" }

// plainBindError says what to do about an address that cannot be used.
func plainBindError(addr, setting string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is used by another program; choose another address with %s", addr, setting)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s needs rights this user does not have; choose a port from 1024 up with %s", addr, setting)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this machine; choose another with %s", addr, setting)
	}
	_, badAddr := errors.AsType[*net.AddrError](err)
	_, badName := errors.AsType[*net.DNSError](err)
	if badAddr || badName {
		return fmt.Errorf("%w; --http wants host:port or a port, such as 127.0.0.1:8080", err)
	}
	return err
}

// runStrict is Run, ended with an error unless every server connects at its first attempt.
func runStrict(ctx context.Context, a *app.App) error {
	ctx, cancel := context.WithCancel(ctx)
	var failed error
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if failed = awaitConnected(ctx, a.Settled(), a.Status); failed != nil {
			cancel()
		}
	}()
	err := a.Run(ctx)
	cancel()
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

// awaitConnected waits until the servers have settled. The error names those that have
// failed; it is nil when there are none or ctx ended first.
func awaitConnected(ctx context.Context, settled <-chan struct{}, status func() []*upstream.Status) error {
	select {
	case <-settled:
	case <-ctx.Done():
		return nil
	}
	var failed []string
	for _, s := range status() {
		if unreachable(s) {
			failed = append(failed, fmt.Sprintf("server %q did not connect: %s", s.Server, printable(s.LastError)))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return errors.New("--strict: " + strings.Join(failed, "\n  "))
}

// unreachable reports whether the last attempt to connect a server has failed.
func unreachable(s *upstream.Status) bool {
	return s.State == upstream.Failed || s.State == upstream.NeedsAuth
}
