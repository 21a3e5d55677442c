package config

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"

	"mcp-aggregator/internal/mask"
)

// results checks what the settings of results say together.
func (l *loader) results(c *Config, root *node) {
	l.knownSummarizers(c, root.get("results"), "results", c.Results.Summarizers)
	l.patterns(root.get("mask"), "mask", c.Mask.Patterns)
	for name, s := range c.Summarizers {
		l.summarizer(root.get("summarizers").get(name), join("summarizers", short(name)), name, s)
	}
	servers := root.get("servers")
	for _, s := range c.Servers {
		n, path := servers.get(s.Name), join("servers", s.Name)
		l.knownSummarizers(c, n.get("results"), join(path, "results"), s.Results.Summarizers)
		l.patterns(n.get("mask"), join(path, "mask"), s.Mask.Patterns)
		for name, t := range s.ToolOverrides {
			if t != nil {
				at := join(join(path, "tool_overrides"), short(name))
				l.knownSummarizers(c, n.get("tool_overrides").get(name).get("results"), join(at, "results"), t.Results.Summarizers)
			}
		}
	}
}

// patterns reports own patterns that cannot be used.
func (l *loader) patterns(section *node, path string, patterns map[string]string) {
	o, at := mask.Options{}, section.get("patterns")
	for name, p := range patterns {
		one := []mask.Pattern{{Name: name, Regexp: p}}
		_, err := mask.New(mask.Options{Patterns: one})
		if re, _ := regexp.Compile(p); err == nil && re.MatchString("") {
			err = errors.New("matches the empty text, so it would match everywhere")
		}
		if err != nil {
			l.fail(orPlace(cmp.Or(at.get(name), at)), join(join(path, "patterns"), short(name)), "%v", err)
		}
		o.Patterns = append(o.Patterns, one...)
	}
	if len(o.Patterns) > 1 {
		if _, err := mask.New(o); err != nil && len(l.problems) == 0 {
			l.fail(orPlace(at), join(path, "patterns"), "%v", err)
		}
	}
}

// summarizer checks the definition of a model.
func (l *loader) summarizer(n *node, path, name string, s *Summarizer) {
	if name == SummarizerSampling || name == SummarizerDigest {
		l.fail(orPlace(n), path, "%s needs no definition and cannot have one; take another name", name)
		return
	}
	if s.Model == "" {
		l.fail(orPlace(cmp.Or(n.get("model"), n)), join(path, "model"), "is missing: which model is to be asked?")
	}
	if s.URL != "" {
		if err := checkAPI(s.URL); err != nil {
			l.fail(orPlace(n.get("url")), join(path, "url"), "%v", err)
		}
	}
	for h, v := range s.Headers {
		if !validToken(h) || !validHeaderValue(v) {
			l.fail(orPlace(n.get("headers").get(h)), join(join(path, "headers"), short(h)), "not a header")
		}
	}
}

// knownSummarizers reports names that nothing defines.
func (l *loader) knownSummarizers(c *Config, section *node, path string, names []string) {
	for i, name := range names {
		if name == SummarizerSampling || name == SummarizerDigest || c.Summarizers[name] != nil {
			continue
		}
		known := append(slices.Sorted(maps.Keys(c.Summarizers)), SummarizerSampling, SummarizerDigest)
		hint, _ := didYouMean(name, known)
		list, at := section.get("summarizers"), join(path, "summarizers")
		if list == nil || i >= len(list.items) || list.items[i].text != name { // from a variable, whose value is not shown
			l.problems = append(l.problems, Problem{File: "environment", Path: at, Message: envName(at) + ": names a summarizer that is not defined"})
			continue
		}
		l.fail(list.items[i], at, "there is no summarizer %q%s", short(list.items[i].text), hint)
	}
}

// checkAPI checks the address of a model's API, which a key is sent to.
func checkAPI(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("expected an address such as http://127.0.0.1:11434/v1, without a query")
	}
	return nil
}

// summarize folds the short form {enabled, threshold_tokens, …, model} into results.
func (c *serverCheck) summarize() {
	n, e := c.n.get("summarize"), &c.entry.Summarize
	if n == nil || n.shape == isNull {
		return
	}
	if c.n.filled("results") {
		c.failAt("summarize", "results says the same; keep one of them")
		return
	}
	if !n.filled("enabled") || e.Enabled {
		c.Results.Policy = PolicySummarize
	} else {
		c.Results.Policy = PolicyPass
	}
	c.Results.ThresholdTokens, c.Results.MaxSummaryTokens, c.Results.MaxInputTokens = e.ThresholdTokens, e.MaxSummaryTokens, e.MaxInputTokens
	if e.Model != "" {
		c.Results.Summarizers = []string{e.Model}
	}
}
