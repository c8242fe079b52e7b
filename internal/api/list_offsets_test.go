package api

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// That the answer is OFFSET_NOT_AVAILABLE until the new term's start is
// committed is tested in internal/replica; clients below version 5 do not know
// that error.
func TestLIST04NotAvailable(t *testing.T) {
	a := New(Deps{})
	for version := int16(1); version <= 11; version++ {
		want := kerr.OffsetNotAvailable.Code
		if version < 5 {
			want = kerr.LeaderNotAvailable.Code
		}
		if got := a.listCode(version, fmt.Errorf("high watermark: %w", kerr.OffsetNotAvailable)); got != want {
			t.Errorf("v%d: error %d, want %d", version, got, want)
		}
	}
}
