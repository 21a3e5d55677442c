package config

import (
	"regexp"
	"strings"
)

// The JSON files of other programs: {"mcpServers": …} of Claude Desktop, Claude Code, Cursor and others,
// {"servers": …, "inputs": …} of VS Code. They are not ours to be strict about: what means nothing here is
// dropped, what is unknown is noted.

// foreignKeys are settings of a server in other programs that change nothing about it here.
var foreignKeys = map[string]bool{"alwaysAllow": true, "autoApprove": true, "oauth": true, "gallery": true, "version": true,
	"dev": true, "description": true, "name": true, "icon": true, "trust": true, "$schema": true}

// adopt rewrites a foreign file into the form of ours.
func (l *loader) adopt(root *node) *node {
	if root.shape != isMapping {
		return root
	}
	if mcp := root.get("mcp"); mcp.get("servers") != nil { // VS Code's settings.json
		root = mcp
	}
	theirs := root.key("mcpServers")
	if theirs != nil && root.get("servers") != nil {
		l.fail(theirs, "", "both servers and mcpServers are given; move everything into one of them")
	}
	// Claude Code keeps its whole state in this file; only the servers of the user are meant.
	onlyServers := root.get("projects") != nil
	out := *root
	out.pairs = nil
	for _, p := range root.pairs {
		switch key := p.key.text; {
		case key == "inputs":
			l.readInputs(p.val)
		case key == "mcpServers" || key == "servers" && theirs == nil:
			renamed := *p.key
			renamed.text = "servers"
			out.pairs = append(out.pairs, pair{&renamed, p.val})
		case !onlyServers && key != "$schema" && key != "servers":
			out.pairs = append(out.pairs, p)
		}
	}
	l.adoptServers(out.get("servers"))
	return &out
}

func (l *loader) readInputs(n *node) {
	l.inputs = map[string]string{}
	for _, in := range n.items {
		if id, def := in.get("id"), in.get("default"); id != nil && def != nil {
			l.inputs[id.text] = def.text
		}
	}
}

func (l *loader) adoptServers(n *node) {
	if n == nil || n.shape != isMapping {
		return
	}
	taken := map[string]bool{}
	for _, p := range n.pairs {
		taken[p.key.text] = true
	}
	for _, p := range n.pairs {
		l.adoptName(p.key, taken)
		if p.val.shape == isMapping {
			l.adoptServer(p.val, join("servers", p.key.text))
		}
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// adoptName makes a server name of names such as "My Server" and "io.github.acme/tool", which other programs allow.
func (l *loader) adoptName(key *node, taken map[string]bool) {
	if serverName.MatchString(key.text) {
		return
	}
	name := strings.TrimLeft(notInNames.ReplaceAllString(key.text, "-"), "_.-")
	name = strings.TrimRight(name[:min(len(name), 60)], "-")
	if name == "" {
		name = "server"
	}
	free := name
	for i := 1; taken[free]; i++ {
		free = name + "-" + strings.Repeat("x", i)
	}
	l.mind(key, join("servers", free), "the server %q is called %q here", short(key.text), free)
	taken[free] = true
	key.text = free
}

// adoptServer renames and drops keys of one server in place.
func (l *loader) adoptServer(n *node, path string) {
	var kept []pair
	var envFile *node
	for _, p := range n.pairs {
		switch key := p.key.text; {
		case foreignKeys[key]:
		case key == "timeout" && p.val.shape == isNumber: // seconds for some, milliseconds for others
		case key == "envFile":
			envFile = p.val
		case (key == "serverUrl" || key == "httpUrl") && !n.filled("url"):
			p.key.text = "url"
			kept = append(kept, p)
		case (key == "transport" || key == "transportType") && !n.filled("type"):
			p.key.text = "type"
			kept = append(kept, p)
		default:
			kept = append(kept, p)
		}
	}
	n.pairs = kept
	if envFile != nil && envFile.shape == isText {
		l.adoptEnvFile(n, envFile, join(path, "envFile"))
	}
}

// adoptEnvFile adds the variables of a dotenv file below those of env, which win.
func (l *loader) adoptEnvFile(n, file *node, path string) {
	name, ok := l.expand(file, path)
	if !ok {
		return
	}
	src, err := readFile(l.absolute(name), maxPEM)
	if err != nil {
		l.fail(file, path, "%q %v", short(file.text), err)
		return
	}
	env := n.get("env")
	if env == nil {
		env = place(file.line, file.col)
		key := *env
		key.shape, key.text = isText, "env"
		n.pairs = append(n.pairs, pair{&key, env})
	}
	if env.shape != isMapping && env.shape != isNull {
		return // reported while decoding
	}
	env.shape = isMapping
	for _, v := range dotenv(string(src)) {
		if env.get(v[0]) == nil {
			key, val := *place(file.line, file.col), *place(file.line, file.col)
			key.shape, key.text = isText, v[0]
			val.shape, val.text, val.literal = isText, v[1], true
			env.pairs = append(env.pairs, pair{&key, &val})
		}
	}
}

// dotenv reads NAME=value lines, with or without export, quotes and # comments. Other lines are skipped;
// of a name given twice the last counts.
func dotenv(src string) [][2]string {
	var out [][2]string
	seen := map[string]int{} // name → index in out
	for line := range strings.Lines(src) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || !plainName.MatchString(name) {
			continue
		}
		v := [2]string{name, dotenvValue(strings.TrimSpace(value))}
		if i, twice := seen[name]; twice {
			out[i] = v
			continue
		}
		seen[name] = len(out)
		out = append(out, v)
	}
	return out
}

func dotenvValue(v string) string {
	if v != "" && (v[0] == '"' || v[0] == '\'') {
		if end := strings.IndexByte(v[1:], v[0]); end >= 0 {
			quoted := v[1 : end+1]
			if v[0] == '"' {
				quoted = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(quoted)
			}
			return quoted
		}
	}
	v, _, _ = strings.Cut(v, " #")
	return strings.TrimSpace(v)
}
