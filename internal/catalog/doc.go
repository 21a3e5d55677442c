// Package catalog merges what the upstream servers offer into one immutable picture:
// it checks definitions, gives them the names clients see, and holds the pages of the
// lists ready to be sent.
//
// [NewListing] runs once per refresh of a server and can run for many servers at the
// same time; [Build] puts listings together. Both are functions of their arguments:
// nothing in here starts a goroutine, keeps state or depends on the order of a map,
// and what they return is never modified, so it is shared without locks.
//
// # Definitions
//
// A definition stays the bytes it came as. What must change is spliced: the name,
// and in titles and descriptions characters that cannot be seen and text beyond the
// limit. A definition that breaks a rule is left out and reported; the others stay
// (CAT-6). The rules are those whose breach makes hosts refuse a whole list (a schema
// that is none or no object schema, a reference to nowhere) or could harm them (size,
// depth, references that grow without bound). Everything else passes, also what no
// typed client decodes.
//
// Schemas are read in one walk over their bytes. The alternative, decoding and
// resolving them with google/jsonschema-go, is the oracle of the tests. For a tool of
// 1.0 kB with eight properties, all checks included (BenchmarkCheck, 2 cores):
//
//	                  walk               library (schema only)
//	plain             3.1 µs,  9 allocs  150 µs, 1,618 allocs
//	with references   11 µs,  47 allocs  200 µs, 1,936 allocs
//
// For 10,000 tools that is 31 ms against 1.5 s; start-up as a whole has 450 ms.
//
// # Size
//
// 10,000 such tools of 200 servers: Build takes 7 ms and makes 12 MB, of which 10.5
// are the pages; entries point into them. The listings hold the bytes of the servers,
// 10 MB, and 1.2 MB beside them. Finding a tool takes 25 ns, comparing two snapshots
// 1.7 ms.
package catalog
