package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"

	"mcp-aggregator/internal/builtin"
)

// serverEntry is a server as the file has it: the settings of Server and other ways to write some of them.
type serverEntry struct {
	Server
	ID        string `yaml:"id" for:"claudeai-proxy" doc:"Same as server_id."`
	Disabled  bool   `yaml:"disabled" default:"false" doc:"The opposite of enabled."`
	Shared    bool   `yaml:"shared" default:"true" doc:"false is the same as sharing: session."`
	VerifySSL bool   `yaml:"verify_ssl" for:"http sse websocket claudeai-proxy" default:"true" doc:"The opposite of tls.insecure_skip_verify."`

	Summarize summarizeEntry `yaml:"summarize" short:"enabled" doc:"Same as results with policy: summarize."`
}

// summarizeEntry is the short form of results for summaries.
type summarizeEntry struct {
	Enabled          bool   `yaml:"enabled" default:"true" doc:"false is the same as results: pass."`
	ThresholdTokens  int    `yaml:"threshold_tokens" default:"0" max:"100000000" doc:"Same as results.threshold_tokens."`
	MaxSummaryTokens int    `yaml:"max_summary_tokens" default:"0" max:"1000000" doc:"Same as results.max_summary_tokens."`
	MaxInputTokens   int    `yaml:"max_input_tokens" default:"0" max:"100000000" doc:"Same as results.max_input_tokens."`
	Model            string `yaml:"model" doc:"One of summarizers."`
}

func defaultEntry(name string) *serverEntry {
	e := new(serverEntry)
	setDefaults(serverFields, reflect.ValueOf(e).Elem())
	e.Name = name
	return e
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// servers reads the mapping of names to servers. The order of the file is kept.
func (l *loader) servers(n *node, into *[]*Server) {
	if n.shape == isNull {
		return // reported as no servers
	}
	if n.shape != isMapping {
		l.fail(n, "servers", "expected a mapping of server names to servers, got %s", n.shape)
		return
	}
	for _, p := range n.pairs {
		path := join("servers", short(p.key.text))
		if !serverName.MatchString(p.key.text) {
			l.fail(p.key, path, "a server name begins with a letter or digit and goes on with at most 63 of A-Z a-z 0-9 _ . -")
		}
		if p.val.shape != isMapping {
			l.fail(orKey(p), path, "expected a mapping with command, url or builtin; got %s", p.val.shape)
			continue
		}
		*into = append(*into, l.server(p, path))
	}
}

// orKey is the value's place, or the key's if the value is nothing and has no place of its own.
func orKey(p pair) *node {
	if p.val.shape == isNull {
		return p.key
	}
	return p.val
}

func (l *loader) server(p pair, path string) *Server {
	l.taken, l.telling = nil, nil
	e := defaultEntry(p.key.text)
	l.section(p.val, path, serverFields, reflect.ValueOf(e).Elem())
	c := serverCheck{loader: l, Server: &e.Server, entry: e, n: p.val, key: p.key, path: path}
	c.synonyms()
	if c.inferType() {
		c.relevant()
		c.required()
	}
	c.remote()
	if e.Cwd != "" {
		e.Cwd = l.absolute(e.Cwd)
	}
	e.secrets, e.telling = slices.Clone(l.taken), slices.Clone(l.telling)
	return &e.Server
}

// absolute resolves a path of the file against the file's folder, or the project an editor's file belongs to.
func (l *loader) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if l.foreign {
		return filepath.Join(l.workspace(), path)
	}
	return filepath.Join(l.dir, path)
}

// serverCheck holds a decoded server beside the text it came from, for checks across settings.
type serverCheck struct {
	*loader
	*Server
	entry *serverEntry
	n     *node // the server's mapping
	key   *node // its name
	path  string
}

// failAt reports at a key of the server, or at its name if the key is not there.
func (c *serverCheck) failAt(key, format string, args ...any) {
	c.fail(c.at(key), join(c.path, key), format, args...)
}

func (c *serverCheck) at(key string) *node {
	if k := c.n.key(key); k != nil {
		return k
	}
	return c.key
}

