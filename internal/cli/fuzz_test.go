package cli

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func FuzzFormat(f *testing.F) {
	f.Add(`%t/%p %o %k=%s [%h]\n`)
	f.Add(`\x4`)
	f.Add(`%`)
	r := &kgo.Record{Topic: "t", Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "h"}}}
	f.Fuzz(func(t *testing.T, s string) {
		if format, err := parseFormat(s); err == nil {
			format(nil, r)
		}
		_, _ = parsePosition(s)
	})
}
