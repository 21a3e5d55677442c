package tokens

import "unicode/utf8"

// wide is what a character beyond ASCII costs, n bytes long. Chinese is charged
// between what o200k_base and its predecessors count, a third apart.
func wide(r rune, n int) cents {
	switch {
	case n == 1: // not UTF-8
		return token
	case 0x4e00 <= r && r <= 0x9fff: // Han
		return 90
	case r < 0x0250: // Latin with marks
		return 55
	case 0x0400 <= r && r < 0x0530: // Cyrillic
		return 33
	case r < 0x0e00: // Greek, Hebrew, Arabic, Indic
		return 45
	case r < 0x1100:
		return 60
	case 0x2000 <= r && r < 0x2070: // dashes, quotation marks
		return 100
	case 0x2500 <= r && r < 0x2580: // box drawing, mostly in long lines
		return 45
	case 0x3000 <= r && r < 0x3040, 0xff00 <= r && r < 0xfff0: // Chinese punctuation
		return 95
	case 0x3040 <= r && r < 0x3100, 0xac00 <= r && r < 0xd7b0: // kana, Hangul
		return 70
	case r == utf8.RuneError:
		return 200
	case r >= 0x10000: // emoji, rare characters
		return 220
	}
	return 140
}
