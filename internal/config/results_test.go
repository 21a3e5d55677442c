package config_test

import (
	"strings"
	"testing"

	"mcp-aggregator/internal/config"
)

func TestPatternsThatCannotBeUsedAreReportedWhereTheyStand(t *testing.T) {
	for pattern, want := range map[string]string{
		`a: "(open"`:          "test.yaml:3:17: mask.patterns.a: ",
		`a: "x*"`:             "test.yaml:3:17: mask.patterns.a: matches the empty text",
		`"my name": "xy"`:     "test.yaml:3:25: mask.patterns.my name: ",
		`a: "[ab]{900}{900}"`: "test.yaml:3:17: mask.patterns.a: ",
	} {
		_, err := config.Parse("test.yaml", []byte("servers: {a: {builtin: notes}}\nmask:\n  patterns: {"+pattern+"}\n"), env)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func TestAModelWithoutItsNameIsReportedWhereItStands(t *testing.T) {
	_, err := config.Parse("test.yaml", []byte("servers: {a: {builtin: notes}}\nsummarizers:\n  fast:\n    url: http://127.0.0.1:1/v1\n"), env)
	if err == nil || !strings.HasPrefix(err.Error(), "test.yaml:4:") || !strings.Contains(err.Error(), "summarizers.fast.model: is missing") {
		t.Error(err)
	}
}
