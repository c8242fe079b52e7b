package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// extra holds the top-level fields of a value that this build does not know.
type extra map[string]json.RawMessage

// ValueError names a key whose value could not be used. The image keeps what
// it held under that key before.
type ValueError struct {
	Key    string
	ModRev int64
	Err    error
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("metadata key %s at revision %d: %v", e.Key, e.ModRev, e.Err)
}

func (e *ValueError) Unwrap() error { return e.Err }

// ErrNewerValue marks a value whose version this build must not touch.
var ErrNewerValue = errors.New("written by a newer version of Barnabas")

var errKey = errors.New("not a key of this family")

// value is a JSON form of some part of the image.
type value interface{ schema() *schema }

// schema is what the codec knows about a JSON form.
type schema struct {
	version int      // newest version understood, and the one written
	fields  []string // known top-level fields
}

func schemaOf[T any](version int) *schema {
	t := reflect.TypeFor[T]()
	s := &schema{version: version}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		s.fields = append(s.fields, name)
	}
	return s
}

// knows folds case, as encoding/json does when it looks for a field.
func (s *schema) knows(field string) bool {
	return slices.ContainsFunc(s.fields, func(f string) bool { return strings.EqualFold(f, field) })
}

type versioned struct {
	Version int `json:"version"`
}

// decode fills v and returns the fields that v does not know. The common value
// has none, and is parsed once.
func decode(data []byte, v value) (extra, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		_, end := dec.Token()
		if end != io.EOF {
			return nil, errors.New("more than one JSON value")
		}
		// Every form has its version as the first field.
		return nil, v.schema().check(int(reflect.ValueOf(v).Elem().Field(0).Int()))
	}
	var head versioned
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	if err := v.schema().check(head.Version); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, err
	}
	all := extra{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(field string, _ json.RawMessage) bool { return v.schema().knows(field) })
	if len(all) == 0 {
		all = nil
	}
	return all, nil
}

func (s *schema) check(version int) error {
	switch {
	case version < 1:
		return fmt.Errorf("version %d: every value has one, from 1", version)
	case version > s.version:
		return fmt.Errorf("version %d, this build knows %d: %w", version, s.version, ErrNewerValue)
	}
	return nil
}

// encode gives the JSON of v with the unknown fields x behind its own.
func encode(v value, x extra) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("meta: %T cannot be written as JSON: %v", v, err)) // our own forms hold nothing that fails
	}
	if len(x) == 0 {
		return b
	}
	b = b[:len(b)-1]
	for _, field := range slices.Sorted(maps.Keys(x)) {
		name, err := json.Marshal(field)
		if err != nil {
			panic(fmt.Sprintf("meta: field %q cannot be written as JSON: %v", field, err)) // strings always can
		}
		b = append(b, ',')
		b = append(b, name...)
		b = append(b, ':')
		b = append(b, x[field]...)
	}
	return append(b, '}')
}

// stamp is where a value stands in the store.
type stamp struct {
	CreateRev int64
	ModRev    int64 // what a transaction that rewrites it compares; 0: absent
}

func stampOf(e kv.KV) stamp { return stamp{CreateRev: e.CreateRev, ModRev: e.ModRev} }
