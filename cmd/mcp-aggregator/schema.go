package main

import (
	"github.com/spf13/cobra"

	"mcp-aggregator/internal/config"
)

func (c *cli) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := c.out.Write(config.Schema())
			return err
		},
	}
}
