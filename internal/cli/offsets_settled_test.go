package cli

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Offsets are asked for again while a partition is without its leader, and no
// longer than for a while; what does not pass is told at once.
func TestSettled(t *testing.T) {
	listed := func(err error) kadm.ListedOffsets {
		return kadm.ListedOffsets{"t": {0: {Topic: "t", Offset: 5}, 1: {Topic: "t", Partition: 1, Err: err}}}
	}
	for _, c := range []struct {
		what  string
		err   error
		times int // that it fails; 0: always
		want  error
		asked int
	}{
		{"nothing is wrong", nil, 0, nil, 1},
		{"an election", kerr.NotLeaderForPartition, 3, nil, 4},
		{"no leader at all", kerr.LeaderNotAvailable, 0, kerr.LeaderNotAvailable, 77},
		{"refused", kerr.TopicAuthorizationFailed, 0, kerr.TopicAuthorizationFailed, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				got, err := settled(context.Background(), func() (kadm.ListedOffsets, error) {
					if asked++; c.times > 0 && asked > c.times {
						return listed(nil), nil
					}
					return listed(c.err), nil
				})
				if err != nil || got.Error() != c.want || asked != c.asked {
					t.Errorf("%v, %v, asked %d times; want %v, %d times", got.Error(), err, asked, c.want, c.asked)
				}
			})
		})
	}
}
