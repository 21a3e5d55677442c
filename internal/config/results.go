package config

import (
	"maps"
	"slices"
	"time"

	"mcp-aggregator/internal/mask"
)

// Policies say what happens to the result of a tool that is larger than its threshold.
const (
	PolicyPass      = "pass"      // it is passed on
	PolicyPage      = "page"      // the client gets its beginning, and where to read on
	PolicyDigest    = "digest"    // the client gets a digest made without a model
	PolicySummarize = "summarize" // the client gets a summary made by a model
	PolicyBlock     = "block"     // the client gets an error
)

// Names of summarizers that need no definition.
const (
	SummarizerSampling = "sampling" // the model of the calling client, where it offers that
	SummarizerDigest   = "digest"   // no model
)

// Results is how large results are treated.
type Results struct {
	Policy           string   `yaml:"policy" default:"pass" enum:"pass page digest summarize block" doc:"What happens to a result larger than the threshold: pass passes it on, page gives its beginning, digest a digest made without a model, summarize a summary made by a model, block an error. But for pass and block the whole stays readable."`
	ThresholdTokens  int      `yaml:"threshold_tokens" default:"5000" min:"1" max:"100000000" doc:"Largest result that is passed on whatever the policy, in tokens."`
	MaxSummaryTokens int      `yaml:"max_summary_tokens" default:"1000" min:"10" max:"1000000" doc:"Longest digest or summary, in tokens."`
	MaxInputTokens   int      `yaml:"max_input_tokens" default:"100000" min:"10" max:"100000000" doc:"Most of a result that a model is given, in tokens; the rest is cut off at a line."`
	Structured       string   `yaml:"structured" default:"keep" enum:"keep drop" doc:"Results with structuredContent of tools that declare an outputSchema: keep passes them on whole, drop leaves both out, in the definition of the tool and in results that are made smaller."`
	Summarizers      []string `yaml:"summarizers" doc:"What makes summaries: names of summarizers, tried in this order. sampling is the model of the calling client, digest none. Absent: all that are defined, then sampling."`
	Estimate         string   `yaml:"estimate" default:"auto" enum:"auto chars" doc:"How tokens are counted: auto looks at what the text consists of, chars takes four characters for one."`
	HostLimit        bool     `yaml:"host_limit" default:"true" doc:"A tool that declares anthropic/maxResultSizeChars in its _meta has that as its threshold, unless one is configured for it or its server."`
	Summary          Summary  `yaml:"summary" doc:"Bounds on the work of models."`
	Keep             Keep     `yaml:"keep" restart:"yes" doc:"Where the originals of results that were made smaller are kept, for the tool result_read and for resources/read."`
}

// Summary bounds what models are asked to do.
type Summary struct {
	Timeout         time.Duration `yaml:"timeout" default:"30s" min:"1ms" max:"10m" doc:"Longest a summary may take, whatever is tried. After that the client gets the beginning of the result."`
	Concurrency     int           `yaml:"concurrency" default:"4" min:"1" max:"1000" doc:"Summaries made at the same time; others wait, within timeout."`
	TokensPerMinute int           `yaml:"tokens_per_minute" default:"0" max:"1000000000" doc:"Tokens that models are given and give back within a minute. 0: no limit."`
	Cache           int           `yaml:"cache" default:"1000" max:"100000" doc:"Summaries remembered, for results that come again. 0: none."`
}

// Keep bounds what is kept of results. Sizes are bytes.
type Keep struct {
	TTL    time.Duration `yaml:"ttl" default:"1h" min:"1s" max:"720h" doc:"How long an original is kept after it was read last."`
	Memory int           `yaml:"memory" kind:"size" default:"64MiB" min:"4KiB" max:"64GiB" doc:"Originals in memory; those not used for the longest time move to disk."`
	Disk   int           `yaml:"disk" kind:"size" default:"1GiB" max:"1024GiB" doc:"Originals on disk, in a folder of this process that goes with it. 0: none."`
	Each   int           `yaml:"each" kind:"size" default:"64MiB" min:"1KiB" max:"1GiB" doc:"Longest original; a longer one is cut off at a line."`
}

// ResultRules are the settings of results that a server or a tool has of its own. What is absent is as in
// general.
type ResultRules struct {
	Policy           string   `yaml:"policy" enum:"pass page digest summarize block" doc:"What happens to a result larger than the threshold."`
	ThresholdTokens  int      `yaml:"threshold_tokens" default:"0" max:"100000000" doc:"Largest result that is passed on whatever the policy, in tokens. 0: as in general."`
	MaxSummaryTokens int      `yaml:"max_summary_tokens" default:"0" max:"1000000" doc:"Longest digest or summary, in tokens. 0: as in general."`
	MaxInputTokens   int      `yaml:"max_input_tokens" default:"0" max:"100000000" doc:"Most of a result that a model is given, in tokens. 0: as in general."`
	Structured       string   `yaml:"structured" enum:"keep drop" doc:"Results with structuredContent of tools that declare an outputSchema."`
	Summarizers      []string `yaml:"summarizers" doc:"What makes summaries."`
}

