package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/telemetry"
)

// A reload goes through four steps: compile may fail and touches nothing, and since it
// may hang in the file system it has a goroutine of its own; the others are done by the
// conductor: commit cannot fail; publish shows clients the new picture, in
// which changed servers keep their last lists; then the connections that are no longer
// wanted end once their calls have.

// readPatience bounds the wait for the configuration file, and for changes that are
// being made.
const readPatience = 10 * time.Second

// errSlow is the error of a file that hangs when it is read, as on a network file system
// whose server has gone.
var errSlow = errors.New("reading the configuration takes too long")

// errStopped is the error for those who want something of an aggregator that has ended.
var errStopped = errors.New("the aggregator is stopping")

// Reload reads the configuration file anew and takes up what it says. Why names the
// reason in the log. A file that cannot be used changes nothing: the plan then has
// Errors and is not Applied. The error is about the aggregator itself, or ctx.
func (a *App) Reload(ctx context.Context, why string) (admin.Plan, error) {
	return a.change(ctx, why, "file", func() (*config.Config, error) {
		if a.reread == nil {
			return nil, errors.New("there is no file to read the configuration from")
		}
		return a.reread()
	})
}

// SetServers replaces the servers by those of a text {"servers": {...}}, YAML or JSON,
// until the next reload. It is like Reload otherwise.
func (a *App) SetServers(ctx context.Context, text []byte) (admin.Plan, error) {
	return a.change(ctx, "request", "runtime", func() (*config.Config, error) {
		return a.config().WithServers("request", text, nil)
	})
}

// change makes a configuration and has the conductor take it up. Changes are made one
// at a time, in the order in which they were asked for.
func (a *App) change(ctx context.Context, why, source string, compile func() (*config.Config, error)) (plan admin.Plan, err error) {
	patience, cancel := context.WithTimeoutCause(ctx, readPatience, errSlow)
	defer cancel()
	release := func() {}
	next, failure := (*config.Config)(nil), a.begin(patience)
	if failure == nil {
		next, release, failure = a.compiled(patience, compile)
	}
	var hidden *masks
	if failure == nil {
		hidden, failure = newMasks(next, a.force.Load().masks) // nobody else changes that meanwhile
	}
	defer release()
	if errors.Is(failure, errStopped) || ctx.Err() != nil {
		return plan, cmp.Or(context.Cause(ctx), failure) // of the asker, or of the aggregator
	}
	err = a.onConductor(ctx, func() { plan = a.take(why, source, next, hidden, failure) })
	return plan, err
}

// begin waits until no other change is being made.
func (a *App) begin(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-a.ended:
		return errStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// compiled waits for what compile returns. If that takes too long it is left behind,
// and until it returns no other change is made: more would hang beside it. Release lets
// the next change begin; it must be called.
func (a *App) compiled(ctx context.Context, compile func() (*config.Config, error)) (_ *config.Config, release func(), _ error) {
	var next *config.Config
	var err error // both are written before made is closed
	made := make(chan struct{})
	go func() {
		defer close(made)
		next, err = compile()
	}()
	abandon := func(why error) (*config.Config, func(), error) {
		go func() { <-made; <-a.turn }()
		return nil, func() {}, why
	}
	select {
	case <-made:
		return next, func() { <-a.turn }, err
	case <-a.ended:
		return abandon(errStopped)
	case <-ctx.Done():
		return abandon(context.Cause(ctx))
	}
}

// An inForce is the configuration that counts, and where it came from.
type inForce struct {
	*config.Config
	masks   *masks
	own     *catalog.Listing // what the aggregator offers itself; nil: nothing
	shrinks bool             // the results of some tool are not just passed on
	source  string           // "file", or "runtime" after SetServers
	at      time.Time
}

func newInForce(c *config.Config, hidden *masks, source string) *inForce {
	shrinks, _ := c.Treatment()
	return &inForce{c, hidden, offers(c), shrinks, source, time.Now()}
}

func (a *App) config() *config.Config { return a.force.Load().Config }

// take makes a configuration the one in force, or reports why not.
func (a *App) take(why, source string, next *config.Config, hidden *masks, err error) admin.Plan {
	a.metrics.Reload(err == nil)
	if err != nil {
		plan := admin.Plan{Generation: a.rout.Generation().Number, Errors: sentences(err)}
		a.log.Error("configuration not taken up, the one before stays in force", "why", why, "err", err)
		a.warnings.Set("reload", telemetry.Warning{Category: telemetry.Configuration, Message: "the configuration cannot be used; the one before stays in force", Details: strings.Join(plan.Errors, "\n")})
		a.events.Append(telemetry.Reloaded, "", plan)
		return plan
	}
	plan := a.commit(source, next, hidden)
	a.warnings.Clear("reload")
	a.warnRestart(plan.Restart)
	a.events.Append(telemetry.Reloaded, "", plan)
	a.log.Info("configuration taken up", "why", why, "generation", plan.Generation,
		"added", plan.Added, "removed", plan.Removed, "changed", plan.Changed, "settings", plan.Settings)
	return plan
}

// commit makes a valid configuration the one in force. It cannot fail.
func (a *App) commit(source string, next *config.Config, hidden *masks) admin.Plan {
	old := a.config()
	live, restart := config.Compare(old, next)
	next = config.WithRestartSettings(old, next)
	for _, n := range next.Notes {
		a.log.Warn("note on the configuration", "note", n.String())
	}
	a.force.Store(newInForce(next, hidden, source))
	a.settings(next)
	changes := a.set.Apply(next.Servers)
	a.rebuild()
	for _, server := range changes.Removed {
		a.metrics.Forget(server)
		a.forget(server)
	}
	return admin.Plan{
		Generation: a.rout.Generation().Number, Applied: true, Settings: live, Restart: restart,
		Added: changes.Added, Removed: changes.Removed, Changed: changes.Changed,
	}
}

// settings hands the settings that can change to the parts that keep a state by them.
func (a *App) settings(c *config.Config) {
	a.rout.Configure(c)
	if err := a.results.Configure(c); err != nil {
		a.log.Error("a summarizer cannot be used", "err", err)
	}
	if a.level != nil {
		var level slog.Level
		if level.UnmarshalText([]byte(c.Log.Level)) == nil {
			a.level.Set(level)
		}
	}
}

// warnRestart names the settings of the file that are not in force.
func (a *App) warnRestart(settings []string) {
	if len(settings) == 0 {
		a.warnings.Clear("restart")
		return
	}
	names := strings.Join(settings, ", ")
	a.log.Warn("settings that changed need a restart", "settings", names)
	a.warnings.Set("restart", telemetry.Warning{Category: telemetry.Configuration, Message: "settings that changed need a restart", Details: names})
}

// sentences are the problems of a configuration one by one.
func sentences(err error) []string {
	var problems *config.Problems
	if !errors.As(err, &problems) {
		return []string{err.Error()}
	}
	out := make([]string, 0, len(*problems))
	for _, p := range *problems {
		out = append(out, p.String())
	}
	return out
}

// onConductor runs f on the conductor's goroutine and waits for it.
func (a *App) onConductor(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case a.orders <- func() { defer close(done); f() }:
	case <-a.ended:
		return errStopped
	case <-ctx.Done():
		return fmt.Errorf("waiting for the aggregator: %w", context.Cause(ctx))
	}
	<-done // the conductor has taken it and will not go without doing it
	return nil
}
