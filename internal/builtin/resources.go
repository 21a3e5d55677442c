package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	aboutURI   = "demo://about"
	logoURI    = "demo://logo.png"
	counterURI = "demo://counter"

	itemPrefix     = "demo://item/"
	itemTemplate   = itemPrefix + "{id}"
	cityPrefix     = "demo://city/"
	cityTemplate   = cityPrefix + "{country}/{city}"
	swatchPrefix   = "demo://swatch/"
	swatchTemplate = swatchPrefix + "{colour}"
)

const about = `# Everything

This resource belongs to the built-in demo server. Beside it there are

- ` + logoURI + `: an image,
- ` + counterURI + `: a number that grows once a second while somebody is subscribed to it,
- ` + itemTemplate + `, ` + cityTemplate + ` and ` + swatchTemplate + `: templates with completion.
`

// addDemoResources adds text and binary resources, fixed ones and templates.
func addDemoResources(s *mcp.Server, c *counter) {
	s.AddResource(&mcp.Resource{
		URI: aboutURI, Name: "about", Title: "About this server", MIMEType: "text/markdown",
		Description: "What this server offers", Size: int64(len(about)),
		Annotations: &mcp.Annotations{Audience: []mcp.Role{"user", "assistant"}, Priority: 0.8},
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return contents(&mcp.ResourceContents{URI: aboutURI, MIMEType: "text/markdown", Text: about}), nil
	})
	s.AddResource(&mcp.Resource{
		URI: logoURI, Name: "logo.png", Title: "Logo", MIMEType: "image/png", Description: "Two rings, as a blob",
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return contents(&mcp.ResourceContents{URI: logoURI, MIMEType: "image/png", Blob: logo()}), nil
	})
	s.AddResource(&mcp.Resource{
		URI: counterURI, Name: "counter", Title: "Counter", MIMEType: "text/plain",
		Description: "Grows once a second while somebody is subscribed",
	}, c.read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: itemTemplate, Name: "item", Title: "Item", MIMEType: "text/plain",
		Description: "A text made from the id in its URI",
	}, readItem)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: cityTemplate, Name: "city", Title: "City", MIMEType: "application/json",
		Description: "A few cities; completion of the city depends on the country",
	}, readCity)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: swatchTemplate, Name: "swatch", Title: "Colour swatch", MIMEType: "image/png",
		Description: "An image of one colour, as a blob",
	}, readSwatch)
}

func contents(c *mcp.ResourceContents) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}
}

// legacyNotFound is the code of an unknown resource before 2026-07-28, which made it an
// invalid parameter.
const legacyNotFound = -32002

// noSuchResource is the protocol's error for a URI that leads nowhere. The SDK's own
// helper quotes the URI in Go syntax, which is not JSON for every URI.
func noSuchResource(req *mcp.ReadResourceRequest) error {
	data, err := json.Marshal(map[string]string{"uri": req.Params.URI})
	if err != nil {
		return fmt.Errorf("describing unknown resource: %w", err)
	}
	code := int64(jsonrpc.CodeInvalidParams)
	if req.ProtocolVersion() < firstModern {
		code = legacyNotFound
	}
	return &jsonrpc.Error{Code: code, Message: "Resource not found", Data: data}
}

// variable returns what follows prefix in a URI, unescaped.
func variable(uri, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, prefix)
	if !ok {
		return "", false
	}
	v, err := url.PathUnescape(rest)
	return v, err == nil && v != ""
}

func itemURI(id string) string { return itemPrefix + url.PathEscape(id) }

func item(id string) *mcp.ResourceContents {
	return &mcp.ResourceContents{URI: itemURI(id), MIMEType: "text/plain", Text: "This is item " + id + "."}
}

func readItem(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id, ok := variable(req.Params.URI, itemPrefix)
	if !ok {
		return nil, noSuchResource(req)
	}
	c := item(id)
	c.URI = req.Params.URI // as the client wrote it
	return contents(c), nil
}

// cities maps country to its cities, sorted. It is read only.
var cities = map[string][]string{
	"france":  {"lyon", "marseille", "paris"},
	"germany": {"berlin", "hamburg", "munich"},
	"japan":   {"kyoto", "osaka", "tokyo"},
}

func readCity(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	path, _ := variable(req.Params.URI, cityPrefix)
	country, city, _ := strings.Cut(path, "/")
	if !slices.Contains(cities[country], city) {
		return nil, noSuchResource(req)
	}
	body, err := json.Marshal(map[string]string{"country": country, "city": city})
	if err != nil {
		return nil, fmt.Errorf("describing city: %w", err)
	}
	return contents(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "application/json", Text: string(body)}), nil
}

// colours maps the name of a swatch to its colour. It is read only.
var colours = map[string]color.RGBA{
	"red":   {0xe5, 0x3e, 0x3e, 0xff},
	"green": {0x38, 0xa1, 0x69, 0xff},
	"blue":  {0x31, 0x82, 0xce, 0xff},
}

func readSwatch(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	name, _ := variable(req.Params.URI, swatchPrefix)
	c, ok := colours[name]
	if !ok {
		return nil, noSuchResource(req)
	}
	return contents(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "image/png", Blob: swatch(c)}), nil
}
