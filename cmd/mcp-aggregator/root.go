package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

const about = `mcp-aggregator connects to the MCP servers of a configuration file and serves all
their tools, prompts and resources at one endpoint, over HTTP or standard input and output.

Without a command it serves. The configuration is the file given with --config, else
$MCP_CONFIG, else mcp-aggregator.yaml or config.yaml in the current folder.
`

const exitCodes = `
Exit codes:
  0  success
  1  failure: a server or an address could not be reached, a call failed
  2  wrong usage: unknown command, flag or argument
  3  the configuration is missing or has problems
  4  the tool ran and reported an error (isError)
`

const examples = `  mcp-aggregator --config config.example.yaml        serve http://127.0.0.1:8080/mcp
  mcp-aggregator --stdio                             serve standard input and output
  mcp-aggregator validate --connect                  check the file and every server
  mcp-aggregator list tools                          show the tools of all servers
  mcp-aggregator call demo__echo message=hello       call one
  mcp-aggregator status                              show how the servers of a running one are`

// cli is one run of the program: where it reads and writes, and the flags all commands share.
type cli struct {
	in       io.Reader
	out, err io.Writer

	configPath string
	logLevel   string
	adminURL   string
	started    bool // a command began; errors before that are mistakes in its usage
}

// run is the program; it returns the exit code.
func run(args []string, in io.Reader, out, err io.Writer) int {
	c := &cli{in: in, out: out, err: err}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(err)
	cmd, failure := root.ExecuteContextC(context.Background())
	return c.report(cmd.CommandPath(), failure)
}

// root is the command tree. The root itself serves.
func (c *cli) root() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:               "mcp-aggregator",
		Short:             "One MCP endpoint for many MCP servers",
		Long:              about + exitCodes,
		Example:           examples,
		Version:           readBuild().version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRun:  func(*cobra.Command, []string) { c.started = true },
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), f) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.SetVersionTemplate(readBuild().String() + "\n")
	f.add(cmd)
	flags := cmd.PersistentFlags()
	flags.StringVarP(&c.configPath, "config", "c", "", "configuration `file`, YAML or an mcpServers JSON file")
	flags.StringVar(&c.logLevel, "log-level", "", "least severe `level` logged on standard error: debug, info, warn or error")
	must(cmd.MarkPersistentFlagFilename("config", "yaml", "yml", "json"))
	must(cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp)))
	cmd.AddCommand(c.serveCommand(), c.validateCommand(), c.listCommand(), c.callCommand(), c.schemaCommand(), c.versionCommand(),
		c.statusCommand(), c.logsCommand(), c.reloadCommand(), c.breakersCommand())
	cmd.AddCommand(c.controlCommands()...)
	return cmd
}

// must is for errors that only a mistake in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
