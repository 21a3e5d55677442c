package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"mcp-aggregator/internal/wire"
)

// version is set when a release is built, with -ldflags "-X main.version=1.2.3";
// otherwise the build information of the module says what it knows.
var version string

// build says what this binary was made from.
type build struct {
	version, commit string
}

func readBuild() build {
	b := build{version: version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.commit = s.Value[:min(12, len(s.Value))]
		}
	}
	if b.version == "" {
		b.version = info.Main.Version
	}
	if b.version == "" || b.version == "(devel)" {
		b.version = "devel"
	}
	return b
}

// String is the line that version prints.
func (b build) String() string {
	line := "mcp-aggregator " + b.version
	if b.commit != "" {
		line += " (" + b.commit + ")"
	}
	return fmt.Sprintf("%s %s %s/%s", line, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// protocols lists the revisions of the protocol that are spoken, newest first.
func protocols() []string { return slices.Concat(wire.ModernVersions, wire.LegacyVersions) }

func (c *cli) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version and the protocol revisions it speaks",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if !asJSON {
				_, err := fmt.Fprintln(c.out, b)
				return err
			}
			return c.printJSON(struct {
				Version   string   `json:"version"`
				Commit    string   `json:"commit,omitempty"`
				Go        string   `json:"go"`
				Platform  string   `json:"platform"`
				Protocols []string `json:"protocols"`
			}{b.version, b.commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, protocols()})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
