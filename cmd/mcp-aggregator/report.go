package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/upstream"
)

// report is what validate found out. Its JSON form is part of the interface.
type report struct {
	Path    string          `json:"path"`
	OK      bool            `json:"ok"`
	Servers []*serverReport `json:"servers"`
	Notes   []string        `json:"notes,omitempty"` // of the configuration

	// Only after the servers have been connected.
	inspected bool
	Tools     []toolReport      `json:"tools,omitempty"`
	Problems  []catalog.Problem `json:"definitions,omitempty"` // rejected or changed
}

type serverReport struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Target  string `json:"target"` // what is started or connected, without secrets
	Prefix  string `json:"prefix"`
	Enabled bool   `json:"enabled"`

	State     string `json:"state,omitempty"`
	Protocol  string `json:"protocol,omitempty"`
	Tools     int    `json:"tools,omitempty"`
	Prompts   int    `json:"prompts,omitempty"`
	Resources int    `json:"resources,omitempty"` // with templates
	Error     string `json:"error,omitempty"`

	Degraded []string `json:"degraded,omitempty"` // lists that could not be read, and why
}

type toolReport struct {
	Name   string `json:"name"`   // what clients use
	Server string `json:"server"` // who has it
	Own    string `json:"own"`    // the name it has there
}

// newReport describes a configuration without problems.
func newReport(cfg *config.Config) *report {
	r := &report{Path: cfg.Path, OK: true, Servers: []*serverReport{}}
	for _, s := range cfg.Servers {
		prefix := s.Name
		if s.Prefix != nil {
			prefix = *s.Prefix
		}
		r.Servers = append(r.Servers, &serverReport{
			Name: s.Name, Type: string(s.Type), Target: target(s), Prefix: prefix, Enabled: s.Enabled,
		})
	}
	for _, n := range cfg.Notes {
		r.Notes = append(r.Notes, n.String())
	}
	return r
}

// target says what a server is reached by, without secrets.
func target(s *config.Server) string {
	shown := s.Redacted()
	switch s.Type {
	case config.TypeStdio:
		return strings.Join(append([]string{shown.Command}, shown.Args...), " ")
	case config.TypeBuiltin:
		return shown.Builtin
	}
	return shown.URL
}

// addStatus adds how the servers are after they were connected.
func (r *report) addStatus(status []*upstream.Status) {
	found := make(map[string]*upstream.Status, len(status))
	for _, st := range status {
		found[st.Server] = st
	}
	for _, s := range r.Servers {
		if st := found[s.Name]; st != nil {
			s.State, s.Protocol, s.Error = string(st.State), st.Version, printable(st.LastError)
			s.Tools, s.Prompts, s.Resources = st.Tools, st.Prompts, st.Resources+st.Templates
			for _, d := range st.Degraded {
				s.Degraded = append(s.Degraded, printable(d))
			}
		}
	}
}

func (r *report) addTools(s *catalog.Snapshot) {
	for _, e := range s.Entries(catalog.Tools) {
		r.Tools = append(r.Tools, toolReport{Name: e.Exposed, Server: e.Server, Own: e.Name})
	}
}

// print writes the report for people.
func (r *report) print(w io.Writer) error {
	verdict := "ok"
	if !r.OK {
		verdict = "ok, but not every server could be reached"
	}
	fmt.Fprintf(w, "%s: %s\n\n", r.Path, verdict)
	if err := r.servers().print(w); err != nil {
		return err
	}
	if len(r.Tools) > 0 {
		fmt.Fprintln(w)
		t := &table{}
		t.add("TOOL", "SERVER", "ITS NAME THERE")
		for _, tool := range r.Tools {
			t.add(printable(tool.Name), dash(tool.Server), printable(tool.Own))
		}
		if err := t.print(w); err != nil {
			return err
		}
	}
	if remarks := r.remarks(); len(remarks) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(remarks, "\n"))
	}
	return nil
}

// remarks are the lines below the tables: what is not as it should be, or not as written.
func (r *report) remarks() []string {
	var lines []string
	for _, s := range r.Servers {
		for _, d := range s.Degraded {
			lines = append(lines, fmt.Sprintf("server %q: %s", s.Name, d))
		}
	}
	for _, p := range r.Problems {
		lines = append(lines, p.String())
	}
	for _, n := range r.Notes {
		lines = append(lines, "note: "+printable(n))
	}
	return lines
}

// servers is the table of servers: how they are configured or, once they have been
// connected, how they are.
func (r *report) servers() *table {
	t := &table{}
	if !r.inspected {
		t.add("SERVER", "TYPE", "ENABLED", "PREFIX", "TARGET")
		for _, s := range r.Servers {
			t.add(s.Name, s.Type, yesNo(s.Enabled), s.Prefix, cell(s.Target))
		}
		return t
	}
	t.add("SERVER", "TYPE", "STATE", "PROTOCOL", "TOOLS", "PROMPTS", "RESOURCES", "TARGET")
	for _, s := range r.Servers {
		t.add(s.Name, s.Type, s.State, s.Protocol,
			strconv.Itoa(s.Tools), strconv.Itoa(s.Prompts), strconv.Itoa(s.Resources), cell(s.Target))
	}
	return t
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// problem is one problem of a configuration as JSON.
type problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"` // of the setting
	Message string `json:"message"`
}

// problemReport is the JSON form of a configuration with problems.
func problemReport(problems config.Problems) any {
	list := make([]problem, len(problems))
	for i, p := range problems {
		list[i] = problem{File: p.File, Line: p.Line, Column: p.Col, Path: p.Path, Message: p.Message}
	}
	return struct {
		OK       bool      `json:"ok"`
		Problems []problem `json:"problems"`
	}{false, list}
}
