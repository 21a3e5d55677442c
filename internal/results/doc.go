// Package results makes large results of tools small without losing anything: the
// client gets the beginning, a digest or a summary, and the whole stays readable under
// a handle (RES-1 to RES-7).
//
// A result arrives as the raw JSON bytes it came in, already masked. Whether it is
// large is told from its length, then from an estimate over the raw bytes; only a large
// one is ever decoded. What is not text (images, links, the members the aggregator does
// not know) crosses byte for byte.
//
// Concurrency: everything runs on the goroutines of the calls. A Reducer is safe for
// concurrent use; Configure replaces its models as a whole.
package results
