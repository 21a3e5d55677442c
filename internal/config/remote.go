package config

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"strings"
)

// maxPEM is the largest certificate or key file that is read.
const maxPEM = 1 << 20

func webSocketURL(s string) bool {
	return hasScheme(s, "ws") || hasScheme(s, "wss")
}

func hasScheme(s, scheme string) bool {
	before, _, ok := strings.Cut(s, "://")
	return ok && strings.EqualFold(before, scheme)
}

func schemesOf(t Type) []string {
	if t == TypeWebSocket {
		return []string{"ws://", "wss://"}
	}
	return []string{"http://", "https://"}
}

// remote checks what belongs to a server reached over the network.
func (c *serverCheck) remote() {
	if v := c.n.get("url"); v != nil && c.URL != "" {
		c.URL = c.withID(c.URL)
		if problem := c.checkURL(); problem != "" {
			c.fail(v, join(c.path, "url"), "%s", problem)
		}
	}
	c.headers()
	c.bearer()
	c.tlsFiles()
}

// withID fills in the server id of a claude.ai address.
func (c *serverCheck) withID(address string) string {
	if c.Type != TypeClaudeAI || c.ServerID == "" {
		return address
	}
	return strings.NewReplacer("{server_id}", url.PathEscape(c.ServerID), "{id}", url.PathEscape(c.ServerID)).Replace(address)
}

// checkURL says what is wrong with the address, without repeating it: it may hold a password or a token.
func (c *serverCheck) checkURL() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "is not a valid URL"
	}
	schemes := schemesOf(c.Type)
	if c.Type == "" || c.Type == TypeStdio || c.Type == TypeBuiltin {
		schemes = []string{"http://", "https://", "ws://", "wss://"}
	}
	for _, s := range schemes {
		if hasScheme(c.URL, strings.TrimSuffix(s, "://")) {
			if u.Hostname() == "" {
				return "has no host"
			}
			if p := u.Port(); p != "" && !validPort(p) {
				return "has a port that is not between 1 and 65535"
			}
			return ""
		}
	}
	if c.Type == "" {
		return "must begin with " + oneOf(schemes)
	}
	return "must begin with " + oneOf(schemes) + " with type " + string(c.Type)
}

// headers checks names and values (RFC 9110 section 5). Values are never repeated.
func (c *serverCheck) headers() {
	n := c.n.get("headers")
	if n == nil || n.shape != isMapping {
		return
	}
	seen := map[string]string{} // lower-case name → as written first
	for _, p := range n.pairs {
		name := p.key.text
		path := join(join(c.path, "headers"), short(name))
		lower := strings.ToLower(name)
		switch first, twice := seen[lower]; {
		case !validToken(name):
			c.fail(p.key, path, "%q is not a header name", short(name))
		case twice:
			c.fail(p.key, path, "the same header as %q", first)
		case ownHeader(lower):
			c.mind(p.key, path, "is set by the aggregator itself; remove it")
			delete(c.Headers, name)
		case !validHeaderValue(c.Headers[name]):
			c.fail(p.val, path, "the value holds a line break or control character")
		}
		seen[lower] = name
	}
	if len(c.Headers) == 0 {
		c.Headers = nil
	}
}

func (c *serverCheck) bearer() {
	if c.BearerToken == "" {
		return
	}
	if strings.ContainsFunc(c.BearerToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		c.fail(c.n.get("bearer_token"), join(c.path, "bearer_token"), "holds a blank, line break or other character that no token has")
	}
	for name := range c.Headers {
		if strings.EqualFold(name, "Authorization") {
			c.failAt("bearer_token", "headers already sets %s; keep one of them", name)
		}
	}
}

// tlsFiles makes the paths absolute and proves that the files can be used.
func (c *serverCheck) tlsFiles() {
	n := c.n.get("tls")
	if n == nil || n.shape != isMapping {
		return
	}
	files := map[string]*string{"ca_file": &c.TLS.CAFile, "cert_file": &c.TLS.CertFile, "key_file": &c.TLS.KeyFile}
	content := map[string][]byte{}
	for _, key := range []string{"ca_file", "cert_file", "key_file"} {
		if *files[key] == "" {
			continue
		}
		*files[key] = c.absolute(*files[key])
		data, err := readFile(*files[key], maxPEM)
		if err != nil {
			c.failTLS(n, key, "%q %v", short(n.get(key).text), err)
			continue
		}
		content[key] = data
	}
	if ca, ok := content["ca_file"]; ok && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		c.failTLS(n, "ca_file", "%q holds no PEM certificate", short(n.get("ca_file").text))
	}
	cert, hasCert := content["cert_file"]
	key, hasKey := content["key_file"]
	switch {
	case c.TLS.CertFile != "" && c.TLS.KeyFile == "":
		c.failTLS(n, "cert_file", "needs key_file beside it")
	case c.TLS.KeyFile != "" && c.TLS.CertFile == "":
		c.failTLS(n, "key_file", "needs cert_file beside it")
	case hasCert && hasKey:
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			c.failTLS(n, "cert_file", "does not work with key_file: %s", strings.TrimPrefix(err.Error(), "tls: "))
		}
	}
}

func (c *serverCheck) failTLS(n *node, key, format string, args ...any) {
	c.fail(n.get(key), join(join(c.path, "tls"), key), format, args...)
}
