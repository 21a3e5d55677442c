package builtin

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
)

// logo draws two overlapping rings on a transparent square of 64 pixels, as PNG.
func logo() []byte {
	img := image.NewPaletted(image.Rect(0, 0, 64, 64), color.Palette{
		color.Transparent, color.RGBA{0x2b, 0x6c, 0xb0, 0xff}, color.RGBA{0xdd, 0x6b, 0x20, 0xff},
	})
	ring(img, 24, 32, 1)
	ring(img, 40, 32, 2)
	return encode(img)
}

// ring draws a circle of radius 18 and line width 5 around a centre.
func ring(img *image.Paletted, cx, cy int, colour uint8) {
	for y := range 64 {
		for x := range 64 {
			d := (x-cx)*(x-cx) + (y-cy)*(y-cy)
			if d >= 15*15 && d <= 20*20 {
				img.SetColorIndex(x, y, colour)
			}
		}
	}
}

// swatch is a square of one colour, as PNG.
func swatch(c color.Color) []byte {
	return encode(image.NewPaletted(image.Rect(0, 0, 16, 16), color.Palette{c}))
}

// encode cannot fail: the images are small and the buffer takes everything.
func encode(img image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err)
	}
	return b.Bytes()
}
