// Package mask replaces secrets in the results of tools, before anything else sees
// them. A masked piece becomes [masked:kind]; everything around it stays byte for byte.
//
// What is looked for are built-in kinds in named sets (see Sets), patterns of one's
// own, the data of Kubernetes Secrets, and configured values in all their encodings.
//
// # How
//
// Nearly all text holds no secret, so nearly all work is in saying so. Each kind has
// anchors, short sequences of bytes that every secret of it contains; one pass finds
// all anchors of all kinds (see net). Around an anchor a few bytes tell whether a
// secret can be there, escapes taken into account. Only then patterns run, each in a
// window of bounded size. Where anchors were found, the text is looked at again with
// its JSON and URL escapes taken away, level by level (see view), so secrets in JSON
// inside of JSON, split by \/ or written as \u0041 are found by the same plain patterns.
//
// In a JSON value (Edits) the strings are found by structure: what one string holds
// never spills into the next, a string whose key promises a secret is masked as a whole,
// and only strings with an anchor are decoded at all.
//
// # Guarantees
//
//   - A text in which nothing is found is returned as the same slice.
//   - Masking twice is masking once. A marker counts as masked only if it is exactly one
//     this masker writes, so a forged one hides nothing but the name of a kind.
//   - Edits of valid JSON give valid JSON, with nothing changed outside of strings.
//   - Configured values of at least six bytes are found as they are, in base64 at any
//     place of it (if they have eight bytes or more), in hexadecimal, and under up to four
//     levels of JSON escapes or two of URL escapes.
//   - Time is linear in the text but for bounded windows, whatever a peer sends; regular
//     expressions are RE2. Own patterns are bounded in number, length and compiled size.
//     The views of a text take a few times its size while it is searched.
//
// # Limits
//
//   - Kinds of the set generic go by the name in front of a value and by what the value
//     looks like; a secret without a telling name or form of its own cannot be known.
//   - Numbers that are JSON values stay numbers, whatever their key: "pin": 1234. The
//     schema of a structured result would not allow a text there.
//   - Passwords below three bytes, tokens below eight, cookies below eight stay.
//   - What is compressed, encrypted or encoded in another way than above is not seen;
//     images and other binary content are not looked at.
//   - An own pattern without at least four plain letters or digits that every match has
//     runs over each whole text: that costs more than all built-in kinds together.
//   - A secret that a result holds in two separate strings is not put together.
package mask
