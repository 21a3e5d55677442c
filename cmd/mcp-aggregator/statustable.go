package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/telemetry"
)

// print writes the overview for people.
func (o *overview) print(w io.Writer, s style, now time.Time) error {
	fmt.Fprintf(w, "%s\n\n", o.head(now))
	if err := o.printServers(w, s, now); err != nil {
		return err
	}
	if open := o.open(); len(open) > 0 {
		fmt.Fprintln(w)
		if err := breakerTable(open, now).print(w); err != nil {
			return err
		}
	}
	if len(o.Queues) > 0 {
		t := &table{}
		t.add("QUEUE", "SLOTS", "RUNNING", "WAITING")
		for _, q := range o.Queues {
			t.add(cell(q.Name), strconv.Itoa(q.Slots), strconv.Itoa(q.Running), strconv.Itoa(q.Waiting))
		}
		fmt.Fprintln(w)
		if err := t.print(w); err != nil {
			return err
		}
	}
	for i, v := range o.notShown() {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "warning: %s (%s ago)\n", line(v.Message), since(v.Time, now))
		for _, detail := range details(&v) {
			fmt.Fprintln(w, "  "+detail)
		}
	}
	return nil
}

// head is the line about the aggregator itself.
func (o *overview) head(now time.Time) string {
	parts := []string{"mcp-aggregator " + line(o.Info.Version)}
	if !o.Info.Started.IsZero() {
		parts = append(parts, "up "+since(o.Info.Started, now))
	}
	parts = append(parts, fmt.Sprintf("generation %d", o.Info.Generation))
	if o.Info.Sessions > 0 {
		parts = append(parts, count(o.Info.Sessions, "session"))
	}
	if n := o.Info.Saved; n > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens saved", n))
	}
	if n := len(o.Warnings); n > 0 {
		parts = append(parts, count(n, "warning"))
	}
	if o.Info.Config != "" {
		parts = append(parts, line(o.Info.Config))
	}
	return strings.Join(parts, " · ")
}

// printServers writes the table of servers. What is amiss with one stands below it.
func (o *overview) printServers(w io.Writer, s style, now time.Time) error {
	if len(o.Servers) == 0 {
		_, err := fmt.Fprintln(w, "no servers")
		return err
	}
	t := &table{}
	t.add("SERVER", "STATE", "SINCE", "PROTOCOL", "TOOLS", "PROMPTS", "RESOURCES", "REFS", "CALLS", "RESTARTS", "NEXT TRY")
	for _, v := range o.Servers {
		tools := strconv.Itoa(v.Tools)
		if v.Stale {
			tools += " stale"
		}
		t.add(cell(v.Name), stateOf(&v), since(v.Since, now), dash(v.Protocol), tools, strconv.Itoa(v.Prompts), strconv.Itoa(v.Resources+v.Templates),
			strconv.Itoa(v.Refs), strconv.Itoa(v.InFlight), strconv.FormatInt(v.Restarts, 10), until(v.Next, now))
	}
	var text strings.Builder
	if err := t.print(&text); err != nil {
		return err
	}
	for i, row := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		if i == 0 {
			fmt.Fprintln(w, s.indent()+row)
			continue
		}
		v := &o.Servers[i-1]
		fmt.Fprintln(w, s.mark(stateOf(v))+row)
		for _, why := range remarksOn(v) {
			fmt.Fprintln(w, s.indent()+"  "+why)
		}
	}
	return nil
}

// indent takes the place of a mark.
func (s style) indent() string {
	if s.marks {
		return "  "
	}
	return ""
}

// stateOf is the state in one word, more precise where somebody has asked for it.
func stateOf(v *admin.Server) string {
	switch {
	case v.State == "disabled":
		return v.State
	case v.Idle:
		return "idle"
	case v.Phase == "disconnected":
		return "disconnected"
	}
	return cell(v.State)
}

// remarksOn are the lines below a server: why it does not work, and lists that it lacks.
func remarksOn(v *admin.Server) (lines []string) {
	if state := stateOf(v); v.LastError != "" && state != "connected" && state != "disabled" && state != "idle" {
		why := "last error: " + line(v.LastError)
		if v.Attempt > 1 {
			why += fmt.Sprintf(" (attempt %d)", v.Attempt)
		}
		lines = append(lines, why)
	}
	for _, d := range v.Degraded {
		lines = append(lines, "not complete: "+line(d))
	}
	rejected := 0
	for _, p := range v.Problems {
		if p.Rejected() {
			rejected++
		}
	}
	if v.Refused > 0 {
		lines = append(lines, fmt.Sprintf("of %d requests of the server to clients %d reached nobody", v.Asked, v.Refused))
	}
	if rejected > 0 {
		lines = append(lines, count(rejected, "definition")+" rejected; /api/v1/mcp/tools says why")
	}
	return lines
}

// open are the breakers that are not closed.
func (o *overview) open() (out []breaker.State) {
	for _, b := range o.Breakers {
		if b.State != breaker.Closed {
			out = append(out, b)
		}
	}
	return out
}

// notShown are the warnings about what the tables do not show.
func (o *overview) notShown() (out []telemetry.Warning) {
	for _, v := range o.Warnings {
		if v.Category != telemetry.Health && v.Category != telemetry.Circuits && v.Category != telemetry.Definitions {
			out = append(out, v)
		}
	}
	return out
}

// maxDetails is how many lines below a warning are shown.
const maxDetails = 10

// details are the lines below a warning, such as the problems of a configuration.
func details(v *telemetry.Warning) (lines []string) {
	if v.Details == "" {
		return nil
	}
	all := strings.Split(v.Details, "\n")
	for _, detail := range all[:min(len(all), maxDetails)] {
		lines = append(lines, line(detail))
	}
	if more := len(all) - maxDetails; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// maxLine is the longest foreign text shown on a line of its own, in characters.
const maxLine = 200

// line makes a foreign text one printable line.
func line(s string) string {
	r := []rune(strings.Join(strings.Fields(printable(s)), " "))
	if len(r) > maxLine {
		r = append(r[:maxLine-1], '…')
	}
	return string(r)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return cell(s)
}

// since is how long ago a time was, "-" for none.
func since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return short(now.Sub(t))
}

// until is when a time will be, "-" for none.
func until(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case t.Sub(now) < time.Second/2:
		return "now"
	}
	return "in " + short(t.Sub(now))
}

// short is a duration as people say it, in at most two units.
func short(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	days, hours, minutes, seconds := d/(24*time.Hour), d/time.Hour%24, d/time.Minute%60, d/time.Second%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}
