// Command bench measures what the aggregator costs, as ratios inside one run.
//
//	bench -bin bin/mcp-aggregator          the table of ratios and the sizes
//	bench -bin ... -rounds 3 -round 300ms  a quick look
//	bench -bin ... -smoke                  does everything answer correctly?
//
// Every figure is taken beside the same figure of a bare relay (net/http's
// ReverseProxy with a tuned transport; a bare HTTP-to-stdio bridge) and of a direct
// call, in alternating rounds, so that a busy machine slows all of them alike. The
// ratio is the median over the rounds. The load generator speaks raw HTTP/1.1 or
// lines and compares every answer byte for byte with what the upstream must send.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// A role is what this binary does when it is started again as a part of the bench.
var roles = map[string]func(args []string) error{
	"echo-http":  echoHTTP,
	"echo-stdio": echoStdio,
	"relay":      relay,
	"bridge":     stdioBridge,
	"farm":       farm,
}

func main() {
	if len(os.Args) > 1 {
		if role := roles[os.Args[1]]; role != nil {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	bin := flag.String("bin", "bin/mcp-aggregator", "the aggregator")
	rounds := flag.Int("rounds", 7, "rounds per figure")
	round := flag.Duration("round", 700*time.Millisecond, "length of a round")
	only := flag.String("only", "", "run only scenarios whose name contains this; \"sizes\" for start-up and memory")
	smoke := flag.Bool("smoke", false, "one short round of everything: does it work?")
	flag.Parse()
	if *smoke {
		*rounds, *round = 1, 100*time.Millisecond
	}
	b := &bench{bin: *bin, rounds: *rounds, round: *round, only: *only}
	err := b.run()
	b.stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
