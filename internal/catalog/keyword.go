package catalog

// A shape is what the value of a schema keyword must be.
type shape uint8

const (
	isSchema    shape = iota + 1 // a schema
	isItems                      // a schema, or the older array of schemas
	isSchemas                    // a non-empty array of schemas
	isSchemaMap                  // an object whose values are schemas
	isDepends                    // an object whose values are schemas or arrays of strings
	isRequired                   // an object whose values are arrays of strings
	isNumber
	isPositive // a number above 0
	isCount    // a whole number from 0
	isLimit    // a number; draft-04 has a boolean
	isBool
	isString
	isStrings // an array of strings
	isArray
	isType
	isRef    // a string that points at a schema
	isText   // title and description: for readers, so hidden characters go
	isHeader // x-mcp-header
)

// A keyword is a rule of the meta-schemas. The table is the union of draft-04 to
// 2020-12: servers leave $schema out whatever they mean, and a value that one of the
// dialects allows is no reason to take a tool away. Keywords that only comment
// (examples, deprecated, $comment, ...) and unknown ones may hold anything.
type keyword struct {
	shape   shape
	inPlace bool // its schemas apply to the same value, not to a part of it
	defines bool // its schemas apply only where a $ref points at them
}

var keywords = map[string]keyword{
	"properties":        {shape: isSchemaMap},
	"patternProperties": {shape: isSchemaMap},
	"dependentSchemas":  {shape: isSchemaMap, inPlace: true},
	"dependencies":      {shape: isDepends, inPlace: true},
	"$defs":             {shape: isSchemaMap, defines: true},
	"definitions":       {shape: isSchemaMap, defines: true},

	"items":                 {shape: isItems},
	"prefixItems":           {shape: isSchemas},
	"additionalItems":       {shape: isSchema},
	"additionalProperties":  {shape: isSchema},
	"unevaluatedItems":      {shape: isSchema},
	"unevaluatedProperties": {shape: isSchema},
	"propertyNames":         {shape: isSchema},
	"contains":              {shape: isSchema},
	"contentSchema":         {shape: isSchema},
	"not":                   {shape: isSchema, inPlace: true},
	"if":                    {shape: isSchema, inPlace: true},
	"then":                  {shape: isSchema, inPlace: true},
	"else":                  {shape: isSchema, inPlace: true},
	"allOf":                 {shape: isSchemas, inPlace: true},
	"anyOf":                 {shape: isSchemas, inPlace: true},
	"oneOf":                 {shape: isSchemas, inPlace: true},

	"type":              {shape: isType},
	"enum":              {shape: isArray},
	"required":          {shape: isStrings},
	"dependentRequired": {shape: isRequired},
	"minimum":           {shape: isNumber},
	"maximum":           {shape: isNumber},
	"exclusiveMinimum":  {shape: isLimit},
	"exclusiveMaximum":  {shape: isLimit},
	"multipleOf":        {shape: isPositive},
	"minLength":         {shape: isCount},
	"maxLength":         {shape: isCount},
	"minItems":          {shape: isCount},
	"maxItems":          {shape: isCount},
	"minProperties":     {shape: isCount},
	"maxProperties":     {shape: isCount},
	"minContains":       {shape: isCount},
	"maxContains":       {shape: isCount},
	"uniqueItems":       {shape: isBool},
	"pattern":           {shape: isString},
	"format":            {shape: isString},
	"$schema":           {shape: isString},
	"$id":               {shape: isString},
	"$anchor":           {shape: isString},
	"$dynamicAnchor":    {shape: isString},
	"$ref":              {shape: isRef},
	"$dynamicRef":       {shape: isRef},
	"title":             {shape: isText},
	"description":       {shape: isText},
	"x-mcp-header":      {shape: isHeader},
}
