package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bench holds the running parts of one measurement.
type bench struct {
	bin    string
	rounds int
	round  time.Duration
	only   string
	procs  []*proc
	dir    string
}

// A scenario compares the aggregator with the limit for one kind of call.
type scenario struct {
	name  string
	shape shape
	conc  int
	hop   string  // "http", "stdio": the upstream's transport; "masked": http, with results searched for secrets; "face": stdio on both sides
	want  float64 // the ratio we hold ourselves to, 0 for none
}

func scenarios() []scenario {
	var all []scenario
	for _, modern := range []bool{false, true} {
		era := map[bool]string{false: "legacy", true: "modern"}[modern]
		for _, c := range []int{1, 16, 64} {
			all = append(all, scenario{fmt.Sprintf("http %s 64 B x%d", era, c), shape{"echo64", modern}, c, "http", 1})
		}
		all = append(all,
			scenario{"http " + era + " 100 kB x1", shape{"log100k", modern}, 1, "http", 0.95},
			scenario{"http " + era + " 100 kB x16", shape{"log100k", modern}, 16, "http", 0.95},
			scenario{"http " + era + " 1 MB x1", shape{"log1m", modern}, 1, "http", 0.9},
			scenario{"http " + era + " 1 MB x16", shape{"log1m", modern}, 16, "http", 0.9},
			scenario{"http " + era + " 1 MB escapes x4", shape{"json1m", modern}, 4, "http", 0},
			scenario{"http " + era + " 1 MB masked x1", shape{"log1m", modern}, 1, "masked", 0},
			scenario{"http " + era + " 1 MB masked x16", shape{"log1m", modern}, 16, "masked", 0},
			scenario{"stdio " + era + " 64 B x1", shape{"echo64", modern}, 1, "stdio", 0.9},
			scenario{"stdio " + era + " 64 B x16", shape{"echo64", modern}, 16, "stdio", 0.9},
			scenario{"stdio " + era + " 100 kB x4", shape{"log100k", modern}, 4, "stdio", 0.9},
		)
	}
	return append(all, scenario{"stdio face legacy 64 B x16", shape{"echo64", false}, 16, "face", 0})
}

// parts are the peers of the scenarios of one era.
type parts struct {
	echo, relay, bridge *proc
	server, lines       string // the aggregator's names of the HTTP and the stdio upstream; of a masked one with x at its end
}

func (b *bench) run() (err error) {
	if b.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.only != "sizes" {
		if err := b.speed(); err != nil {
			return err
		}
		b.stop()
	}
	if b.only == "" || b.only == "sizes" {
		return b.sizes()
	}
	return nil
}