// synonyms folds the other spellings into the settings proper.
func (c *serverCheck) synonyms() {
	if c.n.filled("disabled") {
		if c.n.filled("enabled") && c.Enabled == c.entry.Disabled {
			c.failAt("disabled", "contradicts enabled; keep one of them")
		}
		c.Enabled = !c.entry.Disabled
	}
	if c.n.filled("id") {
		if c.n.filled("server_id") {
			c.failAt("id", "server_id says the same; keep one of them")
		}
		c.ServerID = c.entry.ID
	}
	if c.n.filled("shared") {
		if c.n.filled("sharing") && (c.Sharing == "shared") != c.entry.Shared {
			c.failAt("shared", "contradicts sharing; keep one of them")
		}
		if !c.entry.Shared && !c.n.filled("sharing") {
			c.Sharing = "session"
		}
	}
	c.summarize()
	if c.n.filled("verify_ssl") {
		if c.n.get("tls").get("insecure_skip_verify") != nil && c.TLS.InsecureSkipVerify == c.entry.VerifySSL {
			c.failAt("verify_ssl", "contradicts tls.insecure_skip_verify; keep one of them")
		}
		c.TLS.InsecureSkipVerify = !c.entry.VerifySSL
	}
}

// kindsOfServer are the keys that each make a server of another kind.
var kindsOfServer = []string{"command", "url", "builtin"}

// inferType settles the transport (UP-1). It returns false if the server contradicts itself
// or does not say what it is, which makes further advice guesswork.
func (c *serverCheck) inferType() bool {
	var given []string
	for _, k := range kindsOfServer {
		if c.n.filled(k) {
			given = append(given, k)
		}
	}
	if len(given) > 1 {
		c.failAt(given[1], "contradicts %s in line %d: a server has one of command, url and builtin", given[0], c.at(given[0]).line)
		return false
	}
	if c.Type != "" || c.n.filled("type") {
		return slices.Contains(Types(), c.Type) // else reported while decoding
	}
	switch {
	case len(given) == 0:
		if !c.meantOne(kindsOfServer) {
			c.fail(c.key, c.path, "needs command (a program to start), url (a remote server) or builtin")
		}
		return false
	case given[0] == "command":
		c.Type = TypeStdio
	case given[0] == "builtin":
		c.Type = TypeBuiltin
	case webSocketURL(c.URL):
		c.Type = TypeWebSocket
	default:
		c.Type = TypeHTTP
	}
	return true
}

// meantOne reports whether an unknown key was probably one of these, so that it need not be missed as well.
func (c *serverCheck) meantOne(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return c.meant[join(c.path, k)] })
}

// relevant reports settings that mean nothing to a server of this type.
func (c *serverCheck) relevant() {
	for _, p := range c.n.pairs {
		f, ok := find(serverFields, p.key.text)
		if ok && len(f.types) > 0 && !slices.Contains(f.types, string(c.Type)) && c.n.filled(f.key) {
			c.mind(p.key, join(c.path, f.key), "means nothing with type %s, only with %s", c.Type, oneOf(f.types))
		}
	}
}

// required reports what a server of this type cannot do without.
func (c *serverCheck) required() {
	switch c.Type {
	case TypeStdio:
		c.need("command", c.Command, "the program to start")
	case TypeBuiltin:
		c.need("builtin", c.Builtin, "the name of a server inside this program")
		c.knownBuiltin()
	case TypeClaudeAI:
		c.need("url", c.URL, "the address of the proxy")
		c.need("server_id", c.ServerID, "which server behind the proxy")
		c.need("bearer_token", c.BearerToken, "the proxy serves nobody without one")
	default:
		c.need("url", c.URL, "the address, beginning with "+oneOf(schemesOf(c.Type)))
	}
}

// need reports an empty setting, unless something else was already said about it.
func (c *serverCheck) need(key, value, why string) {
	path := join(c.path, key)
	if value != "" || c.meant[path] || slices.ContainsFunc(c.problems, func(p Problem) bool { return p.Path == path }) {
		return
	}
	if c.n.filled(key) {
		c.failAt(key, "is empty after its variables are replaced; type %s needs %s", c.Type, why)
		return
	}
	c.fail(c.at("type"), c.path, "type %s needs %s: %s", c.Type, key, why)
}

// knownBuiltin checks the name against the servers this program has.
func (c *serverCheck) knownBuiltin() {
	names := slices.Sorted(maps.Keys(builtin.Servers()))
	if c.Builtin == "" {
		return
	}
	if err := checkChoice(c.Builtin, names); err != nil {
		c.wrong(c.n.get("builtin"), join(c.path, "builtin"), err)
	}
}
