package config

import (
	"encoding/json"
	"strconv"
)

// reference matches text with a variable reference, which any setting may be written as.
const reference = `\$\{|\{\{`

// Schema returns the JSON Schema of the YAML file, for editors. It is draft-07, the newest that
// the YAML language server supports in full.
func Schema() []byte {
	root := sectionSchema(rootFields)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "mcp-aggregator configuration"
	root["required"] = []string{"servers"}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps of strings and numbers always encode
	}
	return append(out, '\n')
}

func sectionSchema(fields []field) map[string]any {
	properties := map[string]any{}
	for _, f := range fields {
		s := f.schema()
		s["description"] = f.doc
		if f.def != "" {
			s["default"] = f.defaultValue()
		}
		properties[f.key] = s
	}
	return map[string]any{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

func (f field) schema() map[string]any {
	switch f.kind {
	case kindSection:
		return f.sectionOrShort()
	case kindSectionMap:
		return map[string]any{"type": "object", "additionalProperties": f.sectionOrShort()}
	case kindSectionList:
		return map[string]any{"type": "array", "items": f.sectionOrShort()}
	case kindServers:
		return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": false,
			"patternProperties": map[string]any{serverName.String(): serverSchema()}}
	case kindStrings:
		return stringsSchema()
	case kindStringMap:
		return map[string]any{"type": "object", "additionalProperties": scalarSchema()}
	case kindListMap:
		return map[string]any{"type": "object", "additionalProperties": stringsSchema()}
	case kindBool:
		return orReference(map[string]any{"type": "boolean"})
	case kindInt, kindSize:
		return orReference(f.numberSchema(), f.unitSchema())
	case kindFloat:
		return orReference(f.floatSchema())
	case kindDuration:
		return orReference(map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(h|m|s|ms|us|µs|ns))+$|^0$`})
	}
	if len(f.enum) > 0 {
		return orReference(map[string]any{"enum": f.choices()})
	}
	return scalarSchema()
}

func serverSchema() map[string]any {
	s := sectionSchema(serverFields)
	s["type"] = "object"
	var one []any
	for _, k := range kindsOfServer {
		one = append(one, map[string]any{"required": []string{k}})
	}
	s["oneOf"] = one
	return s
}

// sectionOrShort allows the plain value that may stand for a section.
func (f field) sectionOrShort() map[string]any {
	section := sectionSchema(f.sub)
	short, ok := find(f.sub, f.short)
	if !ok {
		return section
	}
	return map[string]any{"anyOf": []any{section, short.schema()}}
}

func (f field) floatSchema() map[string]any {
	low, _ := strconv.ParseFloat(f.min, 64)
	s := map[string]any{"type": "number", "minimum": low}
	if high, err := strconv.ParseFloat(f.max, 64); err == nil {
		s["maximum"] = high
	}
	return s
}

func (f field) numberSchema() map[string]any {
	low, _ := f.number(f.min)
	s := map[string]any{"type": "integer", "minimum": low}
	if high, ok := f.number(f.max); ok {
		s["maximum"] = high
	}
	return s
}

// unitSchema allows the other way to write a size, or nothing for plain numbers.
func (f field) unitSchema() map[string]any {
	if f.kind != kindSize {
		return nil
	}
	return map[string]any{"type": "string", "pattern": `^[0-9]+ ?(B|kB|KB|MB|GB|KiB|MiB|GiB)?$`}
}

// choices are the values proper, then the other spellings in the order of the tag.
func (f field) choices() []string {
	out := append([]string{}, f.enum...)
	return append(out, f.spellings...)
}

// scalarSchema is text; YAML writers leave the quotes off 8080 and true.
func scalarSchema() map[string]any {
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}

func stringsSchema() map[string]any {
	return map[string]any{"type": "array", "items": scalarSchema()}
}

// orReference lets a setting be written as ${VAR} instead of any of the given forms.
func orReference(forms ...map[string]any) map[string]any {
	var allowed []any
	for _, f := range forms {
		if f != nil {
			allowed = append(allowed, f)
		}
	}
	return map[string]any{"anyOf": append(allowed, map[string]any{"type": "string", "pattern": reference})}
}

// defaultValue is the default as a value of the schema's type.
func (f field) defaultValue() any {
	switch f.kind {
	case kindBool:
		return f.def == "true"
	case kindInt:
		n, _ := f.number(f.def)
		return n
	case kindFloat:
		n, _ := strconv.ParseFloat(f.def, 64)
		return n
	}
	return f.def
}