// speed prints the table of ratios.
func (b *bench) speed() error {
	eras, agg, err := b.setUp()
	if err != nil {
		return err
	}
	fmt.Printf("%-28s %10s %10s %10s %7s %6s   %s\n", "calls per second, median", "direct", "limit", "ours", "ratio", "goal", "CPU per call: limit, ours; p99: limit, ours")
	for _, s := range scenarios() {
		if !strings.Contains(s.name, b.only) {
			continue
		}
		if err := b.compare(s, eras[s.shape.modern], agg); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// setUp starts upstreams of both eras, their limits, and one aggregator over all.
func (b *bench) setUp() (map[bool]parts, *proc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	conf := "servers:\n"
	eras := map[bool]parts{}
	for _, modern := range []bool{false, true} {
		os.Setenv("ECHO_LEGACY", map[bool]string{false: "1"}[modern])
		name := map[bool]string{false: "l", true: "m"}[modern]
		p := parts{server: name + "h", lines: name + "s"}
		if p.echo, err = b.role("echo-http"); err != nil {
			return nil, nil, err
		}
		if p.relay, err = b.role("relay", p.echo.url); err != nil {
			return nil, nil, err
		}
		if p.bridge, err = b.role("bridge", self, "echo-stdio"); err != nil {
			return nil, nil, err
		}
		conf += fmt.Sprintf("  %s: {url: %q}\n  %s: {command: %q, args: [echo-stdio], env: {ECHO_LEGACY: %q}}\n  %sx: {url: %q, mask: {sets: [all], code: [kubernetes_secret]}}\n",
			p.server, p.echo.url, p.lines, self, os.Getenv("ECHO_LEGACY"), p.server, p.echo.url)
		eras[modern] = p
	}
	os.Unsetenv("ECHO_LEGACY")
	agg, err := b.aggregator(conf)
	return eras, agg, err
}

// aggregator starts ours over a configuration and waits until it answers.
func (b *bench) aggregator(conf string) (*proc, error) {
	file := filepath.Join(b.dir, "bench.yaml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := b.start(b.bin, "serve", "--config", file, "--http", addr)
	if err != nil {
		return nil, err
	}
	p.url = "http://" + addr + "/mcp"
	for range 400 {
		if _, err = openSession(p.url); err == nil {
			return p, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, fmt.Errorf("the aggregator does not answer: %w", err)
}

// compare measures one scenario in alternating rounds and prints its line.
func (b *bench) compare(s scenario, p parts, agg *proc) error {
	direct, limit, ours, err := b.contenders(s, p, agg)
	if err != nil {
		return err
	}
	all := []*contender{direct, limit, ours}
	defer func() {
		for _, c := range all {
			c.close()
		}
	}()
	for _, c := range all { // warm up
		if _, err := load(c.callers, b.round/4, c.proc); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	var ratios []float64
	for r := range b.rounds {
		for i := range all {
			c := all[(i+r)%len(all)]
			got, err := load(c.callers, b.round, c.proc)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			c.samples = append(c.samples, got)
		}
		ratios = append(ratios, ours.samples[r].perSecond/limit.samples[r].perSecond)
	}
	goal := "-"
	if s.want > 0 {
		goal = fmt.Sprintf("%.2f", s.want)
	}
	fmt.Printf("%-28s %10.0f %10.0f %10.0f %7.2f %6s   %v, %v; %v, %v\n", s.name, direct.rate(), limit.rate(), ours.rate(), median(ratios), goal,
		limit.cpu(), ours.cpu(), limit.p99(), ours.p99())
	return nil
}

// A contender is one way to the upstream.
type contender struct {
	name    string
	proc    *proc
	callers []caller
	samples []sample
}

func (c *contender) close() {
	for _, caller := range c.callers {
		caller.close()
	}
}

func (c *contender) rate() float64 {
	return median(each(c.samples, func(s sample) float64 { return s.perSecond }))
}

func (c *contender) cpu() time.Duration {
	return median(each(c.samples, func(s sample) time.Duration { return s.cpu })).Round(time.Microsecond)
}

func (c *contender) p99() time.Duration {
	return median(each(c.samples, func(s sample) time.Duration { return s.percentile(0.99) })).Round(10 * time.Microsecond)
}

func each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func median[T cmp.Ordered](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}

// contenders connects the callers of a scenario: to the upstream itself, to the
// limit and to ours.
func (b *bench) contenders(s scenario, p parts, agg *proc) (direct, limit, ours *contender, err error) {
	if s.hop == "face" {
		return b.lineContenders(s, p)
	}
	target, way, server := p.echo, p.relay, p.server
	switch s.hop {
	case "stdio":
		target, way, server = p.bridge, p.bridge, p.lines
	case "masked":
		server += "x"
	}
	direct = &contender{name: "direct", proc: target}
	limit = &contender{name: "limit", proc: way}
	ours = &contender{name: "ours", proc: agg}
	for _, c := range []*contender{direct, limit, ours} {
		peer, name := c.proc.url, s.shape.tool
		if c == ours {
			name = server + "__" + name
		}
		headers, err := "", error(nil)
		if !s.shape.modern {
			if headers, err = openSession(peer); err != nil {
				return nil, nil, nil, err
			}
		}
		for i := range s.conc {
			id := 1000 + i
			if c == direct {
				id += 1000 // direct and limit can be the same process, which tells calls apart by id
			}
			hc, err := newHTTPCaller(peer, name, s.shape, id, headers)
			if err != nil {
				return nil, nil, nil, err
			}
			c.callers = append(c.callers, hc)
		}
	}
	return direct, limit, ours, nil
}

// lineContenders speaks lines to both ends; there is no cheaper limit than the
// upstream itself.
func (b *bench) lineContenders(s scenario, p parts) (direct, limit, ours *contender, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	echo, err := b.start(self, "echo-stdio")
	if err != nil {
		return nil, nil, nil, err
	}
	agg, err := b.start(b.bin, "serve", "--config", filepath.Join(b.dir, "bench.yaml"), "--stdio")
	if err != nil {
		return nil, nil, nil, err
	}
	direct, limit, ours = &contender{name: "direct", proc: echo}, &contender{name: "limit", proc: echo}, &contender{name: "ours", proc: agg}
	up, err := newLineClient(echo)
	if err != nil {
		return nil, nil, nil, err
	}
	down, err := newLineClient(agg)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range s.conc {
		direct.callers = append(direct.callers, newStdioCaller(up, s.shape.tool, s.shape, 1000+i))
		limit.callers = append(limit.callers, newStdioCaller(up, s.shape.tool, s.shape, 2000+i))
		ours.callers = append(ours.callers, newStdioCaller(down, p.lines+"__"+s.shape.tool, s.shape, 1000+i))
	}
	return direct, limit, ours, nil
}