// A Summarizer is a model that makes summaries.
type Summarizer struct {
	Type    string            `yaml:"type" default:"openai" enum:"openai anthropic" doc:"The protocol it speaks: openai is any endpoint for chat completions of that form."`
	URL     string            `yaml:"url" doc:"Address of the API up to its version, such as http://127.0.0.1:11434/v1. Absent: that of the vendor."`
	Model   string            `yaml:"model" doc:"Name of the model."`
	APIKey  string            `yaml:"api_key" doc:"Key for the API. Absent: none is sent."`
	Headers map[string]string `yaml:"headers" doc:"Headers sent with every request."`
	Timeout time.Duration     `yaml:"timeout" default:"0s" max:"10m" doc:"Longest this model may take, so that the next one gets a turn. 0s: results.summary.timeout."`
}

// Mask says what is hidden in results before anybody sees them.
type Mask struct {
	Sets     []string          `yaml:"sets" each:"maskset" doc:"Built-in kinds of secrets: default is all of well-known form, generic what stands behind a telling name, all both; the others are parts of default."`
	Patterns map[string]string `yaml:"patterns" doc:"Own patterns: a name, then a regular expression (RE2). What its first group matches is hidden, or all of it if it has none."`
	Code     []string          `yaml:"code" each:"maskcode" doc:"Maskers that know a format: kubernetes_secret hides the data of Secrets in JSON and YAML."`
}

// IsZero reports whether nothing is to be hidden.
func (m Mask) IsZero() bool { return len(m.Sets)+len(m.Patterns)+len(m.Code) == 0 }

// ServerMask is what is hidden in the results of one server.
type ServerMask struct {
	General  bool              `yaml:"general" default:"true" doc:"Also what the general mask hides."`
	Sets     []string          `yaml:"sets" each:"maskset" doc:"Built-in kinds of secrets, see mask.sets."`
	Patterns map[string]string `yaml:"patterns" doc:"Own patterns: a name, then a regular expression (RE2)."`
	Code     []string          `yaml:"code" each:"maskcode" doc:"Maskers that know a format."`
}

// MaskSets and MaskCodes are the names that sets and code take, in the order of the documentation.
var (
	MaskSets  = maskSets()
	MaskCodes = []string{mask.KubernetesSecret}
)

func maskSets() (names []string) {
	for _, s := range mask.Sets() {
		names = append(names, s.Name)
	}
	return names
}

// MaskOf is what is hidden in the results of a server.
func (c *Config) MaskOf(s *Server) Mask {
	m := Mask{slices.Clone(s.Mask.Sets), maps.Clone(s.Mask.Patterns), slices.Clone(s.Mask.Code)}
	if !s.Mask.General {
		return m
	}
	for _, set := range c.Mask.Sets {
		m.Sets = appendNew(m.Sets, set)
	}
	for _, code := range c.Mask.Code {
		m.Code = appendNew(m.Code, code)
	}
	for name, p := range c.Mask.Patterns {
		if _, own := m.Patterns[name]; !own {
			if m.Patterns == nil {
				m.Patterns = map[string]string{}
			}
			m.Patterns[name] = p
		}
	}
	return m
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// ResultsOf is how the results of a tool are treated: its own rules, then those of its server, then the general
// ones. Either may be nil. Own says that the threshold is not the general one.
func (c *Config) ResultsOf(s *Server, t *ToolOverride) (r Results, own bool) {
	r = c.Results
	if s != nil {
		own = r.apply(&s.Results)
	}
	if t != nil {
		own = r.apply(&t.Results) || own
	}
	return r, own
}

// apply puts rules over more general ones.
func (r *Results) apply(o *ResultRules) (threshold bool) {
	set(&r.Policy, o.Policy)
	set(&r.ThresholdTokens, o.ThresholdTokens)
	set(&r.MaxSummaryTokens, o.MaxSummaryTokens)
	set(&r.MaxInputTokens, o.MaxInputTokens)
	set(&r.Structured, o.Structured)
	if o.Summarizers != nil {
		r.Summarizers = o.Summarizers
	}
	return o.ThresholdTokens != 0
}

func set[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

// DropsStructured reports whether results of the tool lose their structuredContent when they are made smaller,
// so that its outputSchema must not be shown. Servers have got what they do not say themselves from the general
// settings.
func (s *Server) DropsStructured(tool string) bool {
	var r Results
	r.apply(&s.Results)
	if t := s.ToolOverrides[tool]; t != nil {
		r.apply(&t.Results)
	}
	return r.Structured == "drop" && r.Policy != "" && r.shrinks()
}

// Treatment reports whether the results of some tool are not just passed on, and whether some may be made
// smaller, so that there are originals to read.
func (c *Config) Treatment() (some, smaller bool) {
	look := func(s *Server, t *ToolOverride) {
		r, _ := c.ResultsOf(s, t)
		some = some || r.Policy != PolicyPass
		smaller = smaller || r.shrinks()
	}
	for _, s := range c.Servers {
		look(s, nil)
		for _, t := range s.ToolOverrides {
			look(s, t)
		}
	}
	return some, smaller
}

func (r *Results) shrinks() bool { return r.Policy != PolicyPass && r.Policy != PolicyBlock }
