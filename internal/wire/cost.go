package wire

import (
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cost is what a request of a key may take in memory while it is decoded, as a
// multiple of its frame: 1 + the largest ratio, over all versions and all arrays
// of the schema, between an element in memory and its shortest form on the wire.
// (1 MiB of Metadata v4 can name half a million empty topics and decodes to
// 24 MiB.) Found by encoding, so it follows kmsg. Keys that kmsg lacks cost 1.
//
// Produce costs 1: its arrays are held to account by ParseBody instead, since
// nearly all of an honest frame is records, which are not copied.
func Cost(key int16) int64 {
	req := kmsg.RequestForKey(key)
	if req == nil || key == KeyProduce {
		return 1
	}
	worst := int64(1)
	for v := int16(0); v <= req.MaxVersion(); v++ {
		worst = max(worst, expansion(key, v))
	}
	return 1 + worst
}

// expansion measures one version: each array of the schema in turn gets one more
// element than its surroundings need, and the frame's growth is the element's price.
func expansion(key, version int16) int64 {
	fresh := func() (kmsg.Request, reflect.Value) {
		r := kmsg.RequestForKey(key)
		r.SetVersion(version)
		return r, reflect.ValueOf(r).Elem()
	}
	_, root := fresh()
	worst := int64(1)
	for _, path := range arrays(root.Type(), nil) {
		one, v := fresh()
		fill(v, path, 1)
		two, w := fresh()
		elem := fill(w, path, 2)
		grown := len(two.AppendTo(nil)) - len(one.AppendTo(nil))
		if grown > 0 {
			worst = max(worst, (elem+int64(grown)-1)/int64(grown))
		}
	}
	return worst
}

// arrays lists the paths of field indexes to every array of a schema.
func arrays(t reflect.Type, prefix []int) (paths [][]int) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		path := append(append([]int(nil), prefix...), i)
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case ft.Kind() == reflect.Slice && ft.Elem().Kind() != reflect.Uint8:
			paths = append(paths, path)
			if ft.Elem().Kind() == reflect.Struct {
				paths = append(paths, arrays(ft.Elem(), path)...)
			}
		case ft.Kind() == reflect.Struct && ft != tagsType:
			paths = append(paths, arrays(ft, path)...)
		}
	}
	return paths
}

var tagsType = reflect.TypeFor[kmsg.Tags]()

// fill makes every array on the way to path one long and the last one n long;
// it returns the bytes of an element in memory, what it points at included.
func fill(v reflect.Value, path []int, n int) int64 {
	for depth, i := range path {
		v = v.Field(i)
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		if v.Kind() != reflect.Slice {
			continue
		}
		last := depth == len(path)-1
		size := 1
		if last {
			size = n
		}
		v.Set(reflect.MakeSlice(v.Type(), size, size))
		for j := range size {
			if d, ok := v.Index(j).Addr().Interface().(interface{ Default() }); ok {
				d.Default()
			}
		}
		if last {
			return footprint(v.Type().Elem())
		}
		v = v.Index(0)
	}
	return 0
}

// footprint is the size of a value with the string headers that its pointers cost.
func footprint(t reflect.Type) int64 {
	size := int64(t.Size())
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			if f := t.Field(i).Type; f.Kind() == reflect.Pointer {
				size += int64(f.Elem().Size())
			}
		}
	}
	return size
}

// checkProduce walks a Produce body without decoding it and refuses one whose
// topics, partitions and tags would take more memory than the frame itself and a
// fixed allowance. No producer is near: a partition without a batch has no use.
func checkProduce(body []byte, version int16) error {
	const (
		allowance      = 1 << 20
		topicBytes     = 96
		partitionBytes = 64
		tagBytes       = 320 // a map of one entry
	)
	w := walker{b: body, flexible: version >= 9}
	if version >= 3 {
		w.str()
	}
	w.skip(2 + 4) // acks, timeout
	overhead := int64(0)
	for topics := w.count(); topics > 0 && !w.bad; topics-- {
		if version >= 13 {
			w.skip(16)
		} else {
			w.str()
		}
		parts := w.count()
		overhead += topicBytes + partitionBytes*int64(parts)
		for ; parts > 0 && !w.bad; parts-- {
			w.skip(4)
			w.bytes()
			overhead += tagBytes * int64(w.tags())
		}
		overhead += tagBytes * int64(w.tags())
	}
	overhead += tagBytes * int64(w.tags())
	if w.bad {
		return fmt.Errorf("%w Produce request v%d", ErrMalformed, version)
	}
	if overhead > int64(len(body))+allowance {
		return fmt.Errorf("%w Produce request v%d: %d bytes would decode to %d more", ErrMalformed, version, len(body), overhead)
	}
	return nil
}

// walker steps over fields of a body; after the first that does not fit, bad is
// set and every count is zero.
type walker struct {
	b        []byte
	flexible bool
	bad      bool
}

func (w *walker) skip(n int) {
	if n < 0 || n > len(w.b) {
		w.bad, w.b = true, nil
		return
	}
	w.b = w.b[n:]
}

func (w *walker) uvarint() uint32 {
	v, rest, ok := uvarint(w.b)
	if !ok {
		w.bad, w.b = true, nil
		return 0
	}
	w.b = rest
	return v
}

func (w *walker) fixed(n int) (v int32) {
	if len(w.b) < n {
		w.bad, w.b = true, nil
		return 0
	}
	for _, c := range w.b[:n] {
		v = v<<8 | int32(c)
	}
	w.b = w.b[n:]
	return v
}

func (w *walker) str() {
	n := 0
	if w.flexible {
		n = int(w.uvarint()) - 1
	} else {
		n = int(int16(w.fixed(2)))
	}
	w.skip(max(n, 0))
}

func (w *walker) bytes() {
	n := 0
	if w.flexible {
		n = int(w.uvarint()) - 1
	} else {
		n = int(w.fixed(4))
	}
	w.skip(max(n, 0))
}

func (w *walker) count() int {
	n := 0
	if w.flexible {
		n = int(w.uvarint()) - 1
	} else {
		n = int(w.fixed(4))
	}
	if n > len(w.b) {
		w.bad, w.b = true, nil
	}
	if w.bad {
		return 0
	}
	return max(n, 0)
}

func (w *walker) tags() int {
	if !w.flexible {
		return 0
	}
	n := int(w.uvarint())
	if n > len(w.b) {
		w.bad, w.b = true, nil
	}
	for i := 0; i < n && !w.bad; i++ {
		w.uvarint()
		w.skip(int(w.uvarint()))
	}
	if w.bad {
		return 0
	}
	return n
}
