package admin

import (
	"reflect"
	"strings"
	"time"
)

// settings shows a part of the configuration under the keys of the file. Settings that
// say nothing are left out, and so is everything that has no key.
func settings(part any) map[string]any {
	v := reflect.ValueOf(part)
	out := make(map[string]any, v.NumField())
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if key == "" || key == "-" || v.Field(i).IsZero() {
			continue
		}
		out[key] = setting(v.Field(i))
	}
	return out
}

func setting(v reflect.Value) any {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return setting(v.Elem())
	case reflect.Struct:
		return settings(v.Interface())
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = setting(v.Index(i))
		}
		return out
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for _, k := range v.MapKeys() {
			out[k.String()] = setting(v.MapIndex(k))
		}
		return out
	}
	return v.Interface()
}
