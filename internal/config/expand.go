package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Variable references in values (UP-5): ${VAR}, ${VAR:-default}, {{.VAR}}. $$ is a dollar sign and
// {{"{{"}} two braces, as in Go's templates; a $ before anything else is itself.
// The text is expanded after parsing, so a variable's value can never become structure.

const varName = `[A-Za-z_][A-Za-z0-9_]*`

var (
	bracesRef  = regexp.MustCompile(`^\{\{ *\.(` + varName + `) *\}\}`)
	plainName  = regexp.MustCompile(`^` + varName + `$`)
	prefixName = regexp.MustCompile(`^` + varName)
)

const openBraces = `{{"{{"}}`

// maxNested bounds references inside defaults, such as ${A:-${B:-c}}.
const maxNested = 8

// expand replaces the references in a scalar. ok is false after something was reported.
func (l *loader) expand(n *node, path string) (expanded string, ok bool) {
	if n.literal {
		l.taken = append(l.taken, n.text)
		return n.text, true
	}
	if n.shape != isText || !strings.ContainsAny(n.text, "${") {
		return n.text, true
	}
	before := len(l.problems)
	s := l.expandText(n, path, n.text, 0)
	return s, len(l.problems) == before
}

func (l *loader) expandText(n *node, path, s string, nested int) string {
	var out strings.Builder
	for s != "" {
		i := strings.IndexAny(s, "${")
		if i < 0 {
			break
		}
		out.WriteString(s[:i])
		s = s[i:]
		switch {
		case strings.HasPrefix(s, "$$"):
			out.WriteByte('$')
			s = s[2:]
		case strings.HasPrefix(s, openBraces):
			out.WriteString("{{")
			s = s[len(openBraces):]
		case strings.HasPrefix(s, "${"):
			body, rest, ok := closing(s[2:])
			if !ok {
				l.fail(n, path, `"${" has no closing "}"; a plain dollar sign is written $$`)
				return ""
			}
			out.WriteString(l.reference(n, path, body, nested))
			s = rest
		default:
			if m := bracesRef.FindStringSubmatch(s); m != nil {
				out.WriteString(l.variable(n, path, m[1]))
				s = s[len(m[0]):]
				continue
			}
			out.WriteByte(s[0])
			s = s[1:]
		}
	}
	return out.String() + s
}

// closing splits behind the } that closes a reference, stepping over references inside it.
func closing(s string) (body, rest string, ok bool) {
	depth := 1
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "${"):
			depth++
			i++
		case strings.HasPrefix(s[i:], openBraces):
			i += len(openBraces) - 1
		case s[i] == '{':
			i += max(len(bracesRef.FindString(s[i:]))-1, 0)
		case s[i] == '}':
			if depth--; depth == 0 {
				return s[:i], s[i+1:], true
			}
		}
	}
	return "", "", false
}

// reference expands what stands between ${ and }.
func (l *loader) reference(n *node, path, body string, nested int) string {
	name := prefixName.FindString(body)
	rest := body[len(name):]
	switch {
	case name != "" && rest == "":
		if l.foreign {
			if v, ok := l.editorVariable(name); ok {
				return v
			}
		}
		return l.variable(n, path, name)
	case name != "" && strings.HasPrefix(rest, ":-"):
		if v, ok := l.env(name); ok && v != "" {
			return l.take(name, v)
		}
		if nested == maxNested {
			l.fail(n, path, "more than %d references inside one another", maxNested)
			return ""
		}
		return l.expandText(n, path, rest[2:], nested+1)
	case l.foreign:
		return l.editorReference(n, path, body)
	case strings.HasPrefix(body, "env:") && plainName.MatchString(body[4:]):
		l.fail(n, path, "${%s} is written ${%s} here", short(body), short(body[4:]))
	default:
		l.fail(n, path, `${%s} is no variable reference; these are ${VAR} and ${VAR:-default}, and a plain dollar sign is written $$`, short(body))
	}
	return ""
}

func (l *loader) variable(n *node, path, name string) string {
	v, ok := l.env(name)
	if !ok {
		l.fail(n, path, "environment variable %s is not set; set it, or give a default: ${%[1]s:-default}", short(name))
		return ""
	}
	return l.take(name, v)
}

// public are variables whose values would only blank out ordinary text if they were treated as secrets.
var public = map[string]bool{"HOME": true, "USER": true, "LOGNAME": true, "PATH": true, "PWD": true, "SHELL": true,
	"LANG": true, "TMPDIR": true, "HOSTNAME": true, "USERPROFILE": true, "APPDATA": true, "LOCALAPPDATA": true}

// take remembers a variable's value as a secret of the server being read.
func (l *loader) take(name, value string) string {
	if !public[name] {
		l.taken = append(l.taken, value)
	}
	if secretName.MatchString(name) {
		l.telling = append(l.telling, value)
	}
	return value
}

// editorVariable knows the variables without a colon that VS Code and Cursor define.
func (l *loader) editorVariable(name string) (string, bool) {
	switch name {
	case "workspaceFolder", "workspaceRoot":
		return l.workspace(), true
	case "workspaceFolderBasename":
		return filepath.Base(l.workspace()), true
	case "userHome":
		home, err := os.UserHomeDir()
		return home, err == nil
	case "pathSeparator":
		return string(filepath.Separator), true
	}
	return "", false
}

// workspace is the folder a project's file belongs to: .vscode/mcp.json and .cursor/mcp.json lie one below it.
func (l *loader) workspace() string {
	if strings.HasPrefix(filepath.Base(l.dir), ".") {
		return filepath.Dir(l.dir)
	}
	return l.dir
}

// editorReference expands ${env:VAR}, ${input:id} and ${/}; the rest needs a running editor.
func (l *loader) editorReference(n *node, path, body string) string {
	form, name, _ := strings.Cut(body, ":")
	switch {
	case body == "/":
		return string(filepath.Separator)
	case form == "env" && plainName.MatchString(name):
		return l.variable(n, path, name)
	case form == "input" && name != "":
		return l.input(n, path, name)
	case form == "workspaceFolder":
		return l.workspace()
	}
	l.fail(n, path, "${%s} is known only inside the editor; write the value or ${env:NAME}", short(body))
	return ""
}

// input stands in for the question an editor would ask: a variable named after it, else the default of the question.
func (l *loader) input(n *node, path, id string) string {
	name := "MCP_INPUT_" + strings.ToUpper(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(id, "_"))
	if v, ok := l.env(name); ok {
		return l.take(name, v)
	}
	if v := l.inputs[id]; v != "" {
		return v
	}
	l.fail(n, path, "${input:%s} would be asked for by the editor, which is not possible here; set the environment variable %s, or write ${env:NAME} instead", short(id), short(name))
	return ""
}
